//! Selects and orders the parts of a report that people see.

use std::collections::{BTreeMap, BTreeSet};

use super::blocks::{Block, Span, Style, under};
use super::notes::{at_their_objects, notes, place_on};
use super::sentences::{self, count, missing_on, shorten};
use super::{html, tables};
use crate::assess::codes;
use crate::assess::report::{
    DriverReadiness, Finding, NodeReadiness, ReadinessReport, Reason, VolumeUse,
};

/// The maximum number of drivers that block nothing.
const DRIVERS: usize = 20;

/// How many items to list before counting the rest.
#[derive(Clone, Copy, Debug)]
pub(super) struct Room {
    /// The maximum number of nodes.
    nodes: usize,
    /// The maximum number of different findings per place, and of namespaces.
    notes: usize,
    /// The maximum number of volumes per driver.
    volumes: usize,
}

/// For a terminal, where the user can run the command again with other options.
pub(super) const TERMINAL: Room = Room {
    nodes: 50,
    notes: 20,
    volumes: 20,
};
/// For a page that is passed on: its readers cannot query the cluster. Browsers and mail handle this size.
const PAGE: Room = Room {
    nodes: 500,
    notes: 100,
    volumes: 500,
};

/// Renders the report for a terminal.
pub(super) fn lines(report: &ReadinessReport) -> Vec<Block> {
    let (sections, counts) = sections(report, TERMINAL);
    let mut lines = sentences::headline(report).lines();
    lines.extend(sections);
    lines.extend(["", &counts].map(Block::text));
    lines.extend(sentences::about(report).map(Block::text));
    lines
}

/// Renders the report as a page.
pub(super) fn page(report: &ReadinessReport) -> String {
    let (sections, counts) = sections(report, PAGE);
    let about = sentences::about(report);
    html::draw(
        &sentences::headline(report),
        about.as_deref(),
        &sections,
        &counts,
    )
}

/// Returns the sections of a report, and its totals.
fn sections(report: &ReadinessReport, room: Room) -> (Vec<Block>, String) {
    let parts = Parts::of(report, room);
    let blocking = namespaces(report, room).chain(parts.blocking);
    let nodes = nodes(&report.nodes, room).chain(parts.node_notes);
    let mut sections = Vec::new();
    let title = match report.verdict.reason {
        Reason::Override => "At risk",
        _ => "Blocking",
    };
    sections.extend(under(Block::Title(title), blocking));
    sections.extend(under(Block::Title("Windows nodes"), nodes));
    let title = Block::Title("Other missing drivers, not blocking");
    sections.extend(under(title, parts.other_drivers));
    sections.extend(under(Block::Title("Other findings"), parts.notes));
    (sections, sentences::counts(report, parts.findings))
}

/// Counts the blocking volumes by namespace: whose workloads they are.
fn namespaces(report: &ReadinessReport, room: Room) -> impl Iterator<Item = Block> {
    let mut rows = tables::of_namespaces(report.blocking());
    let more = shorten(&mut rows, room.notes, "namespace");
    let header = ["Namespace", "Volumes", "Workloads"];
    let table = (!rows.is_empty()).then(|| tables::table("Volumes by namespace", header, rows));
    table.into_iter().chain(more)
}

/// The sections of a report beside the nodes.
pub(super) struct Parts {
    /// What blocks the upgrade: at most as many groups as there are in-tree plugins.
    pub(super) blocking: Vec<Block>,
    /// Findings on nodes.
    pub(super) node_notes: Vec<Block>,
    /// Missing drivers that block nothing.
    pub(super) other_drivers: Vec<Block>,
    /// All other findings.
    pub(super) notes: Vec<Block>,
    /// The number of findings.
    findings: usize,
}

impl Parts {
    /// Builds the sections within the given room.
    pub(super) fn of(report: &ReadinessReport, room: Room) -> Self {
        // Plugins without a driver come first, because they take longest to fix.
        let mut blocked: BTreeMap<(bool, &str), Vec<&VolumeUse>> = BTreeMap::new();
        for volume in report.blocking() {
            let plugin = volume.plugin.as_deref().unwrap_or_default();
            let driver = volume.csi_driver.as_deref();
            let group = (driver.is_some(), driver.unwrap_or(plugin));
            blocked.entry(group).or_default().push(volume);
        }
        let is_blocked =
            |driver: &DriverReadiness| blocked.keys().any(|(_, name)| *name == driver.name);
        let drivers = report.drivers.iter().filter(|driver| !is_blocked(driver));
        let (mut missing, present): (Vec<_>, Vec<_>) =
            drivers.partition(|driver| !driver.missing_on.is_empty());
        let more_drivers = shorten(&mut missing, DRIVERS, "driver");
        let other = |driver: &&DriverReadiness| {
            let volumes = report.volumes.iter();
            let volumes = volumes.filter(|it| it.csi_driver.as_ref() == Some(&driver.name));
            group(report, (true, &driver.name), volumes.collect(), room)
        };
        let other_drivers = missing.iter().map(other).chain(more_drivers);

        // Findings of drivers are shown with the driver, and data migration with what blocks.
        let drivers = report.drivers.iter();
        let of_drivers: Vec<&Finding> = drivers.flat_map(|driver| &driver.findings).collect();
        let shown: BTreeSet<_> = of_drivers.iter().map(|it| (&it.code, &it.object)).collect();
        let is_new = |it: &&Finding| !shown.contains(&(&it.code, &it.object));
        let on_nodes = report.nodes.iter().flat_map(|node| {
            let findings = node.findings.iter().filter(is_new);
            findings.map(move |finding| (finding, place_on(&node.name, finding)))
        });
        let on_nodes: Vec<(&Finding, String)> = on_nodes.collect();
        let others = report.findings.iter();
        let others = others.filter(|finding| finding.code != codes::DATA_MUST_MOVE);
        let others = present.iter().flat_map(|it| &it.findings).chain(others);
        Self {
            findings: on_nodes.len() + of_drivers.len() + report.findings.len(),
            node_notes: notes(on_nodes, room.notes),
            notes: notes(at_their_objects(others), room.notes),
            blocking: blocked
                .into_iter()
                .map(|(of, volumes)| group(report, of, volumes, room))
                .collect(),
            other_drivers: other_drivers.collect(),
        }
    }
}

