//! The verdict and the counts, as a person would say them.

use crate::assess::report::{NodeReadiness, ReadinessReport, Reason, Upgradeable};

use super::color::Tone;
use super::view::{NAMED, Nodes};

/// The verdict in words.
#[derive(Debug)]
pub(super) struct Headline {
    /// The verdict itself.
    pub(super) verdict: &'static str,
    /// Why, the worst first.
    pub(super) sentences: Vec<String>,
    /// How it is meant.
    pub(super) tone: Tone,
}

/// The verdict in words.
pub(super) fn headline(report: &ReadinessReport) -> Headline {
    let (verdict, tone) = match (report.verdict.upgradeable, report.verdict.reason) {
        (Upgradeable::True, Reason::Override) => ("UPGRADEABLE", Tone::Warning),
        (Upgradeable::True, _) => ("UPGRADEABLE", Tone::Good),
        (Upgradeable::False, _) => ("NOT UPGRADEABLE", Tone::Bad),
    };
    Headline {
        verdict,
        sentences: sentences(report),
        tone,
    }
}

fn sentences(report: &ReadinessReport) -> Vec<String> {
    match report.verdict.reason {
        Reason::ReadinessUnknown | Reason::NodeOperationInProgress => {
            vec![as_sentence(&report.verdict.message)]
        }
        Reason::NoWindowsNodes => vec!["The cluster has no Windows nodes.".to_owned()],
        Reason::NoInTreeVolumes => vec!["No Windows workload uses an in-tree volume.".to_owned()],
        Reason::DriversRegistered => vec![registered(report)],
        Reason::NoCSIMigration | Reason::CSINodeMissing | Reason::DriversMissing => risks(report),
        Reason::Override => {
            let accepted = "The administrator accepts the risk (upgradeGate: Ignore).".to_owned();
            let mut sentences = vec![accepted];
            sentences.append(&mut risks(report));
            sentences
        }
    }
}

fn registered(report: &ReadinessReport) -> String {
    let in_tree = report.volumes.iter().filter(|volume| volume.in_tree);
    format!(
        "The CSI drivers for {} of Windows workloads are registered on {}.",
        count(in_tree.count(), "in-tree volume"),
        match report.nodes.len() {
            1 => "the only Windows node".to_owned(),
            nodes => format!("all {nodes} Windows nodes"),
        }
    )
}

fn risks(report: &ReadinessReport) -> Vec<String> {
    let mut risks = Vec::new();
    let abandoned = report
        .blocking()
        .filter(|volume| volume.csi_driver.is_none())
        .count();
    if abandoned > 0 {
        risks.push(format!(
            "{} of Windows workloads {} a type that no CSI driver takes over.",
            count(abandoned, "in-tree volume"),
            if abandoned == 1 { "has" } else { "have" },
        ));
    }
    let without: Vec<&str> = report
        .nodes
        .iter()
        .filter(|node| !node.csi_node)
        .map(|node| node.name.as_str())
        .collect();
    if !without.is_empty() {
        risks.push(format!(
            "{} of {} no CSINode object: {}. Is the kubelet there running and registered?",
            without.len(),
            match (report.nodes.len(), without.len()) {
                (1, _) => "1 Windows node has".to_owned(),
                (nodes, 1) => format!("{nodes} Windows nodes has"),
                (nodes, _) => format!("{nodes} Windows nodes have"),
            },
            names(&without)
        ));
    }
    let lacking = report.blocking().count() - abandoned;
    if lacking > 0 {
        risks.push(format!(
            "{} of Windows workloads {} CSI driver on {}.",
            count(lacking, "in-tree volume"),
            if lacking == 1 {
                "lacks its"
            } else {
                "lack their"
            },
            if report.nodes.len() == 1 {
                "the only Windows node"
            } else {
                "at least one Windows node"
            },
        ));
    }
    risks
}

/// What there is, in numbers.
pub(super) fn counts(report: &ReadinessReport, findings: usize) -> String {
    let not_ready = report.nodes.iter().filter(|node| !node.ready).count();
    let in_tree = report
        .volumes
        .iter()
        .filter(|volume| volume.in_tree)
        .count();
    let missing = report
        .drivers
        .iter()
        .filter(|driver| !driver.missing_on.is_empty())
        .count();
    let version = report.cluster.kubernetes_version.as_deref();
    let parts = [
        version.map(|version| format!("Kubernetes {version}")),
        Some(count(report.nodes.len(), "Windows node") + &of_them(not_ready, "not ready")),
        Some(
            count(report.volumes.len(), "volume")
                + &of_them(in_tree, "in-tree")
                + &of_them(report.blocking().count(), "blocking"),
        ),
        Some(count(report.drivers.len(), "driver") + &of_them(missing, "missing")),
        Some(count(findings, "finding")),
    ];
    let text = parts.into_iter().flatten().collect::<Vec<_>>().join("; ");
    match report.verdict.reason {
        Reason::ReadinessUnknown => format!("As far as could be read: {text}."),
        _ => format!("{text}."),
    }
}

fn of_them(number: usize, which: &str) -> String {
    if number == 0 {
        String::new()
    } else {
        format!(", {number} {which}")
    }
}

/// Where a driver is missing.
pub(super) fn missing_on(missing_on: &[String], nodes: &[NodeReadiness]) -> String {
    let names = names(&missing_on.iter().map(String::as_str).collect::<Vec<_>>());
    let all = nodes.len();
    match missing_on.len() {
        1 if all == 1 => format!("missing on the only Windows node: {names}"),
        missing if missing == all => format!("missing on all {all} Windows nodes: {names}"),
        missing => format!(
            "missing on {missing} of {}: {names}",
            count(all, "Windows node")
        ),
    }
}

/// Which nodes are not shown, where some are not.
pub(super) fn nodes_left_out(nodes: &Nodes<'_>) -> Option<String> {
    let that_are = |number: usize, what: &str| {
        let be = if number == 1 { "is" } else { "are" };
        format!("and {} that {be} {what}", count(number, "more node"))
    };
    let text = match (nodes.more_ready, nodes.more_not_ready) {
        (0, 0) => return None,
        (ready, 0) if nodes.shown.is_empty() => format!("All {ready} are ready"),
        (ready, 0) => that_are(ready, "ready"),
        (0, not_ready) => that_are(not_ready, "not ready"),
        (ready, not_ready) => {
            format!("and {not_ready} more that are not ready, {ready} that are ready")
        }
    };
    Some(format!("{text} (-o json lists all)"))
}

/// So many things.
pub(super) fn count(number: usize, thing: &str) -> String {
    if number == 1 {
        format!("1 {thing}")
    } else {
        format!("{number} {thing}s")
    }
}

/// Some of the names, and how many more there are.
pub(super) fn names(names: &[&str]) -> String {
    let shown = names[..names.len().min(NAMED)].join(", ");
    match names.len().saturating_sub(NAMED) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

/// With a capital letter and an end.
pub(super) fn as_sentence(message: &str) -> String {
    let mut chars = message.trim().chars();
    let mut sentence: String = chars
        .next()
        .into_iter()
        .flat_map(char::to_uppercase)
        .collect();
    sentence.push_str(chars.as_str());
    if !sentence.ends_with(['.', '?', '!', '…']) {
        sentence.push('.');
    }
    sentence
}
