//! Selects and orders the parts of a report that people see.

use std::collections::{BTreeMap, BTreeSet};

use super::blocks::{Block, Span, Style, under};
use super::notes::{at_their_objects, notes, place_on};
use super::sentences::{self, count, missing_on};
use super::{html, tables};
use crate::assess::codes;
use crate::assess::report::{
    DriverReadiness, Finding, NodeReadiness, ReadinessReport, Reason, VolumeUse,
};

/// The maximum number of drivers that block nothing, and of driver columns.
const DRIVERS: usize = 20;

/// How many items to list before counting the rest.
#[derive(Clone, Copy, Debug)]
pub(super) struct Room {
    /// The maximum number of nodes.
    nodes: usize,
    /// The maximum number of different findings per place, and of namespaces.
    notes: usize,
    /// The number of volumes per driver that are always allowed.
    volumes: usize,
    /// The total number of volumes that the drivers share.
    shared_volumes: usize,
}

/// For a terminal, where the user can run the command again with other options.
pub(super) const TERMINAL: Room = Room {
    nodes: 50,
    notes: 20,
    volumes: 20,
    shared_volumes: 0,
};
/// For a terminal, if the volumes are already listed.
pub(super) const TERMINAL_WITHOUT_VOLUMES: Room = Room {
    volumes: 0,
    ..TERMINAL
};
/// For a page that is passed on: its readers cannot query the cluster. Browsers and mail handle this size.
const PAGE: Room = Room {
    nodes: 500,
    notes: 100,
    volumes: 20,
    shared_volumes: 1000,
};

/// Renders the report for a terminal.
pub(super) fn lines(report: &ReadinessReport) -> Vec<Block> {
    let parts = Parts::of(report, TERMINAL);
    let nodes = nodes(&report.nodes, TERMINAL, tables::nodes);
    let nodes = nodes.into_iter().chain(parts.node_notes);
    let blocking = namespaces(report, TERMINAL);
    let blocking = blocking.chain(parts.blocking.iter().map(Group::whole));
    let other_drivers = parts.other_drivers.iter().map(Group::whole);
    let mut lines = sentences::headline(report).lines();
    lines.extend(under(Block::Title(blocking_title(report)), blocking));
    lines.extend(under(Block::Title("Windows nodes"), nodes));
    lines.extend(under(
        Block::Title(OTHER_DRIVERS),
        other_drivers.chain(parts.more_drivers),
    ));
    lines.extend(under(Block::Title("Other findings"), parts.notes));
    lines.push(Block::text(""));
    lines.push(Block::text(sentences::counts(report, parts.findings)));
    lines.extend(sentences::about(report).map(Block::text));
    lines
}

/// Renders the report as a page.
pub(super) fn page(report: &ReadinessReport) -> String {
    let parts = Parts::of(report, PAGE);
    // By name; if there are very many, missing ones first.
    let mut drivers: Vec<&DriverReadiness> = report.drivers.iter().collect();
    if drivers.len() > DRIVERS {
        drivers.sort_by_key(|driver| driver.missing_on.is_empty());
    }
    let more = shorten(&mut drivers, DRIVERS, "driver");
    let mut nodes = nodes(&report.nodes, PAGE, |nodes| tables::matrix(nodes, &drivers));
    if !nodes.is_empty() {
        nodes.extend(more);
    }
    let to_do = parts.blocking.iter().map(Group::to_do);
    let blocking = namespaces(report, PAGE);
    let blocking = blocking.chain(parts.blocking.iter().filter_map(Group::list));
    let other_drivers = parts.other_drivers.iter().map(Group::whole);
    // What the verdict is about comes first.
    let (first, then) = match report.verdict.reason {
        Reason::CSINodeMissing => (parts.node_notes, Vec::new()),
        _ => (Vec::new(), parts.node_notes),
    };
    let to_do = first.into_iter().chain(to_do);
    let mut blocks: Vec<Block> = under(Block::Title("What to do first"), to_do).collect();
    blocks.extend(under(Block::Title("Findings on nodes"), then));
    blocks.extend(under(Block::Title("Windows nodes"), nodes));
    // The list of volumes may be long.
    blocks.extend(under(Block::Title(blocking_title(report)), blocking));
    blocks.extend(under(
        Block::Title(OTHER_DRIVERS),
        other_drivers.chain(parts.more_drivers),
    ));
    blocks.extend(under(Block::Title("Other findings"), parts.notes));
    let counts = sentences::counts(report, parts.findings);
    let about = sentences::about(report);
    html::draw(
        &sentences::headline(report),
        about.as_deref(),
        &blocks,
        &counts,
    )
}

/// Counts the blocking volumes by namespace: whose workloads they are.
fn namespaces(report: &ReadinessReport, room: Room) -> impl Iterator<Item = Block> {
    let mut counts = tables::of_namespaces(report.blocking());
    let more = shorten(&mut counts, room.notes, "namespace");
    let table = (!counts.is_empty()).then(|| tables::namespaces(&counts));
    table.into_iter().chain(more)
}

const OTHER_DRIVERS: &str = "Other missing drivers, not blocking";

fn blocking_title(report: &ReadinessReport) -> &'static str {
    match report.verdict.reason {
        Reason::Override => "At risk",
        Reason::ReadinessUnknown => "Blocking, as far as could be read",
        Reason::NoWindowsNodes => "Would block if there were Windows nodes",
        _ => "Blocking",
    }
}

