//! What of a report is shown to people, and in which order.

use std::collections::{BTreeMap, BTreeSet};

use crate::assess::codes;
use crate::assess::report::{
    DriverReadiness, Finding, NodeReadiness, ReadinessReport, Reason, VolumeUse,
};

use super::sentences::{self, Headline};

/// How many names a sentence has before it only counts.
pub(super) const NAMED: usize = 10;
/// How much is listed before it is only counted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// How many nodes.
    nodes: usize,
    /// How many drivers that block nothing, and how many have a column.
    drivers: usize,
    /// How many different findings at one place.
    notes: usize,
    /// How many volumes of one driver at least.
    volumes: usize,
    /// How many volumes in all that the drivers share.
    volumes_of_all: usize,
}

impl Limits {
    /// For a terminal, where one asks again with other options.
    pub(super) const TERMINAL: Self = Self {
        nodes: 50,
        drivers: 20,
        notes: 20,
        volumes: 20,
        volumes_of_all: 0,
    };
    /// For a page that is sent around: who reads it has no cluster to ask. A browser shows that much at once, and mail
    /// takes it.
    pub(super) const PAGE: Self = Self {
        nodes: 500,
        drivers: 20,
        notes: 100,
        volumes: 20,
        volumes_of_all: 1000,
    };

    /// With a share of the volumes for each of so many drivers.
    fn shared_by(self, drivers: usize) -> Self {
        let share = self.volumes_of_all / drivers.max(1);
        Self {
            volumes: share.max(self.volumes),
            ..self
        }
    }
}

/// What people see.
#[derive(Debug)]
pub(super) struct View<'a> {
    /// The verdict.
    pub(super) headline: Headline,
    /// The title of what blocks.
    pub(super) blocking_title: &'static str,
    /// What blocks; there are no more than there are in-tree plugins.
    pub(super) blocking: Vec<Group<'a>>,
    /// The nodes.
    pub(super) nodes: Nodes<'a>,
    /// The drivers for the columns of a matrix.
    pub(super) drivers: First<&'a DriverReadiness>,
    /// What is wrong with nodes.
    pub(super) node_notes: First<Note<'a>>,
    /// Drivers that are missing and block nothing.
    pub(super) other_drivers: First<Group<'a>>,
    /// Everything else.
    pub(super) notes: First<Note<'a>>,
    /// What there is, in numbers.
    pub(super) counts: String,
}

/// The first of many.
#[derive(Debug)]
pub(super) struct First<T> {
    /// Those to show.
    pub(super) shown: Vec<T>,
    /// How many more there are.
    pub(super) more: usize,
}

impl<T> First<T> {
    fn of(all: impl IntoIterator<Item = T>, most: usize) -> Self {
        let mut all = all.into_iter();
        Self {
            shown: all.by_ref().take(most).collect(),
            more: all.count(),
        }
    }
}

/// A driver that is missing, or a plugin that no driver takes over, and the volumes that need it.
#[derive(Debug)]
pub(super) struct Group<'a> {
    /// Of the driver or the plugin.
    pub(super) name: &'a str,
    /// What is the matter, to be read after the name.
    pub(super) what: String,
    /// The driver's DaemonSet, where the driver is known.
    pub(super) daemon_set: Option<&'a str>,
    /// Why, and what to do.
    pub(super) notes: First<Note<'a>>,
    /// Who needs it.
    pub(super) volumes: First<&'a VolumeUse>,
}

/// The nodes to show.
#[derive(Debug)]
pub(super) struct Nodes<'a> {
    /// All of them, or of very many those that are not ready.
    pub(super) shown: Vec<&'a NodeReadiness>,
    /// How many ready ones are left out.
    pub(super) more_ready: usize,
    /// How many others are left out.
    pub(super) more_not_ready: usize,
}

/// The same finding at one or more places.
#[derive(Debug)]
pub(super) struct Note<'a> {
    /// What it is and what to do.
    pub(super) message: &'a str,
    /// Its word for machines.
    pub(super) code: &'a str,
    /// Where.
    pub(super) places: Vec<String>,
}

