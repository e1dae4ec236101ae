//! Every target with every input of its corpus, as `make fuzz` found it and as people wrote it: without instruments, in
//! seconds, on every change.
#![allow(
    clippy::panic,
    clippy::unwrap_used,
    reason = "a helper of tests fails as a test does"
)]

use std::fs;
use std::panic::catch_unwind;
use std::path::{Path, PathBuf};

fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus")
}

fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).unwrap_or_else(|error| panic!("{}: {error}", dir.display()));
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn every_input_of_the_corpus_holds() {
    let mut failed = Vec::new();
    for (name, target) in fuzz::TARGETS {
        for input in names(&corpus().join(name)) {
            let bytes = fs::read(corpus().join(name).join(&input)).unwrap();
            if catch_unwind(|| target(&bytes)).is_err() {
                failed.push(format!("{name}/{input}"));
            }
        }
    }
    assert!(failed.is_empty(), "these do not: {failed:#?}");
}