/// The sections of a report beside the nodes.
pub(super) struct Parts {
    /// What blocks the upgrade. There are at most as many groups as in-tree plugins.
    pub(super) blocking: Vec<Group>,
    /// Findings on nodes.
    pub(super) node_notes: Vec<Block>,
    /// Missing drivers that block nothing.
    pub(super) other_drivers: Vec<Group>,
    /// How many of them are left out.
    more_drivers: Option<Block>,
    /// All other findings.
    pub(super) notes: Vec<Block>,
    /// The number of findings.
    findings: usize,
}

/// A missing driver, or a plugin that no CSI driver takes over, and its volumes.
pub(super) struct Group {
    name: String,
    /// What is missing.
    what: String,
    facts: Vec<Block>,
    /// What to do.
    notes: Vec<Block>,
    volumes: Vec<Block>,
}

impl Group {
    /// Renders all of it.
    pub(super) fn whole(&self) -> Block {
        let notes = under(Block::Label("What to do"), self.notes.iter().cloned());
        let volumes = under(Block::Label("Volumes"), self.volumes.iter().cloned());
        self.with(&self.what, notes.chain(volumes))
    }

    /// Renders what to do.
    fn to_do(&self) -> Block {
        self.with(&self.what, self.notes.iter().cloned())
    }

    /// Renders the volumes, if any.
    fn list(&self) -> Option<Block> {
        (!self.volumes.is_empty()).then(|| Block::Group {
            name: self.name.clone(),
            what: None,
            blocks: self.volumes.clone(),
        })
    }

    fn with(&self, what: &str, blocks: impl Iterator<Item = Block>) -> Block {
        Block::Group {
            name: self.name.clone(),
            what: Some(what.to_owned()),
            blocks: self.facts.iter().cloned().chain(blocks).collect(),
        }
    }
}

impl Parts {
    /// Builds the sections within the given room.
    pub(super) fn of(report: &ReadinessReport, mut room: Room) -> Self {
        let needed = report.volumes.iter();
        let needed = needed.filter_map(|it| it.csi_driver.as_deref().or(it.plugin.as_deref()));
        let share = room.shared_volumes / needed.collect::<BTreeSet<&str>>().len().max(1);
        room.volumes = room.volumes.max(share);

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
        let (missing, present): (Vec<_>, Vec<_>) =
            drivers.partition(|driver| !driver.missing_on.is_empty());
        let other = |driver: &DriverReadiness| {
            let volumes = report.volumes.iter();
            let volumes = volumes.filter(|it| it.csi_driver.as_ref() == Some(&driver.name));
            group(report, (true, &driver.name), volumes.collect(), room)
        };
        let mut other_drivers: Vec<Group> = missing.into_iter().map(other).collect();
        let more_drivers = shorten(&mut other_drivers, DRIVERS, "driver");

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
            other_drivers,
            more_drivers,
        }
    }
}

/// Builds the group of a missing driver, or of a plugin that no CSI driver takes over, with its volumes.
fn group(
    report: &ReadinessReport,
    (is_driver, name): (bool, &str),
    mut volumes: Vec<&VolumeUse>,
    room: Room,
) -> Group {
    let mut drivers = report.drivers.iter();
    let driver = drivers.find(|driver| is_driver && driver.name == name);
    let mut facts = Vec::new();
    if let Some(driver) = driver {
        let daemon_set = driver.daemon_set.as_deref().unwrap_or("none found");
        facts.push(Block::Text(vec![
            Span::plain("DaemonSet for Windows nodes: "),
            Span::new(Style::Name, daemon_set),
        ]));
    }
    let all = report.cluster.windows_nodes;
    let fates = sentences::fates(volumes.iter().copied(), all);
    facts.extend(fates.into_iter().map(Block::text));
    let missing = driver.map(|driver| &driver.missing_on);
    let missing = missing.or(volumes.first().map(|volume| &volume.missing_on));
    // For a plugin: how to migrate its data.
    let moves = report.findings.iter().filter(|finding| {
        let mut words = finding.message.split_whitespace();
        !is_driver && finding.code == codes::DATA_MUST_MOVE && words.any(|word| word == name)
    });
    let findings = driver.into_iter().flat_map(|driver| &driver.findings);
    let mut table = Vec::new();
    let more = shorten(&mut volumes, room.volumes, "volume");
    if !volumes.is_empty() {
        table.push(tables::volumes(name, &volumes));
        table.extend(more);
    }
    Group {
        name: name.to_owned(),
        what: match missing {
            Some(missing) if is_driver => missing_on(missing, all),
            _ => "no CSI driver takes over. Move the data to volumes of a CSI driver".to_owned(),
        },
        facts,
        notes: notes(at_their_objects(findings.chain(moves)), room.notes),
        volumes: table,
    }
}

/// Shows all nodes, or if there are very many, only those that are not ready.
fn nodes(
    nodes: &[NodeReadiness],
    room: Room,
    table: impl Fn(&[&NodeReadiness]) -> Block,
) -> Vec<Block> {
    let mut shown: Vec<&NodeReadiness> = nodes.iter().collect();
    if nodes.len() > room.nodes {
        shown.retain(|node| !node.ready);
    }
    let ready = nodes.len() - shown.len();
    let ready = (ready > 0).then(|| count(ready, "ready node") + " not shown (-o json lists all)");
    let more = shorten(&mut shown, room.nodes, "unready node");
    let table = (!shown.is_empty()).then(|| table(&shown));
    let left_out = more.into_iter().chain(ready.map(Block::text));
    table.into_iter().chain(left_out).collect()
}

/// Shortens a list and returns how much is left out.
pub(super) fn shorten<T>(list: &mut Vec<T>, most: usize, thing: &str) -> Option<Block> {
    let more = list.len().saturating_sub(most);
    list.truncate(most);
    let more = (more > 0).then(|| count(more, &format!("more {thing}")))?;
    Some(Block::text(format!("and {more} (-o json lists all)")))
}
