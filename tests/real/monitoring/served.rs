//! The metrics that the program serves.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use testbed::promtool::as_older_format;
use windows_storage_operator::assess::report::{Reason, Upgradeable, Verdict};
use windows_storage_operator::http::Metrics;
use windows_storage_operator::node::{Reconciled, Rollout};

use crate::monitoring::alerts::records;
use crate::monitoring::expression::asked;

/// A metric as Prometheus knows it.
#[derive(Debug, Default)]
pub struct Metric {
    pub kind: String,
    pub help: String,
    pub labels: BTreeSet<String>,
}

/// Returns all metrics as promtool reads them, after each event has been counted once.
pub fn text() -> String {
    let metrics = Metrics::default();
    metrics.show_build("v1.3.0", "0.1.0");
    let verdict = Verdict {
        upgradeable: Upgradeable::False,
        reason: Reason::DriversMissing,
        message: String::new(),
    };
    metrics.show_verdict(&verdict, &std::iter::empty(), (1, 0));
    metrics.show_rollout("Complete", &Rollout::default());
    metrics.show_gate(true);
    metrics.count_reconcile(&Ok(Reconciled::default()), Duration::from_secs(1));
    metrics.show_judgement(Duration::from_millis(1));
    metrics.count_watch_restart("Pod", "Failed");
    metrics.count_request("GET".to_owned(), Some(200));
    as_older_format(&metrics.encode())
}

/// Returns all metrics, parsed.
pub fn metrics() -> BTreeMap<String, Metric> {
    parse(&text())
}

/// Returns all metrics and the recording rules' results, which have the labels of their source metrics.
pub fn with_records() -> BTreeMap<String, Metric> {
    let mut metrics = metrics();
    for (record, expression) in records() {
        let of = asked(&expression).series.into_keys();
        let labels = of.filter_map(|series| metrics.get(&series));
        let labels = labels.flat_map(|metric| metric.labels.clone()).collect();
        let metric = Metric {
            kind: "gauge".to_owned(),
            help: String::new(),
            labels,
        };
        metrics.insert(record, metric);
    }
    metrics
}

fn parse(text: &str) -> BTreeMap<String, Metric> {
    let mut metrics: BTreeMap<String, Metric> = BTreeMap::new();
    for line in text.lines() {
        if let Some((name, help)) = after(line, "# HELP ") {
            let metric = metrics.entry(name.to_owned()).or_default();
            help.trim_end_matches('.').clone_into(&mut metric.help);
        } else if let Some((name, kind)) = after(line, "# TYPE ") {
            let metric = metrics.entry(name.to_owned()).or_default();
            kind.clone_into(&mut metric.kind);
        } else {
            let end = line.find(['{', ' ']).unwrap();
            let metric = metrics.get_mut(family(&line[..end], &metrics)).unwrap();
            let labels = line[end..].strip_prefix('{');
            let labels = labels.map_or("", |rest| &rest[..rest.rfind('}').unwrap()]);
            let names = labels
                .split(',')
                .filter_map(|label| label.split_once('='))
                .map(|(name, _)| name.to_owned());
            metric.labels.extend(names.filter(|name| name != "le"));
        }
    }
    metrics
}

/// Returns the metric that a series belongs to: the series of a histogram have suffixes.
pub fn family<'a>(series: &'a str, metrics: &BTreeMap<String, Metric>) -> &'a str {
    let stem = ["_bucket", "_sum", "_count"]
        .iter()
        .find_map(|suffix| series.strip_suffix(suffix));
    match stem {
        Some(stem)
            if metrics
                .get(stem)
                .is_some_and(|metric| metric.kind == "histogram") =>
        {
            stem
        }
        _ => series,
    }
}

fn after<'a>(line: &'a str, start: &str) -> Option<(&'a str, &'a str)> {
    line.strip_prefix(start)?.split_once(' ')
}

#[test]
fn promtool_finds_nothing_wrong_with_what_is_served() {
    let text = text();
    let (content, said) = crate::monitoring::promtool(
        &["check", "metrics"],
        crate::monitoring::root(),
        text.as_bytes(),
    );
    assert!(content && said.trim().is_empty(), "{said}\n{text}");
}
