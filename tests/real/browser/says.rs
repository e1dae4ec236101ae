//! The page shows what the report contains, and nothing that comes from the cluster is ever run.

use serde_json::Value;

use crate::browser::devtools::{Page, Scheme};
use crate::browser::{Report, hostile};

const WIDTH: u32 = 1200;

#[test]
fn nothing_is_fetched_and_nothing_is_run() {
    for report in [Report::of_sample("azure-1.27"), hostile()] {
        let mut page = Page::open(&report.url(), WIDTH, Scheme::Light);
        for (what, expected) in [
            ("typeof window.pwned", Value::from("undefined")),
            ("document.scripts.length", Value::from(0)),
            (
                "document.querySelectorAll('img, b, a, iframe, link, object, embed, form, [style], [onerror]').length",
                Value::from(0),
            ),
            (
                "performance.getEntriesByType('resource').length",
                Value::from(0),
            ),
        ] {
            assert_eq!(page.evaluate(what), expected, "{what}");
        }
    }
}

#[test]
fn hostile_names_are_shown_letter_by_letter() {
    let report = hostile();
    let mut page = Page::open(&report.url(), WIDTH, Scheme::Light);
    let shown = page.evaluate("document.body.innerText");
    let shown = shown.as_str().unwrap();
    for part in [
        "\"><script>window.pwned=1</script><img src=x onerror=\"window.pwned=2\"><b>bold</b>",
        "\\u{202e}gpj.exe\\u{2066}",
        &"n".repeat(250),
    ] {
        assert!(shown.contains(part), "{part} is not in {shown}");
    }
    assert!(!shown.contains('\u{202e}'));
}
