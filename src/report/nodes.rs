//! The Windows nodes of a report, as kubectl lists objects.

use std::collections::BTreeSet;
use std::io;

use clap::ValueEnum;
use serde::Serialize;

use crate::api::{CsiProxyStatus, WindowsNodeStorageStatus};
use crate::assess::report::{API_VERSION, NodeReadiness, ReadinessReport};
use crate::index::{Cluster, Node};
use crate::visible::visible;

use super::color::{Paint, Tone};
use super::grid::{self, Cell};
use super::sentences::names;
use super::table::yes_or_no;

/// The table's columns; its last four are in the wide one alone.
const WIDE_HEADER: [&str; 11] = [
    "NAME",
    "READY",
    "CSINODE",
    "CSI-PROXY",
    "DRIVERS",
    "MISSING",
    "FINDINGS",
    "PIPES",
    "MANAGEMENT",
    "ADDRESS",
    "KUBELET",
];

/// What a list of nodes is written as.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum NodesFormat {
    /// A line a node
    #[default]
    Table,
    /// The same with more columns
    Wide,
    /// The whole list for programs
    Json,
    /// The same as JSON, as YAML
    Yaml,
    /// node/NAME only, as kubectl takes it
    Name,
}

/// The `kind` of the list.
const KIND: &str = "NodeReadinessList";

/// The Windows nodes with all that is known of their storage.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeList {
    api_version: &'static str,
    kind: &'static str,
    items: Vec<NodeRow>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct NodeRow {
    #[serde(flatten)]
    readiness: NodeReadiness,
    kubelet_version: Option<String>,
    address: Option<String>,
    /// Who looks after csi-proxy, and csi-proxy as last seen, where this operator runs and has been there.
    management: Option<String>,
    csi_proxy: Option<CsiProxyStatus>,
}

impl NodeList {
    /// The nodes of a report on that cluster: all, or those of these names.
    #[must_use]
    pub fn of(report: &ReadinessReport, cluster: &Cluster, names: &[String]) -> Self {
        let nodes = report.nodes.iter();
        let wanted = nodes.filter(|node| names.is_empty() || names.contains(&node.name));
        Self {
            api_version: API_VERSION,
            kind: KIND,
            items: wanted
                .map(|readiness| {
                    let node = cluster.nodes.get(readiness.name.as_str());
                    let status = cluster.node_statuses.get(readiness.name.as_str());
                    NodeRow::of(readiness, node, status)
                })
                .collect(),
        }
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Whether all of them are ready.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.items.iter().all(|row| row.readiness.ready)
    }

    /// Whether a node of that name is in it.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.items.iter().any(|row| row.readiness.name == name)
    }

    /// Writes the list. `color` is for the tables alone.
    pub fn render(
        &self,
        format: NodesFormat,
        color: bool,
        out: &mut dyn io::Write,
    ) -> io::Result<()> {
        let paint = Paint { color };
        let text = match format {
            NodesFormat::Table => self.table(paint),
            NodesFormat::Wide => self.wide(paint),
            NodesFormat::Json => super::json(self)?,
            NodesFormat::Yaml => super::yaml(self)?,
            NodesFormat::Name => {
                let nodes = self.items.iter();
                let names = nodes.map(|row| visible(&row.readiness.name));
                names.fold(String::new(), |text, name| text + "node/" + &name + "\n")
            }
        };
        out.write_all(text.as_bytes())?;
        out.flush()
    }

    fn table(&self, paint: Paint) -> String {
        let rows: Vec<_> = self.items.iter().map(NodeRow::cells).collect();
        let [header @ .., _, _, _, _] = WIDE_HEADER;
        let mut text = String::new();
        grid::write(&mut text, paint, 0, header, &rows);
        text
    }

    fn wide(&self, paint: Paint) -> String {
        let rows: Vec<_> = self.items.iter().map(NodeRow::wide_cells).collect();
        let mut text = String::new();
        grid::write(&mut text, paint, 0, WIDE_HEADER, &rows);
        text
    }
}

impl NodeRow {
    fn of(
        readiness: &NodeReadiness,
        node: Option<&Node>,
        status: Option<&WindowsNodeStorageStatus>,
    ) -> Self {
        let some = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        Self {
            readiness: readiness.clone(),
            kubelet_version: node.and_then(|node| some(&node.kubelet_version)),
            address: node.and_then(|node| {
                let internal = node.addresses.iter().find(|it| it.kind == "InternalIP");
                some(&internal.or(node.addresses.first())?.address)
            }),
            management: status.and_then(|status| some(&status.management)),
            csi_proxy: status.and_then(|status| status.csi_proxy.clone()),
        }
    }

    fn cells(&self) -> [Cell; 7] {
        let NodeReadiness {
            name,
            csi_node,
            drivers,
            missing_drivers,
            ready,
            findings,
            needs_csi_proxy: _,
        } = &self.readiness;
        let codes: BTreeSet<String> = findings.iter().map(|it| visible(&it.code)).collect();
        let missing = Cell::new(list(missing_drivers));
        [
            Cell::new(visible(name)),
            yes_or_no(*ready),
            yes_or_no(*csi_node),
            self.csi_proxy_cell(),
            Cell::new(list(drivers)),
            if missing_drivers.is_empty() {
                missing
            } else {
                missing.tone(Tone::Bad)
            },
            Cell::new(codes.into_iter().collect::<Vec<_>>().join(", ")),
        ]
    }

    fn wide_cells(&self) -> [Cell; 11] {
        let [name, ready, csi_node, csi_proxy, drivers, missing, findings] = self.cells();
        let text = |text: &Option<String>| Cell::new(visible(text.as_deref().unwrap_or_default()));
        let pipes = self.csi_proxy.as_ref().map(|csi_proxy| {
            let all = csi_proxy.open_pipes as usize + csi_proxy.missing_pipes.len();
            format!("{}/{all}", csi_proxy.open_pipes)
        });
        [
            name,
            ready,
            csi_node,
            csi_proxy,
            drivers,
            missing,
            findings,
            text(&pipes),
            text(&self.management),
            text(&self.address),
            text(&self.kubelet_version),
        ]
    }

    fn csi_proxy_cell(&self) -> Cell {
        match &self.csi_proxy {
            Some(csi_proxy) => {
                let words = csi_proxy_in_words(csi_proxy);
                let tone = if csi_proxy.is_running() {
                    Tone::Good
                } else {
                    Tone::Bad
                };
                Cell::new(words).tone(tone)
            }
            None if self.readiness.needs_csi_proxy => Cell::new("unknown").tone(Tone::Warning),
            None => Cell::new(""),
        }
    }
}

/// Its version where it runs, and its state where that is worth a word.
pub(super) fn csi_proxy_in_words(csi_proxy: &CsiProxyStatus) -> String {
    let version = csi_proxy.version.as_deref().unwrap_or("another build");
    let words = if csi_proxy.is_running() {
        version.to_owned()
    } else if csi_proxy.service_state == "Running" {
        format!("{version}, pipes missing")
    } else {
        format!("{version}, {}", csi_proxy.service_state)
    };
    visible(&words)
}

fn list(texts: &[String]) -> String {
    let texts: Vec<String> = texts.iter().map(|text| visible(text)).collect();
    names(&texts.iter().map(String::as_str).collect::<Vec<_>>())
}
