//! What is written, letter by letter.

use insta::assert_snapshot;

use super::{Format, rendered, samples, text};
use crate::assess::report::ReadinessReport;

/// The page with one tag a line, so that a difference can be read.
fn html(report: &ReadinessReport) -> String {
    text(report, Format::Html).replace("><", ">\n<")
}

#[test]
fn tables() {
    assert_snapshot!("table_held", text(&samples::held(), Format::Table));
    assert_snapshot!(
        "table_registered",
        text(&samples::registered(), Format::Table)
    );
    assert_snapshot!("table_empty", text(&samples::empty(), Format::Table));
    assert_snapshot!(
        "table_overridden",
        text(&samples::overridden(), Format::Table)
    );
    assert_snapshot!("table_unknown", text(&samples::unknown(), Format::Table));
    assert_snapshot!("table_huge", text(&samples::huge(), Format::Table));
    assert_snapshot!("table_hostile", text(&samples::hostile(), Format::Table));
}

#[test]
fn tables_with_colour() {
    let visible =
        |report: &ReadinessReport| rendered(report, Format::Table, true).replace('\u{1b}', "␛");
    assert_snapshot!("color_held", visible(&samples::held()));
    assert_snapshot!("color_registered", visible(&samples::registered()));
    assert_snapshot!("color_overridden", visible(&samples::overridden()));
}

#[test]
fn json() {
    assert_snapshot!("json_held", text(&samples::held(), Format::Json));
    assert_snapshot!("json_empty", text(&samples::empty(), Format::Json));
    assert_snapshot!("json_hostile", text(&samples::hostile(), Format::Json));
}

#[test]
fn yaml() {
    assert_snapshot!("yaml_held", text(&samples::held(), Format::Yaml));
    assert_snapshot!("yaml_empty", text(&samples::empty(), Format::Yaml));
}

#[test]
fn pages() {
    assert_snapshot!("html_held", html(&samples::held()));
    assert_snapshot!("html_registered", html(&samples::registered()));
    assert_snapshot!("html_empty", html(&samples::empty()));
    assert_snapshot!("html_overridden", html(&samples::overridden()));
    assert_snapshot!("html_unknown", html(&samples::unknown()));
    assert_snapshot!("html_hostile", html(&samples::hostile()));
}
