//! Parses Prometheus expressions, as far as needed to tell metrics and labels from everything else.

use std::collections::{BTreeMap, BTreeSet};

use crate::served::{Metric, family};

/// Labels that Prometheus adds to each series.
const OF_TARGET: &str = "cluster job instance pod container endpoint namespace service le";

/// Keywords and functions that can stand where a metric could.
const WORDS: &str = "absent by histogram_quantile increase max min on or and unless rate sum without ignoring label_values bool changes min_over_time offset group_left";

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
    let mut rest = expression;
    let mut grouping = false;
    while let Some(start) = rest.find(|c: char| is_word(c) || "\"{[(".contains(c)) {
        rest = &rest[start..];
        if let Some(quoted) = rest.strip_prefix('"') {
            rest = &quoted[quoted.find('"').unwrap() + 1..];
        } else if let Some(range) = rest.strip_prefix('[') {
            rest = &range[range.find(']').unwrap() + 1..];
        } else if rest.starts_with('(') && grouping {
            let end = rest.find(')').unwrap();
            let labels = rest[1..end].split(',').map(|label| label.trim().to_owned());
            // `on ()` names no labels.
            asked
                .grouped
                .extend(labels.filter(|label| !label.is_empty()));
            rest = &rest[end..];
            grouping = false;
        } else if rest.starts_with(['(', '{']) {
            rest = &rest[1..];
        } else {
            let end = rest.find(|c: char| !is_word(c)).unwrap_or(rest.len());
            let word = &rest[..end];
            rest = &rest[end..];
            grouping = matches!(word, "by" | "without" | "on" | "ignoring");
            let is_number = word.starts_with(|c: char| c.is_ascii_digit());
            if is_number || WORDS.split(' ').any(|known| known == word) {
                continue;
            }
            let selectors = rest.strip_prefix('{');
            let selectors = selectors.map_or("", |inner| &inner[..inner.find('}').unwrap()]);
            rest = &rest[if selectors.is_empty() {
                0
            } else {
                selectors.len() + 2
            }..];
            let labels = selectors
                .split(',')
                .filter(|selector| !selector.is_empty())
                .map(|selector| selector.split(['=', '!']).next().unwrap().trim().to_owned());
            asked
                .series
                .entry(word.to_owned())
                .or_default()
                .extend(labels);
        }
    }
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
