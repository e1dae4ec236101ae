//! Renders the Windows nodes of a report as kubectl lists objects.

use std::collections::BTreeSet;
use std::io;

use clap::ValueEnum;
use serde::Serialize;

use super::blocks::{Block, Span, Style};
use super::sentences::names;
use super::{json, tables, text};
use crate::api::CsiProxyStatus;
use crate::assess::ExternalOwner;
use crate::assess::report::{API_VERSION, NodeReadiness, ReadinessReport};
use crate::index::Cluster;
use crate::visible::visible;

/// The columns of the wide table.
const COLUMNS: [&str; 10] = [
    "Name",
    "Ready",
    "CSINode",
    "csi-proxy",
    "Drivers",
    "Missing",
    "Findings",
    "Management",
    "Address",
    "Kubelet",
];
/// How many of the columns the narrow table has.
const NARROW: usize = 7;

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

/// The Windows nodes with their storage state.
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
    /// Who manages csi-proxy and its last known state, if this operator runs and has reported the node.
    management: Option<String>,
    csi_proxy: Option<CsiProxyStatus>,
    /// Who looks after csi-proxy, if not this operator.
    #[serde(skip)]
    owner: Option<ExternalOwner>,
}

impl NodeList {
    /// Creates the list of a report's nodes: all, or those with these names.
    pub fn of(report: &ReadinessReport, cluster: &Cluster, names: &[String]) -> Self {
        let nodes = report.nodes.iter();
        let wanted = nodes.filter(|node| names.is_empty() || names.contains(&node.name));
        let some = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        let row = |readiness: &NodeReadiness| {
            let node = cluster.nodes.get(readiness.name.as_str());
            let status = cluster.node_statuses.get(readiness.name.as_str());
            let address = node.and_then(|node| {
                let internal = node.addresses.iter().find(|it| it.type_ == "InternalIP");
                internal.or(node.addresses.first())
            });
            NodeRow {
                readiness: readiness.clone(),
                kubelet_version: node.and_then(|node| some(&node.kubelet_version)),
                address: address.and_then(|it| some(&it.address)),
                management: status.and_then(|status| some(&status.management)),
                csi_proxy: status.and_then(|status| status.csi_proxy.clone()),
                owner: ExternalOwner::of(cluster, &readiness.name),
            }
        };
        Self {
            api_version: API_VERSION,
            kind: "NodeReadinessList",
            items: wanted.map(row).collect(),
        }
    }

    /// Whether all listed nodes are ready.
    pub fn is_ready(&self) -> bool {
        self.items.iter().all(|row| row.readiness.ready)
    }

    /// Renders the list. `color` applies to the tables only.
    pub fn render(&self, format: NodesFormat, color: bool) -> io::Result<String> {
        match format {
            NodesFormat::Table => Ok(self.table(NARROW, color)),
            NodesFormat::Wide => Ok(self.table(COLUMNS.len(), color)),
            NodesFormat::Json => json::json(self),
            NodesFormat::Yaml => json::yaml(self),
            NodesFormat::Name => {
                let line = |text: String, row: &NodeRow| {
                    text + "node/" + &visible(&row.readiness.name) + "\n"
                };
                Ok(self.items.iter().fold(String::new(), line))
            }
        }
    }

    fn table(&self, columns: usize, color: bool) -> String {
        let row = |row: &NodeRow| row.cells().into_iter().take(columns).collect();
        let table = Block::Table {
            label: String::new(),
            header: COLUMNS.map(Span::plain).into_iter().take(columns).collect(),
            rows: self.items.iter().map(row).collect(),
        };
        text::draw(&[table], color)
    }
}

impl NodeRow {
    fn cells(&self) -> [Span; COLUMNS.len()] {
        let readiness = &self.readiness;
        let codes: BTreeSet<&str> = readiness.findings.iter().map(|it| &*it.code).collect();
        let codes = Vec::from_iter(codes).join(", ");
        let optional = |text: &Option<String>| Span::plain(text.as_deref().unwrap_or_default());
        let csi_proxy = match (&self.csi_proxy, &self.owner) {
            (Some(csi_proxy), _) => {
                let words = csi_proxy_in_words(csi_proxy);
                Span::state(csi_proxy.is_running(), &words, &words)
            }
            (None, Some(owner)) => Span::new(Style::Warning, owner.not_seen()),
            (None, None) if readiness.needs_csi_proxy => Span::new(Style::Warning, "unknown"),
            (None, None) => Span::plain(""),
        };
        [
            Span::plain(&readiness.name),
            Span::state(readiness.ready, "yes", "no"),
            Span::state(readiness.csi_node, "yes", "no"),
            csi_proxy,
            Span::plain(names(&readiness.drivers)),
            tables::missing_drivers(readiness),
            Span::plain(codes),
            optional(&self.management),
            optional(&self.address),
            optional(&self.kubelet_version),
        ]
    }
}

/// Returns csi-proxy's version, and its state unless it runs well.
pub(super) fn csi_proxy_in_words(csi_proxy: &CsiProxyStatus) -> String {
    let version = csi_proxy.version.as_deref().unwrap_or("another build");
    if csi_proxy.is_running() {
        version.to_owned()
    } else if csi_proxy.service_state == "Running" {
        format!("{version}, does not answer on all pipes")
    } else {
        format!("{version}, {}", csi_proxy.service_state)
    }
}
