//! Explains what one node, claim, volume or workload lacks: facts about the object, and the report limited to it.

mod facts;

use super::blocks::{Block, Span, Style, under};
use super::check::{Parts, TERMINAL, served};
use super::question::{Kind, Question};
use super::text;
use crate::assess::codes;
use crate::assess::report::{Finding, ReadinessReport, Reason, VolumeUse};
use crate::index::{Cluster, ObjectKey, WorkloadKey, WorkloadKind};

/// Whether anything is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Nothing is missing.
    Fine,
    /// Something is missing.
    Held,
    /// Nothing is missing as far as could be read.
    Unknown,
}

impl Answer {
    /// Whether nothing is missing, of what was read completely.
    pub fn of(is_fine: bool) -> Self {
        if is_fine { Self::Fine } else { Self::Held }
    }
}

/// What is said of a claim or volume without rows.
const NOT_USED: &str = "No Windows workload uses it, or it needs no CSI driver: it holds nothing.";

/// The answer, and its text.
type State = (Answer, &'static str);

/// The explanation of one object.
#[derive(Clone, Debug)]
pub struct Explanation {
    /// Whether anything is missing.
    pub answer: Answer,
    lines: Vec<Block>,
}

/// Explains the object with the question's name. Of several, takes the first kind in the order nodes, pods, claims, other
/// workloads, volumes, and mentions the others. Returns `None` if there is no such object that is relevant to storage.
pub fn explain(
    question: &Question,
    namespace: &str,
    report: &ReadinessReport,
    cluster: &Cluster,
) -> Option<Explanation> {
    let subject = Subject {
        name: &question.name,
        key: ObjectKey::new(namespace, question.name.as_str()),
        report,
        cluster,
    };
    let mut explained = question.kinds().into_iter().filter_map(|kind| {
        let explanation = match kind {
            Kind::Node => subject.node(),
            Kind::Claim => subject.claim(),
            Kind::Volume => subject.volume(),
            Kind::Workload(kind) => subject.workload(kind),
        };
        Some((kind, explanation?))
    });
    let (_, mut first) = explained.next()?;
    let others = explained.map(|(kind, _)| format!("{}/{}", kind.word(), question.name));
    let others = others.collect::<Vec<_>>().join(", ");
    if !others.is_empty() {
        let others = format!("Also there, with -n {namespace}: {others}.");
        first.lines.extend(["", &others].map(Block::text));
    }
    Some(first)
}

/// An object that may exist with this name, and the data to explain it.
struct Subject<'a> {
    name: &'a str,
    key: ObjectKey,
    report: &'a ReadinessReport,
    cluster: &'a Cluster,
}

impl Subject<'_> {
    fn node(&self) -> Option<Explanation> {
        let node = self.cluster.nodes.get(self.name)?;
        let subject = format!("node {}", self.name);
        let all = &self.report.nodes;
        let Some(readiness) = all.iter().find(|node| node.name == self.name) else {
            let fact = [facts::not_judged(node)];
            let nothing = narrowed(self.report, |_| false, &[]);
            return Some(Explanation::new(&subject, fact, &nothing));
        };
        let is_here = |nodes: &[String]| nodes.iter().any(|node| node == self.name);
        let mut report = narrowed(self.report, |row| is_here(&row.missing_on), &[]);
        let drivers = self.report.drivers.iter();
        let missing = drivers.filter(|it| readiness.missing_drivers.contains(&it.name));
        report.drivers = missing.cloned().collect();
        // Drop findings of other nodes. Findings of the driver itself are on no node.
        let on_nodes = all.iter().flat_map(|node| &node.findings);
        let on_nodes: Vec<_> = on_nodes.map(place).collect();
        for driver in &mut report.drivers {
            let findings = &mut driver.findings;
            findings.retain(|finding| !on_nodes.contains(&place(finding)));
        }
        report.nodes.push(readiness.clone());
        let status = self.cluster.node_statuses.get(self.name);
        let facts = facts::of_node(node, readiness, status);
        Some(Explanation::new(&subject, facts, &report))
    }

    fn workload(&self, kind: WorkloadKind) -> Option<Explanation> {
        let object = self.key.clone();
        let key = WorkloadKey { object, kind };
        let is_its_row = |row: &VolumeUse| {
            row.workload.kind == kind.as_str()
                && *row.workload.namespace == *self.key.namespace
                && row.workload.name == self.name
        };
        let mut facts = Vec::new();
        let volumes = if kind == WorkloadKind::Pod {
            let pod = self.cluster.pods.get(&self.key);
            facts.extend(pod.map(|pod| facts::of_pod(pod, self.cluster)));
            pod.map(|pod| &*pod.volumes)
        } else {
            let owner = self.cluster.owners.get(&key);
            owner.map(|owner| &*owner.volumes)
        };
        let mut about = facts::claims_of(&self.key, volumes.unwrap_or_default());
        about.push(key.to_string());
        let report = narrowed(self.report, is_its_row, &about);
        if volumes.is_none() && report.volumes.is_empty() {
            return None;
        }
        if report.volumes.is_empty() {
            let none = match kind {
                WorkloadKind::Pod => {
                    "None of its volumes is judged: they need no CSI driver, or the pod is on no Windows node."
                }
                _ => {
                    "It is not reported itself: it does not ask for a Windows node, uses no volume that needs a CSI driver, or its pods or controller are reported instead. Run why on those, such as pod/NAME."
                }
            };
            facts.push(none.to_owned());
        }
        let subject = format!("{} {}", kind.as_str().to_lowercase(), self.key);
        Some(Explanation::new(&subject, facts, &report))
    }

    fn claim(&self) -> Option<Explanation> {
        let is_its_row = |row: &VolumeUse| {
            row.persistent_volume_claim.as_deref() == Some(self.name)
                && *row.workload.namespace == *self.key.namespace
        };
        let report = narrowed(self.report, is_its_row, &[facts::finding_object(&self.key)]);
        let claim = self.cluster.claims.get(&self.key);
        // A missing claim is worth explaining if something refers to it.
        if claim.is_none() && report.volumes.is_empty() && report.findings.is_empty() {
            return None;
        }
        let subject = format!("persistentvolumeclaim {}", self.key);
        let fact = match claim {
            None => Some("There is no such claim."),
            Some(_) => report.volumes.is_empty().then_some(NOT_USED),
        };
        Some(Explanation::new(&subject, fact.map(str::to_owned), &report))
    }

    fn volume(&self) -> Option<Explanation> {
        let mut claims = self.cluster.claims.iter();
        let claim = claims.find(|(_, claim)| claim.volume_name.as_deref() == Some(self.name));
        let about = claim.map(|(claim, _)| facts::finding_object(claim));
        let about: Vec<String> = about.into_iter().collect();
        let is_its_row = |row: &VolumeUse| row.persistent_volume.as_deref() == Some(self.name);
        let report = narrowed(self.report, is_its_row, &about);
        if self.cluster.volumes.get(self.name).is_none() && report.volumes.is_empty() {
            return None;
        }
        let subject = format!("persistentvolume {}", self.name);
        let fact = report.volumes.is_empty().then(|| NOT_USED.to_owned());
        Some(Explanation::new(&subject, fact, &report))
    }
}

