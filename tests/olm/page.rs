//! docs/gate.md: what it has people type is typed here, and what it shows is what comes out.

use std::process::Command;

use testbed::commands::{printed, with_path};
use testbed::markdown;

use crate::cluster::Cluster;

const PAGE: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/gate.md"));

/// Runs the commands under that heading one after the other, and compares what each prints with the page.
pub fn follow(cluster: &Cluster, heading: &str) {
    for (command, output) in examples(heading) {
        let printed = without_padding(&cluster.shell(&command));
        assert_eq!(
            printed, output,
            "docs/gate.md, {heading}: what this prints is not what the page shows: {command}"
        );
    }
}

/// The commands under a heading and what the page shows that they print.
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

/// Columns are filled up with blanks, the last one too.
fn without_padding(text: &str) -> String {
    let lines = text.lines().filter(|line| !line.trim().is_empty());
    lines.flat_map(|line| [line.trim_end(), "\n"]).collect()
}

impl Cluster {
    /// What a command line prints on standard output, with kubectl on the path and all rights on this cluster.
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
