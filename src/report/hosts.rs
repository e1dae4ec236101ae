//! Renders the results of `check hosts`.

use std::io;

use serde::Serialize;

use super::blocks::{Block, Span, Style};
use super::tables::table;
use super::{Format, drawn};
use crate::assess::report::API_VERSION;
use crate::node::Preflight;

const COLUMNS: [&str; 8] = [
    "Node", "Address", "Reached", "Admin", "Shell", "Free", "Agent", "Next",
];

/// Renders the results, of which there is no page: as JSON or YAML, or as a line a host, and a line a problem.
pub fn hosts(hosts: &[Preflight], format: Format, color: bool) -> io::Result<String> {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct HostList<'a> {
        api_version: &'static str,
        kind: &'static str,
        items: &'a [Preflight],
    }
    let list = HostList {
        api_version: API_VERSION,
        kind: "HostCheckList",
        items: hosts,
    };
    drawn(&list, || lines(hosts), format, color)
}

fn lines(hosts: &[Preflight]) -> Vec<Block> {
    let problems = hosts.iter().flat_map(|host| {
        let row = |problem| {
            [
                Span::new(Style::RowName, &host.node),
                Span::new(Style::Bad, problem),
            ]
        };
        host.problems.iter().map(row)
    });
    let problems: Vec<_> = problems.collect();
    let hosts = table("Hosts", COLUMNS, hosts.iter().map(cells));
    let is_fine = problems.is_empty();
    let problems = (!is_fine).then(|| table("Problems", ["Node", "Problem"], problems));
    std::iter::once(hosts).chain(problems).collect()
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
