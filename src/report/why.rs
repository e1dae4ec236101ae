//! What one node, claim, volume or workload lacks for its storage: the report, narrowed to it, and what it is.

mod claim;
mod facts;

use std::io;

use crate::assess::codes;
use crate::assess::report::{DriverReadiness, Finding, ReadinessReport, Reason, VolumeUse};
use crate::index::{Cluster, ObjectKey, WorkloadKey, WorkloadKind};
use crate::visible::visible;

use super::color::{Paint, Tone};
use super::question::{Kind, Question};
use super::table::Page;
use super::view::{Group, Limits, View};
use super::visible;
use facts::{Claims, claims_of};

/// Whether something is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Nothing is.
    Fine,
    /// Something is.
    Held,
    /// Nothing is, as far as could be read.
    Unknown,
}

/// How it stands with what was asked about, the worst last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    Ready,
    Fine,
    Unknown,
    NotReady,
    LacksVolume,
    LacksDriver,
    HoldsUpgrades,
}

impl Standing {
    fn in_words(self) -> (&'static str, Tone) {
        match self {
            Self::Ready => ("READY", Tone::Good),
            Self::Fine => ("NOTHING IS MISSING", Tone::Good),
            Self::Unknown => ("NOT KNOWN", Tone::Warning),
            Self::NotReady => ("NOT READY", Tone::Bad),
            Self::LacksVolume => ("LACKS A VOLUME", Tone::Bad),
            Self::LacksDriver => ("LACKS ITS CSI DRIVER", Tone::Bad),
            Self::HoldsUpgrades => ("HOLDS UPGRADES", Tone::Bad),
        }
    }
}

/// What there is to say of one object.
#[derive(Clone, Debug)]
pub struct Explanation {
    subject: String,
    standing: Standing,
    facts: Vec<String>,
    /// The report as far as it concerns this object.
    report: ReadinessReport,
    /// Whether the volumes are still to be listed; of a pod they are among the facts.
    lists_volumes: bool,
}

/// Explains what was asked about: the first kind, in the order of nodes, pods, claims, other workloads and volumes, that has
/// an object of that name, and names the others. `None` where there is none, or none that matters for storage.
#[must_use]
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
    let explained = question.kinds().into_iter().filter_map(|kind| {
        let explanation = match kind {
            Kind::Node => subject.node(),
            Kind::Claim => subject.claim(),
            Kind::Volume => subject.volume(),
            Kind::Workload(WorkloadKind::Pod) => subject.pod(),
            Kind::Workload(kind) => subject.owner(kind),
        };
        Some((kind, explanation?))
    });
    let mut explained = explained.collect::<Vec<_>>().into_iter();
    let (_, mut first) = explained.next()?;
    let others = explained.map(|(kind, _)| format!("{}/{}", kind.word(), question.name));
    let others: Vec<String> = others.collect();
    if !others.is_empty() {
        let others = others.join(", ");
        first
            .facts
            .push(format!("Also there, with -n {namespace}: {others}."));
    }
    Some(first)
}

