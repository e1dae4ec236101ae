//! Parses Prometheus expressions, as far as needed to tell metrics and labels from everything else.

use std::collections::{BTreeMap, BTreeSet};

use crate::monitoring::served::{Metric, family};

/// Labels that Prometheus adds to each series.
const OF_TARGET: &str = "cluster job instance pod container endpoint namespace service le";

/// Keywords and functions that can stand where a metric could, and the metric that Prometheus makes itself.
const WORDS: &str = "absent by histogram_quantile increase max min on or and unless rate sum without ignoring label_values bool changes min_over_time offset group_left label_replace up";

#[derive(Debug, Default, PartialEq, Eq)]
pub struct Asked {
    /// The metrics, each with the labels of its selectors.
    pub series: BTreeMap<String, BTreeSet<String>>,
    /// The labels that results are grouped by.
    pub grouped: BTreeSet<String>,
}

/// Parses an expression.
pub fn asked(expression: &str) -> Asked {
    let mut asked = Asked::default();
    // Neither quotes nor ranges contain any.
    let mut text: String = expression.split('"').step_by(2).collect();
    for open in ["[", "by (", "without (", "on (", "ignoring ("] {
        while let Some((before, rest)) = text.split_once(open) {
            let (inner, after) = rest.split_once([']', ')']).unwrap();
            let labels = inner.split(',').map(|label| label.trim().to_owned());
            // `on ()` names no labels.
            let labels = labels.filter(|label| open != "[" && !label.is_empty());
            asked.grouped.extend(labels);
            text = format!("{before}{after}");
        }
    }
    let mut last = "";
    for part in text.split('{') {
        let (selectors, rest) = part.split_once('}').unwrap_or(("", part));
        let names = selectors
            .split(',')
            .map(|it| it.split(['=', '!']).next().unwrap().trim());
        let names = names.filter(|name| !name.is_empty()).map(str::to_owned);
        asked
            .series
            .entry(last.to_owned())
            .or_default()
            .extend(names);
        let words = rest.split(|c| !is_word(c)).filter(|word| !word.is_empty());
        for word in words.filter(|word| !word.starts_with(|c: char| c.is_ascii_digit())) {
            if !WORDS.split(' ').any(|known| known == word) {
                asked.series.entry(word.to_owned()).or_default();
                last = word;
            }
        }
    }
    asked.series.remove("");
    asked
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == '.' || c == ':'
}

/// Returns the metrics and labels of an expression that are not served.
pub fn missing(expression: &str, metrics: &BTreeMap<String, Metric>) -> Vec<String> {
    let Asked { series, grouped } = asked(expression);
    let mut missing = Vec::new();
    let mut there: BTreeSet<&str> = OF_TARGET.split(' ').collect();
    for (name, labels) in &series {
        let Some(metric) = metrics.get(family(name, metrics)) else {
            missing.push(format!("no metric {name}"));
            continue;
        };
        there.extend(metric.labels.iter().map(String::as_str));
        let of_target = |label: &&String| OF_TARGET.split(' ').any(|known| known == *label);
        for label in labels.iter().filter(|label| !of_target(label)) {
            if !metric.labels.contains(label) {
                missing.push(format!("{name} has no label {label}"));
            }
        }
    }
    let strange = grouped
        .iter()
        .filter(|label| !there.contains(label.as_str()));
    missing.extend(strange.map(|label| format!("no label {label} to group by")));
    missing
}
