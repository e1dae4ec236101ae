//! Checks that everybody can read the page: on a phone, in dark mode, without colours, with a screen reader.

use crate::browser::devtools::{Page, Scheme};
use crate::browser::{Report, hostile};

/// Width of the narrowest common phone.
const PHONE: u32 = 360;
const DESK: u32 = 1200;
/// Minimum contrast of text to its background. Source: Web Content Accessibility Guidelines 2.2, level AA.
const LEAST_CONTRAST: f64 = 4.5;
const LOOK: &str = include_str!("look.js");

fn reports() -> Vec<(&'static str, Report)> {
    vec![
        ("held", Report::of_sample("azure-1.27")),
        ("ready", Report::of_sample("ready-1.31")),
        ("hostile", hostile()),
        (
            "unknown",
            Report::of_text("apiVersion: v1\nkind: Pod\nmetadata: {name: p}\n"),
        ),
        (
            "at the administrator's risk",
            Report::of_text(
                "apiVersion: v1\nkind: Node\nmetadata: {name: win-1, labels: {kubernetes.io/os: windows}}\n---\napiVersion: v1\n\
                 kind: Pod\nmetadata: {name: p}\nspec: {nodeName: win-1, volumes: [{name: v, azureDisk: {diskName: d, diskURI: d}}]}\n\
                 ---\napiVersion: windowsstorage.dev/v1alpha1\nkind: WindowsStorage\nmetadata: {name: cluster}\n\
                 spec: {upgradeGate: Ignore}\n",
            ),
        ),
    ]
}

fn look(page: &mut Page, function: &str) -> serde_json::Value {
    page.evaluate(&format!("{LOOK}\n{function}()"))
}

#[test]
fn a_phone_shows_the_page_without_scrolling_sideways() {
    for (name, report) in reports() {
        let mut page = Page::open(&report.url(), PHONE, Scheme::Light);
        let page_width = page.evaluate("document.scrollingElement.scrollWidth");
        let window = page.evaluate("window.innerWidth");
        assert_eq!(window, PHONE, "{name}");
        assert!(
            page_width.as_u64() <= window.as_u64(),
            "{name}: {page_width} wide in a window of {window}: {}",
            look(&mut page, "tooWide")
        );
    }
}

#[test]
fn text_stands_out_in_light_and_dark() {
    for (name, report) in reports() {
        let mut pages = Vec::new();
        for scheme in [Scheme::Light, Scheme::Dark] {
            let mut page = Page::open(&report.url(), DESK, scheme);
            let texts = look(&mut page, "contrasts");
            let texts = texts.as_array().unwrap();
            assert!(texts.len() > 3, "{name}: {texts:?}");
            for text in texts {
                let ratio = text["ratio"].as_f64().unwrap();
                assert!(ratio >= LEAST_CONTRAST, "{name}, {scheme:?}: {text}");
            }
            pages.push(look(&mut page, "brightness").as_f64().unwrap());
        }
        assert!(
            pages[0] > 0.8 && pages[1] < 0.2,
            "{name}: light and dark are {pages:?}"
        );
    }
}

#[test]
fn a_screen_reader_finds_its_way() {
    for (name, report) in reports() {
        let mut page = Page::open(&report.url(), DESK, Scheme::Light);
        let problems = look(&mut page, "structure");
        assert_eq!(problems, serde_json::json!([]), "{name}");
    }
}

#[test]
fn nothing_is_told_by_colour_alone() {
    for (name, report) in reports() {
        let mut page = Page::open(&report.url(), DESK, Scheme::Light);
        let problems = look(&mut page, "onlyByColor");
        assert_eq!(problems, serde_json::json!([]), "{name}");
    }
}
