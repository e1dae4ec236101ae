//! Renders the verdict and the counts as sentences.

use std::collections::BTreeMap;

use super::blocks::{Block, Span, Style};
use crate::assess::report::{About, ReadinessReport, Reason, Upgradeable, VolumeUse};
use crate::assess::{Loss, when_lost};
use crate::visible::some_of;

/// How many names a sentence lists before it counts the rest.
const NAMED: usize = 10;

/// The verdict as text.
#[derive(Debug)]
pub(super) struct Headline {
    /// The verdict.
    pub(super) verdict: String,
    /// The reason code.
    pub(super) reason: &'static str,
    /// The explanation, most severe first.
    pub(super) sentences: Vec<String>,
    /// The verdict's style.
    pub(super) style: Style,
}

impl Headline {
    /// Returns one line per sentence, because together they are too long to read at a glance.
    pub(super) fn lines(self) -> Vec<Block> {
        let verdict = format!("{} ({})", self.verdict, self.reason);
        let verdict = Span::new(self.style, verdict);
        let mut sentences = self.sentences.into_iter();
        let first = sentences.next().unwrap_or_default();
        let first = Block::Text(vec![verdict, Span::plain(format!(": {first}"))]);
        let others = sentences.map(|sentence| Block::text(format!("  {sentence}")));
        std::iter::once(first).chain(others).collect()
    }
}

/// Builds the headline of a report.
pub(super) fn headline(report: &ReadinessReport) -> Headline {
    let (verdict, style) = match (report.verdict.upgradeable, report.verdict.reason) {
        (Upgradeable::True, Reason::Override) => ("UPGRADEABLE", Style::Warning),
        (Upgradeable::True, _) => ("UPGRADEABLE", Style::Good),
        (Upgradeable::False, _) => ("NOT UPGRADEABLE", Style::Bad),
    };
    let target = report.target.iter();
    let target = target.map(|target| format!(" to {target}"));
    Headline {
        verdict: std::iter::once(verdict.to_owned()).chain(target).collect(),
        reason: report.verdict.reason.as_str(),
        sentences: sentences(report),
        style,
    }
}

fn sentences(report: &ReadinessReport) -> Vec<String> {
    match report.verdict.reason {
        Reason::ReadinessUnknown | Reason::NodeOperationInProgress | Reason::NoWindowsNodes => {
            vec![as_sentence(&report.verdict.message)]
        }
        Reason::NoInTreeVolumes => vec!["No Windows workload uses an in-tree volume.".to_owned()],
        Reason::DriversRegistered => registered(report),
        Reason::InTreeServed => vec![served(report, in_tree(report))],
        Reason::NoCSIMigration | Reason::CSINodeMissing | Reason::DriversMissing => risks(report),
        Reason::Override => {
            let accepted = "The administrator accepts the risk (upgradeGate: Ignore).".to_owned();
            [vec![accepted], risks(report)].concat()
        }
    }
}

fn registered(report: &ReadinessReport) -> Vec<String> {
    let volumes = report.volumes.iter().filter(|volume| volume.in_tree);
    let lacking = volumes.filter(|it| it.csi_driver.is_none() || !it.missing_on.is_empty());
    let lacking = lacking.count();
    let volumes = count(in_tree(report) - lacking, "in-tree volume");
    let nodes = match report.nodes.len() {
        1 => "the only Windows node".to_owned(),
        nodes => format!("all {nodes} Windows nodes"),
    };
    let registered =
        format!("The CSI drivers for {volumes} of Windows workloads are registered on {nodes}.");
    let served = (lacking > 0).then(|| served(report, lacking));
    std::iter::once(registered).chain(served).collect()
}

/// Counts the in-tree volumes that plugins still serve at the target version. Only those may lack their driver.
fn served(report: &ReadinessReport, number: usize) -> String {
    let volumes = count(number, "in-tree volume");
    let (are, their) = (
        verb(number, "is", "are"),
        verb(number, "its plugin", "their plugins"),
    );
    let target = report.target.as_deref().unwrap_or("that version");
    format!("{volumes} of Windows workloads {are} still served by {their} at {target}.")
}

fn in_tree(report: &ReadinessReport) -> usize {
    let volumes = report.volumes.iter();
    volumes.filter(|volume| volume.in_tree).count()
}

fn risks(report: &ReadinessReport) -> Vec<String> {
    let mut risks = Vec::new();
    let nodes = report.nodes.len();
    let abandoned = report.blocking().filter(|it| it.csi_driver.is_none());
    let abandoned = abandoned.count();
    let of_workloads = |number| count(number, "in-tree volume") + " of Windows workloads";
    if abandoned > 0 {
        let (volumes, have) = (of_workloads(abandoned), verb(abandoned, "has", "have"));
        risks.push(format!(
            "{volumes} {have} a type that no CSI driver takes over."
        ));
    }
    let without = report.nodes.iter().filter(|node| !node.csi_node);
    let without: Vec<&str> = without.map(|node| node.name.as_str()).collect();
    if !without.is_empty() {
        let (number, names) = (without.len(), names(&without));
        let (all, have) = (count(nodes, "Windows node"), verb(number, "has", "have"));
        risks.push(format!(
            "{number} of {all} {have} no CSINode object, or one of an earlier node: {names}. Is the kubelet there running and registered?"
        ));
    }
    let lacking = report.blocking().count() - abandoned;
    if lacking > 0 {
        let volumes = of_workloads(lacking);
        let lack = verb(lacking, "lacks its", "lack their");
        risks.push(match nodes {
            0 => format!("{volumes} {lack} CSI driver: no DaemonSet for Windows nodes brings it."),
            1 => format!("{volumes} {lack} CSI driver on the only Windows node."),
            _ => format!("{volumes} {lack} CSI driver on at least one Windows node."),
        });
    }
    risks.extend(fates(&report.volumes, nodes));
    risks
}