/// An object of that kind and name, with everything that it is explained from.
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
        let readiness = self.report.nodes.iter().find(|node| node.name == self.name);
        let Some(readiness) = readiness else {
            return Some(Explanation {
                subject,
                standing: self.unless_unread(Standing::Fine),
                facts: vec![facts::not_judged(node)],
                report: self.narrowed(&[], &[], &Claims::default()),
                lists_volumes: false,
            });
        };
        let rows: Vec<&VolumeUse> = self
            .report
            .volumes
            .iter()
            .filter(|row| row.missing_on.iter().any(|node| node == self.name))
            .collect();
        let mut report = self.narrowed(&rows, &readiness.missing_drivers, &Claims::default());
        // What is wrong on other nodes is theirs; what is wrong with the driver as a whole is on none of them.
        let on_nodes = self.report.nodes.iter().flat_map(|node| &node.findings);
        let on_nodes: Vec<(&str, &str)> = on_nodes.map(place).collect();
        for driver in &mut report.drivers {
            driver
                .findings
                .retain(|finding| !on_nodes.contains(&place(finding)));
        }
        for node in &mut report.nodes {
            if node.name == self.name {
                node.findings.clone_from(&readiness.findings);
            }
        }
        let status = self.cluster.node_statuses.get(self.name);
        let standing = if readiness.ready {
            self.unless_unread(Standing::Ready)
        } else {
            Standing::NotReady
        };
        Some(Explanation {
            subject,
            standing,
            facts: facts::of_node(node, readiness, status),
            report,
            lists_volumes: true,
        })
    }

    fn pod(&self) -> Option<Explanation> {
        let rows = self.rows_of(WorkloadKind::Pod);
        let pod = self.cluster.pods.get(&self.key);
        if pod.is_none() && rows.is_empty() {
            return None;
        }
        let volumes = pod.map(|pod| &*pod.volumes).unwrap_or_default();
        let claims = claims_of(&self.key, volumes);
        let mut facts: Vec<String> = pod
            .map(|pod| facts::of_pod(pod, self.cluster))
            .into_iter()
            .collect();
        facts.extend(facts::of_rows(&rows));
        Some(self.of_workload(WorkloadKind::Pod, &rows, &claims, facts))
    }

    fn owner(&self, kind: WorkloadKind) -> Option<Explanation> {
        let rows = self.rows_of(kind);
        let object = self.key.clone();
        let owner = self.cluster.owners.get(&WorkloadKey { object, kind })?;
        let claims = claims_of(&self.key, &owner.volumes);
        let facts = if rows.is_empty() {
            vec![
                "Nothing is reported for itself: it asks for no Windows node, uses no volume that needs a CSI driver, or \
                 its pods or its controller are reported in its stead. Ask about these, such as pod/NAME."
                    .to_owned(),
            ]
        } else {
            facts::of_rows(&rows)
        };
        Some(self.of_workload(kind, &rows, &claims, facts))
    }

    fn of_workload(
        &self,
        kind: WorkloadKind,
        rows: &[&VolumeUse],
        claims: &Claims,
        facts: Vec<String>,
    ) -> Explanation {
        let object = self.key.clone();
        let mut claims = claims.clone();
        claims.add(&WorkloadKey { object, kind }.to_string());
        let report = self.narrowed(rows, &[], &claims);
        Explanation {
            subject: format!("{} {}", kind.as_str().to_lowercase(), self.key),
            standing: self.standing(&report),
            facts,
            report,
            lists_volumes: false,
        }
    }

    fn rows_of(&self, kind: WorkloadKind) -> Vec<&VolumeUse> {
        let rows = self.report.volumes.iter();
        rows.filter(|row| {
            row.workload.kind == kind.as_str()
                && *row.workload.namespace == *self.key.namespace
                && row.workload.name == self.name
        })
        .collect()
    }

    /// The report with these volumes only, their drivers and those of that name, and the findings on these objects.
    fn narrowed(
        &self,
        rows: &[&VolumeUse],
        drivers: &[String],
        claims: &Claims,
    ) -> ReadinessReport {
        let needed = |driver: &&DriverReadiness| {
            drivers.contains(&driver.name)
                || rows
                    .iter()
                    .any(|row| row.csi_driver.as_ref() == Some(&driver.name))
        };
        let concerns = |finding: &&Finding| claims.concern(finding);
        let report = self.report;
        let mut nodes = report.nodes.clone();
        for node in &mut nodes {
            node.findings.clear();
        }
        ReadinessReport {
            nodes,
            volumes: rows.iter().copied().cloned().collect(),
            drivers: report.drivers.iter().filter(needed).cloned().collect(),
            findings: report.findings.iter().filter(concerns).cloned().collect(),
            ..without_lists(report)
        }
    }

    fn standing(&self, report: &ReadinessReport) -> Standing {
        const LOST: [&str; 3] = [
            codes::PERSISTENT_VOLUME_CLAIM_NOT_FOUND,
            codes::PERSISTENT_VOLUME_NOT_FOUND,
            codes::STORAGE_CLASS_NOT_FOUND,
        ];
        let is_lost = |finding: &Finding| LOST.contains(&finding.code.as_str());
        if report.blocking().next().is_some() {
            Standing::HoldsUpgrades
        } else if report.volumes.iter().any(|row| !row.missing_on.is_empty()) {
            Standing::LacksDriver
        } else if report.findings.iter().any(is_lost) {
            Standing::LacksVolume
        } else {
            self.unless_unread(Standing::Fine)
        }
    }

    /// What has not been read may hold what is missing.
    fn unless_unread(&self, standing: Standing) -> Standing {
        match self.report.verdict.reason {
            Reason::ReadinessUnknown => Standing::Unknown,
            _ => standing,
        }
    }
}

