//! Checks that everybody can read the page: on a phone, in dark mode, without colours, with a screen reader.

use serde_json::Value;

use crate::browser::{DARK, DESK, LIGHT, Report, ask, hostile};

/// Width of the narrowest common phone.
const PHONE: u32 = 360;
/// Minimum contrast of text to its background. Source: Web Content Accessibility Guidelines 2.2, level AA.
const LEAST_CONTRAST: f64 = 4.5;
const LOOK: &str = include_str!("look.js");

fn reports() -> Vec<(&'static str, Report)> {
    vec![
        ("held", Report::of_sample("azure-1.27")),
        ("ready", Report::of_sample("ready-1.31")),
        ("hostile", hostile()),
        ("large", large()),
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

/// A cluster of 200 nodes in two states, with volumes of many namespaces.
fn large() -> Report {
    let object = |number: usize| {
        let drivers = ["[]", "[{name: file.csi.azure.com, nodeID: n}]"][number % 2];
        format!(
            "apiVersion: v1\nkind: Node\nmetadata: {{name: winpool-{number:03}, labels: {{kubernetes.io/os: windows}}}}\n\
             status: {{nodeInfo: {{kubeletVersion: v1.30.1}}}}\n---\n\
             apiVersion: storage.k8s.io/v1\nkind: CSINode\nmetadata: {{name: winpool-{number:03}}}\nspec: {{drivers: {drivers}}}\n---\n\
             apiVersion: v1\nkind: Pod\nmetadata: {{name: p, namespace: team-{number}}}\n\
             spec: {{nodeName: winpool-{number:03}, volumes: [{{name: v, azureDisk: {{diskName: d, diskURI: d}}}}]}}\n---\n"
        )
    };
    Report::of_text(&(0..200).map(object).collect::<String>())
}

/// Evaluates an expression with the functions of `look.js` in each of the reports, and returns their names and answers.
fn look(width: u32, scheme: u8, expression: &str) -> Vec<(&'static str, Value)> {
    let expression = format!("(() => {{ {LOOK}; return {expression}; }})()");
    let (names, reports): (Vec<_>, Vec<_>) = reports().into_iter().unzip();
    let answers = ask(&reports, width, scheme, &expression);
    names.into_iter().zip(answers).collect()
}

#[test]
fn a_phone_shows_the_page_without_scrolling_sideways() {
    let widths = "[innerWidth, document.scrollingElement.scrollWidth, tooWide()]";
    for (name, widths) in look(PHONE, LIGHT, widths) {
        assert_eq!(widths[0], PHONE, "{name}");
        let width = widths[1].as_u64().unwrap();
        assert!(width <= PHONE.into(), "{name}: {widths}");
    }
}

#[test]
fn text_stands_out_in_light_and_dark() {
    for (scheme, is_bright) in [(LIGHT, true), (DARK, false)] {
        for (name, found) in look(DESK, scheme, "[brightness(), contrasts()]") {
            let brightness = found[0].as_f64().unwrap();
            let as_asked = if is_bright {
                brightness > 0.8
            } else {
                brightness < 0.2
            };
            assert!(as_asked, "{name}: {brightness}");
            let texts = found[1].as_array().unwrap();
            assert!(texts.len() > 3, "{name}: {texts:?}");
            for text in texts {
                let ratio = text["ratio"].as_f64().unwrap();
                assert!(ratio >= LEAST_CONTRAST, "{name}, {scheme}: {text}");
            }
        }
    }
}

#[test]
fn a_screen_reader_finds_its_way_and_nothing_is_told_by_colour_alone() {
    for (name, problems) in look(DESK, LIGHT, "[structure(), onlyByColor()]") {
        assert_eq!(problems, serde_json::json!([[], []]), "{name}");
    }
}
