//! The dashboard shows all served metrics and nothing else, and can be imported.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::monitoring::alerts::records;
use crate::monitoring::expression::{asked, missing};
use crate::monitoring::served::{self, Metric, family};

/// The kube-state-metrics series and labels that the table of nodes uses.
const OF_KUBE_STATE_METRICS: [(&str, &str); 2] = [
    ("kube_node_info", "node os_image kubelet_version"),
    ("kube_node_status_condition", "node condition status"),
];

fn dashboard() -> Value {
    let text =
        std::fs::read_to_string(crate::monitoring::monitoring().join("dashboard.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

fn expressions(dashboard: &Value) -> Vec<String> {
    let panels = dashboard["panels"].as_array().unwrap().iter();
    let targets = panels.filter_map(|panel| panel["targets"].as_array());
    let targets = targets.flatten().map(|target| target["expr"].as_str());
    let mut expressions: Vec<String> = targets.map(|it| it.unwrap().to_owned()).collect();
    for variable in dashboard["templating"]["list"].as_array().unwrap() {
        if variable["type"] == "query" {
            expressions.push(variable["query"]["query"].as_str().unwrap().to_owned());
        }
    }
    expressions
}

#[test]
fn every_metric_and_label_that_the_dashboard_asks_for_is_served() {
    let mut metrics = served::with_records();
    for (name, labels) in OF_KUBE_STATE_METRICS {
        let labels = labels.split(' ').map(str::to_owned).collect();
        let metric = Metric {
            labels,
            ..Metric::default()
        };
        metrics.insert(name.to_owned(), metric);
    }
    let records: BTreeMap<String, String> = records().into_iter().collect();
    let dashboard = dashboard();
    let mut shown: BTreeSet<String> = BTreeSet::new();
    for expression in expressions(&dashboard) {
        // The second argument of `label_values` is a label.
        let of_labels = expression.strip_prefix("label_values(");
        let expression =
            of_labels.map_or(expression.as_str(), |rest| rest.split(',').next().unwrap());
        let absent = missing(expression, &metrics);
        assert!(absent.is_empty(), "{expression}: {absent:?}");
        let asked = asked(expression).series;
        for series in asked.into_keys() {
            let made_from = records.get(&series).map(|from| self::asked(from).series);
            let of_record = made_from.into_iter().flatten().map(|(series, _)| series);
            shown.extend(of_record);
            shown.insert(family(&series, &metrics).to_owned());
        }
    }
    let ours = metrics
        .keys()
        .filter(|name| name.starts_with("winstorage_"));
    let hidden: Vec<&String> = ours.filter(|name| !shown.contains(*name)).collect();
    assert!(hidden.is_empty(), "{hidden:?}");
}

#[test]
fn every_panel_follows_the_variables_and_its_legend_names_labels_that_are_there() {
    for panel in dashboard()["panels"].as_array().unwrap() {
        for target in panel["targets"].as_array().into_iter().flatten() {
            assert_eq!(panel["datasource"]["uid"], "${datasource}", "{target}");
            let expression = target["expr"].as_str().unwrap();
            let mut selectors = expression.split('{').skip(1);
            assert!(
                selectors.all(|it| it.contains(r#"cluster=~"$cluster""#)),
                "{target}"
            );
            let grouped = asked(expression).grouped;
            let legend = target["legendFormat"].as_str().unwrap();
            let mut labels = legend
                .split("{{")
                .skip(1)
                .map(|it| it.split("}}").next().unwrap());
            assert!(labels.all(|label| grouped.contains(label)), "{target}");
        }
    }
}