/// What was judged and the verdict alone: the lists of a large cluster are long.
fn without_lists(report: &ReadinessReport) -> ReadinessReport {
    ReadinessReport {
        api_version: report.api_version.clone(),
        kind: report.kind.clone(),
        cluster: report.cluster.clone(),
        verdict: report.verdict.clone(),
        nodes: Vec::new(),
        volumes: Vec::new(),
        drivers: Vec::new(),
        findings: Vec::new(),
    }
}

fn place(finding: &Finding) -> (&str, &str) {
    (finding.code.as_str(), finding.object.as_str())
}

impl Explanation {
    /// For an object that is there and of which the report knows nothing.
    #[must_use]
    pub fn of_no_interest(kind: Kind, place: &str, report: &ReadinessReport) -> Self {
        let is_unread = report.verdict.reason == Reason::ReadinessUnknown;
        Self {
            subject: format!("{} {place}", kind.as_str().to_lowercase()),
            standing: if is_unread {
                Standing::Unknown
            } else {
                Standing::Fine
            },
            facts: vec![
                "It is there, and its storage concerns no Windows node: it has ended, runs on a node of another system, \
                 or has no volume that needs a CSI driver."
                    .to_owned(),
            ],
            report: without_lists(report),
            lists_volumes: false,
        }
    }

    /// Whether something is missing.
    #[must_use]
    pub fn answer(&self) -> Answer {
        match self.standing {
            Standing::Ready | Standing::Fine => Answer::Fine,
            Standing::Unknown => Answer::Unknown,
            Standing::NotReady
            | Standing::LacksVolume
            | Standing::LacksDriver
            | Standing::HoldsUpgrades => Answer::Held,
        }
    }

    /// Writes it as text for a terminal.
    pub fn render(&self, color: bool, out: &mut dyn io::Write) -> io::Result<()> {
        let report = visible::report(&self.report);
        let view = View::of(&report, Limits::TERMINAL);
        let mut page = Page {
            text: String::new(),
            paint: Paint { color },
        };
        let (words, tone) = self.standing.in_words();
        let words = page.paint.paint(tone, words);
        page.line(&format!("{}: {words}", visible(&self.subject)));
        for fact in &self.facts {
            page.line(&visible(fact));
        }
        if self.report.verdict.reason == Reason::ReadinessUnknown {
            page.line("");
            page.line(&format!(
                "As far as could be read: {}.",
                report.verdict.message
            ));
        }
        if !view.node_notes.shown.is_empty() {
            page.title("On this node");
            page.notes(0, &view.node_notes);
        }
        let groups = view.blocking.into_iter();
        let groups: Vec<Group<'_>> = groups
            .chain(view.other_drivers.shown)
            .map(|mut group| {
                if !self.lists_volumes {
                    group.volumes.shown.clear();
                }
                group
            })
            .collect();
        if !groups.is_empty() {
            page.title("What is missing");
            page.groups(&groups);
        }
        if !view.notes.shown.is_empty() {
            page.title("Other findings");
            page.notes(0, &view.notes);
        }
        out.write_all(page.text.as_bytes())?;
        out.flush()
    }
}
