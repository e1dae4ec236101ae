//! Renders the tables of a report.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use super::blocks::{Block, Span, Style};
use super::sentences::names;
use crate::assess::report::{NodeReadiness, VolumeUse, Workload};

/// Renders rows with this header.
pub(super) fn table<const COLUMNS: usize>(
    label: &str,
    header: [&'static str; COLUMNS],
    rows: impl IntoIterator<Item = [Span; COLUMNS]>,
) -> Block {
    Block::Table {
        label: label.to_owned(),
        header: header.into(),
        rows: rows.into_iter().map(Into::into).collect(),
    }
}

/// Renders the nodes, one per line.
pub(super) fn nodes(nodes: &[&NodeReadiness]) -> Block {
    let header = ["Name", "Ready", "CSINode", "Drivers", "Missing drivers"];
    let rows = nodes.iter().map(|node| {
        let missing = names(&node.missing_drivers);
        let style = if missing.is_empty() {
            Style::Plain
        } else {
            Style::Bad
        };
        [
            Span::new(Style::RowName, &node.name),
            Span::state(node.ready, "yes", "no"),
            Span::state(node.csi_node, "yes", "no"),
            Span::plain(names(&node.drivers)),
            Span::new(style, missing),
        ]
    });
    table("Windows nodes", header, rows)
}

/// Counts volumes and their workloads by namespace, most volumes first. The rows are their caller's to shorten.
pub(super) fn of_namespaces<'a>(volumes: impl Iterator<Item = &'a VolumeUse>) -> Vec<[Span; 3]> {
    let mut counts: BTreeMap<&str, (usize, BTreeSet<&Workload>)> = BTreeMap::new();
    for volume in volumes {
        let (volumes, workloads) = counts.entry(&volume.workload.namespace).or_default();
        *volumes += 1;
        workloads.insert(&volume.workload);
    }
    let mut counts: Vec<_> = counts.into_iter().collect();
    counts.sort_by_key(|(_, (volumes, _))| Reverse(*volumes));
    let rows = counts.into_iter().map(|(namespace, (volumes, workloads))| {
        [
            Span::new(Style::RowName, namespace),
            Span::plain(volumes.to_string()),
            Span::plain(workloads.len().to_string()),
        ]
    });
    rows.collect()
}

/// Renders volumes and the workloads that use them.
pub(super) fn volumes(of: &str, volumes: &[&VolumeUse]) -> Block {
    let header = [
        "Namespace",
        "Workload",
        "Volume",
        "Claim",
        "Persistent volume",
        "Class",
        "Plugin",
    ];
    let rows = volumes.iter().map(|volume| {
        let workload = &volume.workload;
        let kind = workload.kind.to_lowercase();
        let name = |name: &str| Span::new(Style::Name, name);
        let optional = |text: &Option<String>| name(text.as_deref().unwrap_or_default());
        [
            name(&workload.namespace),
            Span::new(Style::RowName, format!("{kind}/{}", workload.name)),
            name(&volume.volume),
            optional(&volume.persistent_volume_claim),
            optional(&volume.persistent_volume),
            optional(&volume.storage_class),
            optional(&volume.plugin),
        ]
    });
    table(&format!("Volumes: {of}"), header, rows)
}
