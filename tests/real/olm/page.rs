//! Runs the commands of docs/gate.md and compares their output with the page.

use std::process::Command;

use testbed::commands::{printed, with_path};
use testbed::markdown;

use crate::olm::cluster::Cluster;

const PAGE: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/gate.md"));

/// Runs the commands under this heading one after the other, and compares the output of each with the page.
pub fn follow(cluster: &Cluster, heading: &str) {
    for (command, output) in examples(heading) {
        let printed = without_padding(&cluster.shell(&command));
        assert_eq!(
            printed, output,
            "docs/gate.md, {heading}: what this prints is not what the page shows: {command}"
        );
    }
}

/// Returns the commands under a heading with the output that the page shows.
fn examples(heading: &str) -> Vec<(String, String)> {
    let blocks = markdown::blocks(PAGE).into_iter();
    let blocks = blocks.filter(|block| block.heading == heading);
    let examples: Vec<_> = blocks
        .flat_map(|block| markdown::examples(&block.code))
        .collect();
    assert!(
        !examples.is_empty(),
        "docs/gate.md has no command under {heading:?}"
    );
    examples
}

/// Removes the padding at the end of lines: kubectl pads the last column, too.
fn without_padding(text: &str) -> String {
    let lines = text.lines().filter(|line| !line.trim().is_empty());
    lines.flat_map(|line| [line.trim_end(), "\n"]).collect()
}

impl Cluster {
    /// Runs a command line with kubectl on the PATH and all rights on this cluster. Returns its standard output.
    fn shell(&self, line: &str) -> String {
        let kubectl = testbed::parts::part("kubectl").unwrap();
        let mut shell = with_path(Command::new("sh"), &[kubectl.parent().unwrap()]).unwrap();
        shell
            .args(["-c", line])
            .env("KUBECONFIG", self.control_plane.kubeconfig())
            .current_dir("/");
        tokio::task::block_in_place(|| printed(&mut shell)).unwrap()
    }
}
