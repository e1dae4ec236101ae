//! The validators of operator-framework.

use std::path::Path;
use std::process::Command;

use testbed::parts::part;

use crate::project::{CSV, copy, newest, replace, root};

/// What `bundle-check` prints, and whether it is content.
pub fn check(bundle: &Path) -> (String, bool) {
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

#[test]
fn the_committed_bundle_has_no_finding() {
    assert_eq!(
        check(&root().join("bundle")),
        ("0 findings\n".to_owned(), true)
    );
}

#[test]
fn a_bundle_that_is_not_in_order_has_findings() {
    for (file, from, to, finding) in [
        (
            CSV,
            "minKubeVersion: 1.33.0",
            "minKubeVersion: '1.33'",
            "MinKubeVersion",
        ),
        (CSV, "requests:", "limits:", "resource requests"),
        (
            CSV,
            "\"kind\": \"WindowsNodeStorage\"",
            "\"kind\": \"Other\"",
            "example",
        ),
        (CSV, "categories: Storage", "categories: Shelves", "Shelves"),
        (
            CSV,
            "capabilities: Seamless Upgrades",
            "capabilities: All",
            "capabilities",
        ),
        (
            CSV,
            "name: windows-storage-operator.v",
            "name: windows-storage-operator-",
            "naming",
        ),
        (
            CSV,
            "kind: WindowsNodeStorage\n      version",
            "kind: Another\n      version",
            "not found in bundle",
        ),
        (
            CSV,
            "  - name: operator\n    image: ",
            "  - name: operator\n    image: 'A b'\n    x: ",
            "pullspec",
        ),
        (
            "bundle/metadata/annotations.yaml",
            "candidate",
            "weekly",
            "channel",
        ),
        (
            "bundle/manifests/windowsstorage.dev_windowsstorages.yaml",
            "kind: CustomResourceDefinition",
            "kind: ServiceAccount",
            "",
        ),
        (
            "bundle/tests/scorecard/config.yaml",
            "entrypoint:",
            "entry:",
            "scorecard",
        ),
    ] {
        let copy = copy();
        let files = bundler::render(copy.path(), &newest()).unwrap();
        bundler::write(copy.path(), &files).unwrap();
        replace(copy.path(), file, from, to);
        let (printed, content) = check(&copy.path().join("bundle"));
        assert!(!content, "{to}: {printed}");
        assert!(printed.contains(finding), "{to}: {printed}");
        assert!(!printed.ends_with("\n0 findings\n"), "{to}: {printed}");
    }
}