/// Returns the totals of the report.
pub(super) fn counts(report: &ReadinessReport, findings: usize) -> String {
    let of_them = |number: usize, which: &str| match number {
        0 => String::new(),
        number => format!(", {number} {which}"),
    };
    let not_ready = report.nodes.iter().filter(|node| !node.ready).count();
    let drivers = report.drivers.iter();
    let missing = drivers.filter(|it| !it.missing_on.is_empty()).count();
    let version = report.cluster.kubernetes_version.iter();
    let version = version.map(|version| format!("Kubernetes {version}"));
    let parts = [
        count(report.nodes.len(), "Windows node") + &of_them(not_ready, "not ready"),
        count(report.volumes.len(), "volume")
            + &of_them(in_tree(report), "in-tree")
            + &of_them(report.blocking().count(), "blocking"),
        count(report.drivers.len(), "driver") + &of_them(missing, "missing"),
        count(findings, "finding"),
    ];
    let text = version.chain(parts).collect::<Vec<_>>().join("; ");
    match report.verdict.reason {
        Reason::ReadinessUnknown => format!("As far as could be read: {text}."),
        _ => format!("{text}."),
    }
}

/// Returns the nodes where a driver is missing.
pub(super) fn missing_on(missing_on: &[String], all: usize) -> String {
    let names = names(missing_on);
    match missing_on.len() {
        0 if all == 0 => "no DaemonSet for Windows nodes brings it".to_owned(),
        1 if all == 1 => format!("missing on the only Windows node: {names}"),
        missing if missing == all => format!("missing on all {all} Windows nodes: {names}"),
        missing => {
            let all = count(all, "Windows node");
            format!("missing on {missing} of {all}: {names}")
        }
    }
}

/// Returns a number with its noun.
pub(crate) fn count(number: usize, thing: &str) -> String {
    format!("{number} {thing}{}", verb(number, "", "s"))
}

/// Returns the singular or plural word.
pub(super) fn verb<'a>(number: usize, of_one: &'a str, of_many: &'a str) -> &'a str {
    if number == 1 { of_one } else { of_many }
}

/// Joins the first names and counts the rest.
pub(crate) fn names<T: AsRef<str>>(names: &[T]) -> String {
    some_of(names, NAMED)
}

/// Says which of the volumes that hold upgrades are broken today, and which break at an upgrade, if that is known.
pub(super) fn fates<'a>(
    volumes: impl IntoIterator<Item = &'a VolumeUse>,
    nodes: usize,
) -> Vec<String> {
    let mut fates: BTreeMap<Loss, usize> = BTreeMap::new();
    let blocking = volumes.into_iter().filter(|volume| volume.blocking);
    for loss in blocking.filter_map(|volume| volume.loss) {
        *fates.entry(loss).or_default() += 1;
    }
    let fates = fates.into_iter();
    let fates = fates.map(|(loss, count)| when_lost(count, loss, nodes > 0) + ".");
    fates.collect()
}

/// Says what the report is about.
pub(super) fn about(report: &ReadinessReport) -> Option<String> {
    let About {
        server,
        context,
        files,
        time,
        version,
    } = report.about.as_ref()?;
    let what = server.clone().unwrap_or_else(|| names(files));
    let context = context.as_ref().map(|name| format!(" (context {name})"));
    let context = context.unwrap_or_default();
    Some(format!(
        "Read from {what}{context} at {time} by windows-storage-operator {version}."
    ))
}

/// Makes a sentence of a message: capitalizes its first word, unless that is a name, and adds a full stop.
pub(super) fn as_sentence(message: &str) -> String {
    let message = message.trim();
    let first = message.split(' ').next().unwrap_or_default();
    let first = first.trim_end_matches([',', ';', ':', '.', '?', '!', '…']);
    let mut chars = message.chars();
    let mut sentence = if first.chars().all(char::is_alphabetic) {
        let first = chars.next().into_iter();
        first.flat_map(char::to_uppercase).collect()
    } else {
        String::new()
    };
    sentence.push_str(chars.as_str());
    if !sentence.ends_with(['.', '?', '!', '…']) {
        sentence.push('.');
    }
    sentence
}

/// Shortens a list and returns how much is left out.
pub(super) fn shorten<T>(list: &mut Vec<T>, most: usize, thing: &str) -> Option<Block> {
    let more = list.len().saturating_sub(most);
    list.truncate(most);
    let more = (more > 0).then(|| count(more, &format!("more {thing}")))?;
    Some(Block::text(format!("and {more} (-o json lists all)")))
}
