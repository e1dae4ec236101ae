//! Shows what would happen to the pods of one node.

use std::io;

use serde_json::json;

use super::blocks::{Block, Span};
use super::sentences::{count, names};
use super::{Format, drawn};
use crate::assess::report::{API_VERSION, About};
use crate::assess::versions::Release;
use crate::assess::{Preview, Stuck, Way};

/// Renders a preview as a table, or as JSON or YAML for programs. There is no page of it.
pub fn preview(
    preview: &Preview,
    way: Way,
    about: &About,
    target: Option<Release>,
    format: Format,
    color: bool,
) -> io::Result<String> {
    let question = match way {
        Way::Again => "Restart",
        Way::Away => "Drain",
    };
    let value = json!({
        "apiVersion": API_VERSION,
        "kind": "NodePreview",
        "about": about,
        "target": target.map(Release::number),
        "question": question,
        "node": preview.node,
        "pods": preview.pods,
        "stuck": preview.stuck,
    });
    drawn(&value, || lines(preview, way), format, color)
}

fn lines(preview: &Preview, way: Way) -> Vec<Block> {
    let Preview { node, pods, stuck } = preview;
    let of_all = format!("{} with volumes", count(*pods, "pod"));
    let verdict = match stuck.len() {
        0 if *pods == 0 => "No pod with volumes is in question".to_owned(),
        0 => format!("Nothing is in the way of the {of_all}"),
        some => format!("{some} of {of_all} could not mount all of them"),
    };
    let verdict = Span::state(stuck.is_empty(), &verdict, &verdict);
    let how = match way {
        Way::Again => format!(" if they started again on {node}."),
        Way::Away => format!(" if {node} were drained."),
    };
    let headline = Block::Text(vec![verdict, Span::plain(how)]);
    let groups = stuck.iter().map(of_pod);
    std::iter::once(headline).chain(groups).collect()
}

fn of_pod(stuck: &Stuck) -> Block {
    let reasons = stuck.reasons.iter().map(|reason| match &reason.nodes[..] {
        [] => Block::text(format!("{}.", reason.message)),
        nodes => Block::text(format!("On {}: {}.", names(nodes), reason.message)),
    });
    Block::Group {
        name: format!("pod {}/{}", stuck.namespace, stuck.name),
        what: None,
        blocks: reasons.collect(),
    }
}