impl<'a> View<'a> {
    /// Chooses what to show.
    pub(super) fn of(report: &'a ReadinessReport, limits: Limits) -> Self {
        let needed = report.volumes.iter();
        let needed = needed.filter_map(|it| it.csi_driver.as_deref().or(it.plugin.as_deref()));
        let limits = limits.shared_by(needed.collect::<BTreeSet<&str>>().len());
        let blocking = blocking(report, limits);
        let blocked: BTreeSet<&str> = blocking.iter().map(|group| group.name).collect();
        let other_drivers: Vec<&DriverReadiness> = report
            .drivers
            .iter()
            .filter(|driver| {
                !driver.missing_on.is_empty() && !blocked.contains(driver.name.as_str())
            })
            .collect();
        let rest = report
            .drivers
            .iter()
            .filter(|driver| {
                driver.missing_on.is_empty() && !blocked.contains(driver.name.as_str())
            })
            .flat_map(|driver| &driver.findings)
            .chain(report.findings.iter().filter(|finding| {
                // Told with what blocks.
                finding.code != codes::DATA_MUST_MOVE
            }))
            .map(|finding| (finding, finding.object.clone()));
        // Why a driver is missing on a node is told with the driver.
        let told: BTreeSet<(&str, &str)> = report
            .drivers
            .iter()
            .flat_map(|driver| &driver.findings)
            .map(|finding| (finding.code.as_str(), finding.object.as_str()))
            .collect();
        let of_nodes: Vec<(&NodeReadiness, &Finding)> = report
            .nodes
            .iter()
            .flat_map(|node| node.findings.iter().map(move |finding| (node, finding)))
            .filter(|(_, finding)| {
                !told.contains(&(finding.code.as_str(), finding.object.as_str()))
            })
            .collect();
        let of_drivers = report.drivers.iter().map(|driver| driver.findings.len());
        let findings = of_nodes.len() + of_drivers.sum::<usize>() + report.findings.len();
        Self {
            headline: sentences::headline(report),
            blocking_title: match report.verdict.reason {
                Reason::Override => "At risk",
                Reason::ReadinessUnknown => "Blocking, as far as could be read",
                Reason::NoWindowsNodes => "Would block if there were Windows nodes",
                _ => "Blocking",
            },
            blocking,
            nodes: nodes(&report.nodes, limits.nodes),
            drivers: columns(&report.drivers, limits.drivers),
            node_notes: notes(
                of_nodes
                    .into_iter()
                    .map(|(node, finding)| (finding, place_on(&node.name, finding))),
                limits.notes,
            ),
            other_drivers: First::of(
                other_drivers.into_iter().map(|driver| {
                    let needs = report
                        .volumes
                        .iter()
                        .filter(|volume| volume.csi_driver.as_deref() == Some(&driver.name));
                    driver_group(
                        (&driver.name, Some(driver)),
                        needs.collect(),
                        &report.nodes,
                        limits,
                    )
                }),
                limits.drivers,
            ),
            notes: notes(rest, limits.notes),
            counts: sentences::counts(report, findings),
        }
    }
}

/// Types without a driver come first: they take the longest to get rid of.
fn blocking(report: &ReadinessReport, limits: Limits) -> Vec<Group<'_>> {
    let mut plugins: BTreeMap<&str, Vec<&VolumeUse>> = BTreeMap::new();
    let mut drivers: BTreeMap<&str, Vec<&VolumeUse>> = BTreeMap::new();
    for volume in report.blocking() {
        match &volume.csi_driver {
            Some(driver) => drivers.entry(driver).or_default().push(volume),
            None => plugins
                .entry(volume.plugin.as_deref().unwrap_or_default())
                .or_default()
                .push(volume),
        }
    }
    let plugins = plugins.into_iter().map(|(name, volumes)| Group {
        name,
        what: "no CSI driver takes over. Move the data to volumes of a CSI driver".to_owned(),
        daemon_set: None,
        notes: notes(
            report
                .findings
                .iter()
                .filter(|finding| is_about(finding, name))
                .map(|finding| (finding, finding.object.clone())),
            limits.notes,
        ),
        volumes: First::of(volumes, limits.volumes),
    });
    let drivers = drivers.into_iter().map(|(name, volumes)| {
        let driver = report.drivers.iter().find(|driver| driver.name == name);
        driver_group((name, driver), volumes, &report.nodes, limits)
    });
    plugins.chain(drivers).collect()
}

