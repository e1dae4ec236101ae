//! The page shows what the report contains, and nothing that comes from the cluster is ever run.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::browser::devtools::{Page, Scheme};
use crate::browser::{Report, hostile};

const WIDTH: u32 = 1200;

fn names(value: &Value) -> Vec<String> {
    let names = value.as_array().unwrap().iter();
    names
        .map(|name| name.as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn the_verdict_is_on_top_and_the_matrix_has_every_node_and_driver() {
    for sample in ["azure-1.27", "gce-1.23", "ready-1.31", "vsphere-1.26"] {
        let report = Report::of_sample(sample);
        let mut page = Page::open(&report.url(), WIDTH, Scheme::Light);
        let upgradeable = report.data["verdict"]["upgradeable"] == "True";
        let verdict = if upgradeable {
            "UPGRADEABLE"
        } else {
            "NOT UPGRADEABLE"
        };
        assert_eq!(
            page.evaluate("document.querySelector('h1').innerText"),
            verdict
        );
        assert_eq!(
            page.evaluate("document.body.firstElementChild.contains(document.querySelector('h1'))"),
            true,
            "{sample}: the verdict is not on top"
        );
        let reason = page.evaluate("document.querySelector('header code').innerText");
        assert_eq!(reason, report.data["verdict"]["reason"]);

        let header = page.texts(
            "[...document.querySelectorAll('[aria-label^=\"Windows nodes\"] thead th')].map(cell => cell.innerText)",
        );
        let drivers: Vec<&str> = report.data["drivers"]
            .as_array()
            .unwrap()
            .iter()
            .map(|driver| driver["name"].as_str().unwrap())
            .collect();
        assert_eq!(header[3..], drivers[..], "{sample}");
        for node in report.data["nodes"].as_array().unwrap() {
            let name = node["name"].as_str().unwrap();
            let row = page.texts(&format!(
                "[...document.querySelectorAll('[aria-label^=\"Windows nodes\"] tbody tr')].map(row => [...row.cells].map(cell => cell.innerText))\
                 .find(row => row[0] === {})",
                Value::from(name)
            ));
            let word = |good: bool, yes: &str, no: &str| if good { yes } else { no }.to_owned();
            let mut expected = vec![
                name.to_owned(),
                word(node["ready"] == true, "ready", "not ready"),
                word(node["csiNode"] == true, "present", "missing"),
            ];
            let (there, missing) = (names(&node["drivers"]), names(&node["missingDrivers"]));
            for driver in &drivers {
                let is_in = |list: &[String]| list.iter().any(|name| name == driver);
                expected.push(if is_in(&there) {
                    "registered".to_owned()
                } else {
                    word(is_in(&missing), "missing", "not needed")
                });
            }
            assert_eq!(row, expected, "{sample}");
        }
    }
}

#[test]
fn every_volume_at_risk_is_listed_with_what_to_do() {
    let report = Report::of_sample("azure-1.27");
    let mut page = Page::open(&report.url(), WIDTH, Scheme::Light);
    let listed = page.texts(
        "[...[...document.querySelectorAll('section')].find(section => section.querySelector('h2').innerText === 'Blocking')\
         .querySelectorAll('tbody tr')].map(row => [...row.cells].slice(0, 3).map(cell => cell.innerText).join(' '))",
    );
    let blocking: Vec<&Value> = report.data["volumes"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|volume| volume["blocking"] == true)
        .collect();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let mut expected: Vec<String> = blocking
        .iter()
        .map(|volume| {
            let workload = &volume["workload"];
            format!(
                "{} {}/{} {}",
                text(&workload["namespace"]),
                text(&workload["kind"]).to_lowercase(),
                text(&workload["name"]),
                text(&volume["volume"])
            )
        })
        .collect();
    let mut found = listed.clone();
    found.sort();
    expected.sort();
    assert_eq!(found, expected);
    // Each missing driver, and each plugin without a driver, has a heading with an instruction below it.
    let groups: BTreeSet<String> = blocking
        .iter()
        .map(|volume| match &volume["csiDriver"] {
            Value::Null => text(&volume["plugin"]),
            driver => text(driver),
        })
        .collect();
    let headings =
        page.texts("[...document.querySelectorAll('h3')].map(heading => heading.innerText)");
    for group in groups {
        assert!(headings.contains(&group), "{group} is not in {headings:?}");
        let advice = page.texts(&format!(
            "(() => {{ const found = []; let next = [...document.querySelectorAll('h3')].find(heading => \
             heading.innerText === {}).nextElementSibling; while (next && next.tagName !== 'H3') {{ \
             found.push(...[...next.querySelectorAll('li')].map(item => item.innerText)); next = next.nextElementSibling; }} \
             return found; }})()",
            Value::from(group.as_str())
        ));
        assert!(!advice.is_empty(), "{group}: nothing to do");
    }
    // The page shows the code of every finding.
    let shown = text(&page.evaluate("document.body.innerText"));
    let mut codes = BTreeSet::new();
    for list in ["nodes", "drivers"] {
        for item in report.data[list].as_array().unwrap() {
            codes.extend(
                item["findings"]
                    .as_array()
                    .unwrap()
                    .iter()
                    .map(|it| text(&it["code"])),
            );
        }
    }
    let others = report.data["findings"].as_array().unwrap();
    codes.extend(others.iter().map(|finding| text(&finding["code"])));
    assert!(codes.len() > 8, "{codes:?}");
    for code in codes {
        assert!(shown.contains(&code), "{code} is not on the page");
    }
}

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
