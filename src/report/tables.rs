//! Renders the tables of a report.

use super::blocks::{Block, Span, Style};
use super::sentences::names;
use crate::assess::report::{DriverReadiness, NodeReadiness, VolumeUse};

fn table<const COLUMNS: usize>(
    label: &str,
    header: [&str; COLUMNS],
    rows: impl Iterator<Item = [Span; COLUMNS]>,
) -> Block {
    Block::Table {
        label: label.to_owned(),
        header: header.map(Span::plain).into(),
        rows: rows.map(Into::into).collect(),
    }
}

/// Renders the nodes, one per line.
pub(super) fn nodes(nodes: &[&NodeReadiness]) -> Block {
    let header = ["Name", "Ready", "CSINode", "Drivers", "Missing drivers"];
    let rows = nodes.iter().map(|node| {
        [
            Span::new(Style::RowName, &node.name),
            Span::state(node.ready, "yes", "no"),
            Span::state(node.csi_node, "yes", "no"),
            Span::plain(names(&node.drivers)),
            missing_drivers(node),
        ]
    });
    table("Windows nodes", header, rows)
}

pub(super) fn missing_drivers(node: &NodeReadiness) -> Span {
    let missing = names(&node.missing_drivers);
    Span::new(
        if missing.is_empty() {
            Style::Plain
        } else {
            Style::Bad
        },
        missing,
    )
}

/// Renders the nodes with one column per driver.
pub(super) fn matrix(nodes: &[&NodeReadiness], drivers: &[&DriverReadiness]) -> Block {
    let header = ["Node", "Ready", "CSINode"].map(Span::plain).into_iter();
    let columns = drivers
        .iter()
        .map(|driver| Span::new(Style::Name, &driver.name));
    let row = |node: &&NodeReadiness| {
        let registrations = drivers.iter().map(|driver| {
            if node.drivers.contains(&driver.name) {
                Span::new(Style::Good, "registered")
            } else if node.missing_drivers.contains(&driver.name) {
                Span::new(Style::Bad, "missing")
            } else {
                Span::plain("not needed")
            }
        });
        let cells = [
            Span::new(Style::RowName, &node.name),
            Span::state(node.ready, "ready", "not ready"),
            Span::state(node.csi_node, "present", "missing"),
        ];
        cells.into_iter().chain(registrations).collect()
    };
    Block::Table {
        label: "Windows nodes and their drivers".to_owned(),
        header: header.chain(columns).collect(),
        rows: nodes.iter().map(row).collect(),
    }
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
