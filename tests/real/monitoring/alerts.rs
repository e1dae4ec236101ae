//! Tests the alerts with promtool's unit tests for rules, and checks that each has everything it needs.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::monitoring::expression::{asked, missing};
use crate::monitoring::{monitoring, promtool, root, served};

/// Placeholder for the repository's URL, which is not fixed.
const DOCS: &str = "https://windows-storage-operator.invalid";

fn rules() -> Value {
    let text = std::fs::read_to_string(monitoring().join("alerts.yaml")).unwrap();
    let object: Value = serde_yaml::from_str(&text).unwrap();
    assert_eq!(object["kind"], "PrometheusRule");
    object["spec"].clone()
}

fn all_rules() -> Vec<Value> {
    let groups = rules()["groups"].as_array().unwrap().clone();
    let rules = groups
        .iter()
        .flat_map(|group| group["rules"].as_array().unwrap());
    rules.cloned().collect()
}

pub fn alerts() -> Vec<Value> {
    let mut rules = all_rules();
    rules.retain(|rule| rule["alert"].is_string());
    rules
}

/// Returns the recording rules: name and expression.
pub fn records() -> Vec<(String, String)> {
    let text = |rule: &Value, key: &str| rule[key].as_str().map(str::to_owned);
    let rules = all_rules().into_iter();
    rules
        .filter_map(|rule| Some((text(&rule, "record")?, text(&rule, "expr")?)))
        .collect()
}

pub fn name(alert: &Value) -> &str {
    alert["alert"].as_str().unwrap()
}

/// Tests of the rules, for promtool.
const TESTS: [&str; 2] = ["alerts_test.yaml", "alerts_days_test.yaml"];

#[test]
fn each_alert_fires_when_it_shall_and_not_before() {
    let folder = tempfile::tempdir().unwrap();
    // JSON is YAML.
    std::fs::write(folder.path().join("alerts.yaml"), rules().to_string()).unwrap();
    for tests in TESTS {
        let from = root().join("tests/real/monitoring").join(tests);
        std::fs::copy(from, folder.path().join(tests)).unwrap();
    }
    let (passed, said) = promtool(&["check", "rules", "alerts.yaml"], folder.path(), b"");
    assert!(passed, "{said}");
    let (passed, said) = promtool(&["test", "rules", TESTS[0], TESTS[1]], folder.path(), b"");
    assert!(passed, "{said}");
}

#[test]
fn each_alert_asks_for_what_is_served_and_says_what_to_do() {
    let metrics = served::with_records();
    let alerts = alerts();
    assert!(alerts.len() >= 8);
    let critical = alerts
        .iter()
        .filter(|alert| alert["labels"]["severity"] == "critical");
    // A critical alert wakes people at night, so it must need immediate action: storage is lost, or about to be.
    let critical: Vec<&str> = critical.map(name).collect();
    assert_eq!(critical, ["WindowsStorageUpgradedWhileHeld"]);
    // `oc adm upgrade recommend` prints alerts with this label, and critical ones, before patch updates as well. It does not
    // count pending ones, and does not need this one to notify anybody.
    let advice = |alert: &&Value| alert["labels"]["openShiftUpdatePrecheck"] == "true";
    let advice: Vec<&Value> = alerts.iter().filter(advice).collect();
    assert_eq!(advice.len(), 1);
    assert_eq!(name(advice[0]), "WindowsStorageNotUpgradeable");
    assert_eq!(advice[0]["labels"]["severity"], "info");
    assert_eq!(advice[0]["for"], "5m");
    for alert in &alerts {
        let expression = alert["expr"].as_str().unwrap();
        let absent = missing(expression, &metrics);
        assert!(absent.is_empty(), "{}: {absent:?}", name(alert));
        let severity = alert["labels"]["severity"].as_str().unwrap();
        assert!(["info", "warning", "critical"].contains(&severity));
        for annotation in ["summary", "description"] {
            let text = alert["annotations"][annotation].as_str().unwrap();
            assert!(text.ends_with('.'), "{}: {text}", name(alert));
        }
        let runbook = format!("{DOCS}/docs/monitoring.md#{}", name(alert).to_lowercase());
        assert_eq!(alert["annotations"]["runbook_url"], runbook.as_str());
    }
}

#[test]
fn each_record_is_made_from_what_is_served_and_used() {
    let metrics = served::with_records();
    let rules = all_rules();
    let asked = rules
        .iter()
        .map(|rule| asked(rule["expr"].as_str().unwrap()));
    let used: BTreeSet<String> = asked.flat_map(|asked| asked.series.into_keys()).collect();
    let records = records();
    assert!(records.len() >= 8);
    for (record, expression) in records {
        let absent = missing(&expression, &metrics);
        assert!(absent.is_empty(), "{record}: {absent:?}");
        assert!(used.contains(&record), "{record} is not used");
    }
}