/// Builds the group of a missing driver, or of a plugin that no CSI driver takes over, with its volumes.
fn group(
    report: &ReadinessReport,
    (is_driver, name): (bool, &str),
    volumes: Vec<&VolumeUse>,
    room: Room,
) -> Block {
    let mut drivers = report.drivers.iter();
    let driver = drivers.find(|driver| is_driver && driver.name == name);
    let mut blocks = Vec::new();
    if let Some(driver) = driver {
        let daemon_set = driver.daemon_set.as_deref().unwrap_or("none found");
        blocks.push(Block::Text(vec![
            Span::plain("DaemonSet for Windows nodes: "),
            Span::new(Style::Name, daemon_set),
        ]));
    }
    let all = report.cluster.windows_nodes;
    let fates = sentences::fates(volumes.iter().copied(), all);
    blocks.extend(fates.into_iter().map(Block::text));
    let missing = driver.map(|driver| &driver.missing_on);
    let missing = missing.or(volumes.first().map(|volume| &volume.missing_on));
    // For a plugin: how to migrate its data.
    let moves = report.findings.iter().filter(|finding| {
        let mut words = finding.message.split_whitespace();
        !is_driver && finding.code == codes::DATA_MUST_MOVE && words.any(|word| word == name)
    });
    let findings = driver.into_iter().flat_map(|driver| &driver.findings);
    let notes = notes(at_their_objects(findings.chain(moves)), room.notes);
    blocks.extend(under(Block::Label("What to do"), notes));
    blocks.extend(under(Block::Label("Volumes"), listed(name, volumes, room)));
    let what = match missing {
        Some(missing) if is_driver => missing_on(missing, all),
        _ => "no CSI driver takes over. Move the data to volumes of a CSI driver".to_owned(),
    };
    Block::Group {
        name: name.to_owned(),
        what: Some(what),
        blocks,
    }
}

fn listed(of: &str, mut volumes: Vec<&VolumeUse>, room: Room) -> impl Iterator<Item = Block> {
    let more = shorten(&mut volumes, room.volumes, "volume");
    let table = (!volumes.is_empty()).then(|| tables::volumes(of, &volumes));
    table.into_iter().chain(more)
}

/// Returns the drivers that are registered wherever they are needed, with the volumes that need them.
pub(super) fn served(report: &ReadinessReport, room: Room) -> impl Iterator<Item = Block> {
    let mut served: BTreeMap<&str, Vec<&VolumeUse>> = BTreeMap::new();
    for volume in &report.volumes {
        if let Some(driver) = &volume.csi_driver
            && volume.missing_on.is_empty()
            && !volume.blocking
        {
            served.entry(driver).or_default().push(volume);
        }
    }
    let is_registered = |driver: &str| {
        let mut drivers = report.drivers.iter();
        drivers.any(|known| known.name == driver && !known.registered_on.is_empty())
    };
    served.into_iter().map(move |(driver, volumes)| {
        let what = if is_registered(driver) {
            "registered on all nodes that need it"
        } else {
            "needed on no Windows node yet"
        };
        Block::Group {
            name: driver.to_owned(),
            what: Some(what.to_owned()),
            blocks: listed(driver, volumes, room).collect(),
        }
    })
}

/// Shows all nodes, or if there are very many, only those that are not ready.
fn nodes(nodes: &[NodeReadiness], room: Room) -> impl Iterator<Item = Block> {
    let mut shown: Vec<&NodeReadiness> = nodes.iter().collect();
    if nodes.len() > room.nodes {
        shown.retain(|node| !node.ready);
    }
    let ready = nodes.len() - shown.len();
    let ready = (ready > 0).then(|| count(ready, "ready node") + " not shown (-o json lists all)");
    let more = shorten(&mut shown, room.nodes, "unready node");
    let table = (!shown.is_empty()).then(|| tables::nodes(&shown));
    let left_out = more.into_iter().chain(ready.map(Block::text));
    table.into_iter().chain(left_out)
}
