//! Nothing that comes from the cluster is ever run, and hostile names are shown as they are.

use serde_json::json;

use crate::browser::{DESK, LIGHT, Report, ask, hostile};

#[test]
fn nothing_is_fetched_and_nothing_is_run() {
    // The one script is that of the question.
    let question = "[typeof window.pwned, document.scripts.length, \
        document.querySelectorAll('img, b, a:not([href^=\"#\"]), iframe, link, object, embed, form, [style], [onerror]').length, \
        performance.getEntriesByType('resource').length]";
    let reports = [Report::of_sample("azure-1.27"), hostile()];
    for found in ask(&reports, DESK, LIGHT, question) {
        assert_eq!(found, json!(["undefined", 1, 0, 0]));
    }
}
