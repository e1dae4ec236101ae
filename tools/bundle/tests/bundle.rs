//! The committed bundle is that of its sources.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;

use bundler::Releases;

#[test]
fn the_committed_files_are_those_of_their_sources() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let files = Releases::read(&root).unwrap().render(&root).unwrap();
    let drift: Vec<_> = bundler::differences(&root, &files)
        .unwrap()
        .into_iter()
        .map(|(path, _)| path)
        .collect();
    assert!(
        drift.is_empty(),
        "run make bundle: {drift:?} differ from their sources"
    );
}
