//! Nothing that comes from the cluster is ever run, and hostile names are shown as they are.

use serde_json::json;

use crate::browser::{DESK, LIGHT, Report, hostile};

#[test]
fn nothing_is_fetched_and_nothing_is_run() {
    for report in [Report::of_sample("azure-1.27"), hostile()] {
        // The one script is that of the question.
        let found = report.ask(
            DESK,
            LIGHT,
            "[typeof window.pwned, document.scripts.length, \
             document.querySelectorAll('img, b, a:not([href^=\"#\"]), iframe, link, object, embed, form, [style], [onerror]').length, \
             performance.getEntriesByType('resource').length]",
        );
        assert_eq!(found, json!(["undefined", 1, 0, 0]));
    }
}
