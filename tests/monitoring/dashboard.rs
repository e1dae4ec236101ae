//! The dashboard shows what is served, all of it, and can be imported.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::expression::{asked, missing};
use crate::served::{self, family};

fn dashboard() -> Value {
    let text = std::fs::read_to_string(crate::monitoring().join("dashboard.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

fn expressions(dashboard: &Value) -> Vec<String> {
    let panels = dashboard["panels"].as_array().unwrap();
    let targets = panels
        .iter()
        .flat_map(|panel| panel["targets"].as_array().unwrap());
    let mut expressions: Vec<String> = targets
        .map(|target| target["expr"].as_str().unwrap().to_owned())
        .collect();
    for variable in dashboard["templating"]["list"].as_array().unwrap() {
        if variable["type"] == "query" {
            expressions.push(variable["query"]["query"].as_str().unwrap().to_owned());
        }
    }
    expressions
}

#[test]
fn every_metric_and_label_that_the_dashboard_asks_for_is_served() {
    let metrics = served::metrics();
    let dashboard = dashboard();
    let mut shown: BTreeSet<String> = BTreeSet::new();
    for expression in expressions(&dashboard) {
        // The second argument of this one is a label.
        let of_labels = expression.strip_prefix("label_values(");
        let expression =
            of_labels.map_or(expression.as_str(), |rest| rest.split(',').next().unwrap());
        let absent = missing(expression, &metrics);
        assert!(absent.is_empty(), "{expression}: {absent:?}");
        let asked = asked(expression).series;
        shown.extend(
            asked
                .keys()
                .map(|series| family(series, &metrics).to_owned()),
        );
    }
    let ours = metrics
        .keys()
        .filter(|name| name.starts_with("windows_storage_"));
    let hidden: Vec<&String> = ours.filter(|name| !shown.contains(*name)).collect();
    assert_eq!(hidden, ["windows_storage_runtime_tasks"]);
}

#[test]
fn the_legend_names_labels_that_are_there_and_no_panel_covers_another() {
    let dashboard = dashboard();
    let panels = dashboard["panels"].as_array().unwrap();
    let ids: BTreeSet<i64> = panels
        .iter()
        .map(|panel| panel["id"].as_i64().unwrap())
        .collect();
    assert_eq!(ids.len(), panels.len());
    let mut taken: BTreeSet<(i64, i64)> = BTreeSet::new();
    for panel in panels {
        let title = panel["title"].as_str().unwrap();
        let place = |key: &str| panel["gridPos"][key].as_i64().unwrap();
        for x in place("x")..place("x") + place("w") {
            for y in place("y")..place("y") + place("h") {
                assert!(x < 24 && taken.insert((x, y)), "{title} at {x}, {y}");
            }
        }
        assert_eq!(panel["datasource"]["uid"], "${datasource}", "{title}");
        for target in panel["targets"].as_array().unwrap() {
            let grouped = asked(target["expr"].as_str().unwrap()).grouped;
            let legend = target["legendFormat"].as_str().unwrap();
            for label in legend.split("{{").skip(1) {
                let label = label.split("}}").next().unwrap();
                assert!(grouped.contains(label), "{title}: {legend}");
            }
        }
    }
}
