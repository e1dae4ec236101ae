//! Tests with names and messages that attack a terminal or browser.

use super::{Format, rendered, samples, text};
use crate::assess::report::ReadinessReport;

/// The characters that must not reach a terminal, listed independently of the code.
const FORBIDDEN: &str = "\u{0}\u{7}\u{8}\t\r\u{1b}\u{7f}\u{80}\u{9b}\u{9d}\u{200b}\u{200e}\u{200f}\u{2028}\
    \u{2029}\u{202a}\u{202b}\u{202d}\u{202e}\u{2066}\u{2068}\u{2069}\u{feff}\u{34f}\u{2800}\u{3164}\u{fe0f}\u{e0041}";

#[test]
fn no_format_writes_hidden_characters() {
    let mut report = samples::held();
    report.findings[0].message = format!("before{FORBIDDEN}\nafter");
    report.nodes[0].name = FORBIDDEN.to_owned();
    for report in [report, samples::hostile()] {
        for format in [Format::Table, Format::Json, Format::Yaml, Format::Html] {
            let text = text(&report, format);
            let found = text.chars().find(|char| FORBIDDEN.contains(*char));
            assert_eq!(found, None, "{format:?}");
        }
    }
}

#[test]
fn programs_read_json_and_yaml_as_the_report_was() {
    let mut report = samples::held();
    report.verdict.message = "\u{e0041}".to_owned();
    for mut report in [report, samples::empty(), samples::hostile()] {
        // It is not written.
        (report.volumes.iter_mut()).for_each(|volume| volume.loss = None);
        let json: ReadinessReport = serde_json::from_str(&text(&report, Format::Json)).unwrap();
        let yaml: ReadinessReport = serde_yaml::from_str(&text(&report, Format::Yaml)).unwrap();
        assert_eq!((&json, &yaml), (&report, &report));
    }
    // JSON writes such a character as a surrogate pair, which YAML parsers in C and Go reject.
    let mut report = samples::empty();
    report.verdict.message = "\u{e0041}".to_owned();
    let yaml = text(&report, Format::Yaml);
    assert!(yaml.contains("\\U000e0041"), "{yaml}");
}

#[test]
fn colour_is_the_only_escape() {
    let text = rendered(&samples::hostile(), Format::Table, true);
    for sequence in text.split('\u{1b}').skip(1) {
        let (code, _) = sequence.split_once('m').unwrap();
        let is_style = ["[0", "[1", "[31", "[32", "[33"].contains(&code);
        assert!(is_style, "{code:?}");
    }
}

#[test]
fn letters_of_all_languages_stay_as_they_are() {
    let mut report = samples::held();
    let letters = "Größe \\ 存储 שלום é 👩";
    report.findings[0].message = letters.to_owned();
    for format in [Format::Table, Format::Yaml, Format::Html] {
        assert!(text(&report, format).contains(letters), "{format:?}");
    }
}

#[test]
fn a_page_takes_nothing_from_elsewhere_and_no_markup_from_the_cluster() {
    for report in [samples::held(), samples::hostile()] {
        let page = text(&report, Format::Html);
        for word in [
            "<script", "<b ", "<link", "<img", "@import", "url(", " style=", " src=",
        ] {
            assert!(!page.contains(word), "{word}");
        }
        // The contents lead to places in the page.
        assert_eq!(
            page.matches(" href=").count(),
            page.matches("<a href=\"#").count()
        );
        assert_eq!(page.matches("<a ").count(), page.matches(" href=").count());
        assert!(page.contains("default-src 'none'; style-src 'unsafe-inline'"));
        assert!(page.contains("<html lang=\"en\">"));
        let count = |what: &str| page.matches(what).count();
        assert_eq!(count("<th"), count("<th scope=") + count("<thead>"));
        assert_eq!(count("<table>"), count("<div class=\"scroll\""));
    }
    let page = text(&samples::hostile(), Format::Html);
    assert!(page.contains("&lt;b a=&quot;1&quot;&gt;&amp;\\u{1b}[2J"));
}