/// Whether it says how to move the data of that plugin's volumes.
fn is_about(finding: &Finding, plugin: &str) -> bool {
    finding.code == codes::DATA_MUST_MOVE
        && finding
            .message
            .split_whitespace()
            .any(|word| word == plugin)
}

fn driver_group<'a>(
    (name, driver): (&'a str, Option<&'a DriverReadiness>),
    volumes: Vec<&'a VolumeUse>,
    nodes: &[NodeReadiness],
    limits: Limits,
) -> Group<'a> {
    let missing_on: &[String] = match (driver, volumes.first()) {
        (Some(driver), _) => &driver.missing_on,
        (None, Some(volume)) => &volume.missing_on,
        (None, None) => &[],
    };
    Group {
        name,
        what: sentences::missing_on(missing_on, nodes),
        daemon_set: driver.map(|driver| driver.daemon_set.as_deref().unwrap_or("none found")),
        notes: notes(
            driver
                .into_iter()
                .flat_map(|driver| &driver.findings)
                .map(|finding| (finding, finding.object.clone())),
            limits.notes,
        ),
        volumes: First::of(volumes, limits.volumes),
    }
}

fn nodes(nodes: &[NodeReadiness], most: usize) -> Nodes<'_> {
    if nodes.len() <= most {
        return Nodes {
            shown: nodes.iter().collect(),
            more_ready: 0,
            more_not_ready: 0,
        };
    }
    let not_ready = First::of(nodes.iter().filter(|node| !node.ready), most);
    Nodes {
        more_ready: nodes.iter().filter(|node| node.ready).count(),
        more_not_ready: not_ready.more,
        shown: not_ready.shown,
    }
}

/// By name, but of very many the missing ones first.
fn columns(drivers: &[DriverReadiness], most: usize) -> First<&DriverReadiness> {
    let mut drivers: Vec<_> = drivers.iter().collect();
    if drivers.len() > most {
        drivers.sort_by_key(|driver| driver.missing_on.is_empty());
    }
    First::of(drivers, most)
}

/// A node's findings are mostly about the node itself, or about an object of its name.
fn place_on(node: &str, finding: &Finding) -> String {
    match finding.object.split_once('/') {
        Some((_, name)) if name == node => node.to_owned(),
        _ => format!("{} on {node}", finding.object),
    }
}

/// What is the root of others comes first, advice for later last.
fn rank(code: &str) -> u8 {
    match code {
        codes::FEATURE_SWITCH_OFF | codes::CSI_NODE_MISSING => 0,
        codes::CSI_OPT_IN
        | codes::CSI_RECOMMENDED
        | codes::IN_TREE_RECOMMENDED
        | codes::PLUGIN_REMOVED => 2,
        _ => 1,
    }
}

/// The same words are said once; of the same rank, what most places share comes first.
fn notes<'a>(
    findings: impl IntoIterator<Item = (&'a Finding, String)>,
    most: usize,
) -> First<Note<'a>> {
    let mut places: BTreeMap<(&str, &str), Vec<String>> = BTreeMap::new();
    for (finding, place) in findings {
        places
            .entry((&finding.code, &finding.message))
            .or_default()
            .push(place);
    }
    let mut notes: Vec<Note<'_>> = places
        .into_iter()
        .map(|((code, message), places)| Note {
            message,
            code,
            places,
        })
        .collect();
    notes.sort_by_key(|note| (rank(note.code), std::cmp::Reverse(note.places.len())));
    First::of(notes, most)
}
