//! Runs the validators of operator-framework.

use std::path::Path;
use std::process::Command;

use testbed::parts::part;

use crate::project::{copy, newest, root};

/// Returns the output of `bundle-check`, and whether it succeeded.
fn check(bundle: &Path) -> (String, bool) {
    let output = Command::new(part("bundle-check").unwrap())
        .arg(bundle)
        .output()
        .unwrap();
    assert!(
        output.stderr.is_empty(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    (
        String::from_utf8(output.stdout).unwrap(),
        output.status.success(),
    )
}

/// Asserts that the validators accept the bundle of the project in this folder.
pub fn assert_no_finding(root: &Path) {
    assert_eq!(
        check(&root.join("bundle")),
        ("0 findings\n".to_owned(), true)
    );
}

#[test]
fn the_committed_bundle_has_no_finding() {
    assert_no_finding(&root());
}

#[test]
fn neither_has_one_for_mirrors() {
    let copy = copy();
    let image = |name: &str| format!("example.org/{name}@sha256:{}", "0f".repeat(32));
    let mut release = newest();
    release.image = image("operator");
    release.must_gather_image = Some(image("must-gather"));
    let files = bundler::render(copy.path(), &release).unwrap();
    bundler::write(copy.path(), &files).unwrap();
    assert_no_finding(copy.path());
}
