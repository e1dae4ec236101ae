//! Renders the results of `check hosts`.

use std::io;

use clap::ValueEnum;
use serde::Serialize;

use super::blocks::{Block, Span, Style};
use super::{json, text};
use crate::assess::report::API_VERSION;
use crate::node::Preflight;

const COLUMNS: [&str; 8] = [
    "Node", "Address", "Reached", "Admin", "Shell", "Free", "Agent", "Next",
];

/// What a list of hosts is written as.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum HostsFormat {
    /// A line a host, and a line a problem
    #[default]
    Table,
    /// The whole list for programs
    Json,
    /// The same as JSON, as YAML
    Yaml,
}

/// The hosts of Windows nodes.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HostList {
    api_version: &'static str,
    kind: &'static str,
    items: Vec<Preflight>,
}

impl HostList {
    /// Creates the list, sorted by node name.
    pub fn of(mut items: Vec<Preflight>) -> Self {
        items.sort_by(|a, b| a.node.cmp(&b.node));
        Self {
            api_version: API_VERSION,
            kind: "HostCheckList",
            items,
        }
    }

    /// Whether no host has a problem.
    pub fn is_fine(&self) -> bool {
        self.items.iter().all(Preflight::is_fine)
    }

    /// Renders the list. `color` applies to the table only.
    pub fn render(&self, format: HostsFormat, color: bool) -> io::Result<String> {
        match format {
            HostsFormat::Table => Ok(self.table(color)),
            HostsFormat::Json => json::json(self),
            HostsFormat::Yaml => json::yaml(self),
        }
    }

    fn table(&self, color: bool) -> String {
        let hosts = Block::Table {
            label: String::new(),
            header: COLUMNS.map(Span::plain).into(),
            rows: self.items.iter().map(|host| cells(host).into()).collect(),
        };
        let problems = self.items.iter().flat_map(|host| {
            let row = |problem| {
                vec![
                    Span::new(Style::RowName, &host.node),
                    Span::new(Style::Bad, problem),
                ]
            };
            host.problems.iter().map(row)
        });
        let problems = Block::Table {
            label: "Problems".to_owned(),
            header: ["Node", "Problem"].map(Span::plain).into(),
            rows: problems.collect(),
        };
        if self.is_fine() {
            text::draw(&[hosts], color)
        } else {
            text::draw(&[hosts, problems], color)
        }
    }
}

fn cells(host: &Preflight) -> [Span; COLUMNS.len()] {
    let optional = |text: Option<&str>| Span::plain(text.unwrap_or_default());
    let administrator = match host.administrator {
        Some(is_one) => Span::state(is_one, "yes", "no"),
        None => Span::plain(""),
    };
    let free = host.free_bytes.map(|bytes| format!("{} MiB", bytes >> 20));
    let reached = match (host.reached, host.problems.is_empty()) {
        // The host was not contacted.
        (false, true) => Span::plain(""),
        (reached, _) => Span::state(reached, "yes", "no"),
    };
    let next = match &host.other_owner {
        Some(owner) => format!("{}: {owner}", host.next),
        None => host.next.clone(),
    };
    [
        Span::new(Style::RowName, &host.node),
        optional(host.address.as_deref()),
        reached,
        administrator,
        optional(host.shell),
        optional(free.as_deref()),
        optional(host.agent.as_deref()),
        Span::plain(next),
    ]
}
