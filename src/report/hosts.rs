//! Renders the results of `check hosts`.

use serde::Serialize;

use super::blocks::{Block, Span, Style};
use super::tables::table;
use crate::assess::report::API_VERSION;
use crate::node::Preflight;

const COLUMNS: [&str; 8] = [
    "Node", "Address", "Reached", "Admin", "Shell", "Free", "Agent", "Next",
];

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

    /// A line a host, and a line a problem.
    pub(super) fn lines(&self) -> Vec<Block> {
        let hosts = table("Hosts", COLUMNS, self.items.iter().map(cells));
        let problems = self.items.iter().flat_map(|host| {
            let row = |problem| {
                [
                    Span::new(Style::RowName, &host.node),
                    Span::new(Style::Bad, problem),
                ]
            };
            host.problems.iter().map(row)
        });
        let problems = table("Problems", ["Node", "Problem"], problems);
        let problems = (!self.is_fine()).then_some(problems);
        std::iter::once(hosts).chain(problems).collect()
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
