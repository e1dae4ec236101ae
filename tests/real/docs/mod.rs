//! Tests the documentation: links resolve, tables match the code, and commands do what the pages show.
//!
//! Run with `cargo test --test real docs::`, or with `make docs-check`, which also prepares everything it needs.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod blocks;
mod contents;
mod objects;
mod output;
mod pages;
mod pipelines;
mod rules;
mod world;

use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: impl AsRef<Path>) -> String {
    let path = root().join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Returns the files of the tree that match, including untracked ones.
fn files(pattern: &str) -> Vec<PathBuf> {
    let mut git = Command::new("git");
    git.args(["ls-files", "--cached", "--others", "--exclude-standard"]);
    let listed = testbed::commands::printed(git.arg(pattern).current_dir(root())).unwrap();
    let files = listed.lines().map(PathBuf::from);
    // Git still lists what was removed without a commit.
    files.filter(|file| root().join(file).exists()).collect()
}

/// Returns a predicate: whether a test of this name, or a target such as `make image-check`, exists.
fn exists() -> impl Fn(&str) -> bool {
    let makefile = read("Makefile");
    let sources: String = files("*.rs").iter().map(read).collect();
    move |name| match name.strip_prefix("make ") {
        Some(target) => makefile.contains(&format!("\n{target}:")),
        None => sources.contains(&format!("fn {name}(")),
    }
}
