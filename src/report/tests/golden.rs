//! Golden tests of the exact output. JSON and YAML of whole clusters are in `tests/check`.

use insta::assert_snapshot;

use super::{Format, rendered, samples, text};
use crate::assess::report::ReadinessReport;

/// The page with one tag per line, for readable diffs.
fn html(report: &ReadinessReport) -> String {
    text(report, Format::Html).replace("><", ">\n<")
}

#[test]
fn tables_and_pages() {
    for (name, report) in [
        ("held", samples::held()),
        ("registered", samples::registered()),
        ("empty", samples::empty()),
        ("overridden", samples::overridden()),
        ("unknown", samples::unknown()),
        ("hostile", samples::hostile()),
    ] {
        assert_snapshot!(format!("table_{name}"), text(&report, Format::Table));
        assert_snapshot!(format!("html_{name}"), html(&report));
    }
}

#[test]
fn tables_with_colour() {
    for (name, report) in [
        ("held", samples::held()),
        ("registered", samples::registered()),
        ("overridden", samples::overridden()),
    ] {
        let shown = rendered(&report, Format::Table, true).replace('\u{1b}', "␛");
        assert_snapshot!(format!("color_{name}"), shown);
    }
}

#[test]
fn json_and_yaml() {
    assert_eq!(text(&samples::held(), Format::Json), samples::HELD);
    let hostile = text(&samples::hostile(), Format::Json);
    assert_eq!(hostile, samples::HOSTILE_REPORT);
    assert_snapshot!("yaml_held", text(&samples::held(), Format::Yaml));
}
