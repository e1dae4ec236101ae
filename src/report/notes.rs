//! Selects and merges the findings that people see.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::blocks::{Block, Note};
use super::sentences::{as_sentence, names, shorten};
use crate::assess::codes;
use crate::assess::report::Finding;

/// More findings than this that differ only in names are shown as one.
const ALIKE: usize = 3;

/// A finding, and where it was found.
type Placed<'a> = (&'a Finding, String);

/// Returns findings with their objects and the nodes that they name as places.
pub(super) fn at_their_objects<'a>(
    findings: impl IntoIterator<Item = &'a Finding>,
) -> impl Iterator<Item = Placed<'a>> {
    let findings = findings.into_iter();
    findings.map(|finding| match apart(finding) {
        (_, Some(nodes)) => (finding, format!("{} on {nodes}", finding.object)),
        (_, None) => (finding, finding.object.clone()),
    })
}

/// Takes a finding's problem and the nodes at its end apart.
fn apart(finding: &Finding) -> (&str, Option<&str>) {
    let problem = finding.problem();
    let on_nodes = problem.strip_suffix(')');
    let on_nodes = on_nodes.and_then(|problem| problem.rsplit_once(" (on "));
    on_nodes.map_or((problem, None), |(problem, nodes)| (problem, Some(nodes)))
}

/// Returns the place of a node's finding: the node alone if the object has the node's name.
pub(super) fn place_on(node: &str, finding: &Finding) -> String {
    match finding.object.split_once('/') {
        Some((_, name)) if name == node => node.to_owned(),
        _ => format!("{} on {node}", finding.object),
    }
}

/// Sorts root causes first and advice for later last.
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

/// Merges equal findings, and many that are alike. Within a rank, those with the most places come first.
pub(super) fn notes<'a>(findings: impl IntoIterator<Item = Placed<'a>>, most: usize) -> Vec<Block> {
    let mut alike: BTreeMap<(&str, String), BTreeMap<&str, Vec<Placed<'_>>>> = BTreeMap::new();
    for (finding, place) in findings {
        let alike = alike.entry((&finding.code, without_names(finding)));
        let same = alike.or_default().entry(&finding.message).or_default();
        same.push((finding, place));
    }
    let mut notes: Vec<Vec<Placed<'_>>> = Vec::new();
    for messages in alike.into_values() {
        if messages.len() > ALIKE {
            notes.push(messages.into_values().flatten().collect());
        } else {
            notes.extend(messages.into_values());
        }
    }
    notes.sort_by_key(|places| {
        let (finding, _) = places[0];
        (
            rank(&finding.code),
            Reverse(places.len()),
            &finding.code,
            &finding.message,
        )
    });
    let more = shorten(&mut notes, most, "finding");
    let notes = notes.into_iter().map(|places| {
        let (finding, _) = places[0];
        let (problem, _) = apart(finding);
        let places: Vec<String> = places.into_iter().map(|(_, place)| place).collect();
        Note {
            message: as_sentence(problem),
            code: finding.code.clone(),
            places: names(&places),
            command: finding.command.clone(),
        }
    });
    let notes: Vec<Note> = notes.collect();
    let list = (!notes.is_empty()).then_some(Block::List(notes));
    list.into_iter().chain(more).collect()
}

/// Returns a finding's problem without the names of its object and in its command, in which findings that are alike differ.
fn without_names(finding: &Finding) -> String {
    let (problem, _) = apart(finding);
    let command = finding
        .command
        .iter()
        .flat_map(|command| command.split(' '));
    let mut names: Vec<&str> = finding.object.split('/').skip(1).chain(command).collect();
    // A short one may be a part of a long one.
    names.sort_by_key(|name| Reverse(name.len()));
    let names = names.into_iter().filter(|name| !name.is_empty());
    names.fold(problem.to_owned(), |problem, name| {
        problem.replace(name, "…")
    })
}