/// Returns the report limited to these volumes, their drivers, and findings about these objects.
fn narrowed(
    report: &ReadinessReport,
    is_its_row: impl Fn(&VolumeUse) -> bool,
    about: &[String],
) -> ReadinessReport {
    let mut report = report.clone();
    report.nodes.clear();
    report.volumes.retain(is_its_row);
    report.drivers.retain(|driver| {
        let mut rows = report.volumes.iter();
        rows.any(|row| row.csi_driver.as_ref() == Some(&driver.name))
    });
    // A finding on a class is about the claim that its message begins with.
    report.findings.retain(|finding| {
        let first = finding.message.split(' ').next().unwrap_or_default();
        about.iter().any(|it| *it == finding.object || it == first)
    });
    report
}

fn place(finding: &Finding) -> (&str, &str) {
    (finding.code.as_str(), finding.object.as_str())
}

fn state(report: &ReadinessReport) -> State {
    const LOST: [&str; 3] = [
        codes::PERSISTENT_VOLUME_CLAIM_NOT_FOUND,
        codes::PERSISTENT_VOLUME_NOT_FOUND,
        codes::STORAGE_CLASS_NOT_FOUND,
    ];
    const NOT_KNOWN: State = (Answer::Unknown, "NOT KNOWN");
    // What was not read may be missing.
    let unless_unread = |words| match report.verdict.reason {
        Reason::ReadinessUnknown => NOT_KNOWN,
        _ => (Answer::Fine, words),
    };
    let has_one_of = |wanted: &[&str]| {
        let mut findings = report.findings.iter();
        findings.any(|finding| wanted.contains(&&*finding.code))
    };
    // Only where a node is asked about, the report has one.
    if let [node] = &report.nodes[..] {
        return if node.ready {
            unless_unread("READY")
        } else {
            (Answer::Held, "NOT READY")
        };
    }
    if report.blocking().next().is_some() {
        (Answer::Held, "HOLDS UPGRADES")
    } else if report.volumes.iter().any(|row| !row.missing_on.is_empty()) {
        (Answer::Held, "LACKS ITS CSI DRIVER")
    } else if has_one_of(&LOST) {
        (Answer::Held, "LACKS A VOLUME")
    } else if has_one_of(&[codes::PLACEMENT_UNKNOWN]) {
        NOT_KNOWN
    } else {
        unless_unread("NOTHING IS MISSING")
    }
}

impl Explanation {
    fn new(
        subject: &str,
        facts: impl IntoIterator<Item = String>,
        report: &ReadinessReport,
    ) -> Self {
        let (answer, words) = state(report);
        let style = match answer {
            Answer::Fine => Style::Good,
            Answer::Held => Style::Bad,
            Answer::Unknown => Style::Warning,
        };
        let subject = Span::plain(format!("{subject}: "));
        let mut lines = vec![Block::Text(vec![subject, Span::new(style, words)])];
        lines.extend(facts.into_iter().map(Block::text));
        if report.verdict.reason == Reason::ReadinessUnknown {
            let message = format!("As far as could be read: {}.", report.verdict.message);
            lines.extend(["", &message].map(Block::text));
        }
        let parts = Parts::of(report, TERMINAL);
        let missing = parts.blocking.into_iter().chain(parts.other_drivers);
        lines.extend(under(Block::Title("On this node"), parts.node_notes));
        lines.extend(under(Block::Title("What is missing"), missing));
        let served = served(report, TERMINAL);
        lines.extend(under(Block::Title("What is there"), served));
        lines.extend(under(Block::Title("Other findings"), parts.notes));
        Self { answer, lines }
    }

    /// Renders the explanation for a terminal.
    pub fn render(&self, color: bool) -> String {
        text::draw(&self.lines, color)
    }
}
