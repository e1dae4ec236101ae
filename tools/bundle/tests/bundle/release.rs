//! Cuts the next release on a copy of the whole tree.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_yaml::Value;
use tempfile::TempDir;
use testbed::commands::printed;

use crate::project::{CSV, at, list, newest, root, text};
use crate::validators::assert_no_finding;

/// Copies every file that is not ignored, so that cargo accepts the copy as the project.
fn tree() -> TempDir {
    let copy = tempfile::tempdir().unwrap();
    let listed = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard"])
        .current_dir(root())
        .output()
        .unwrap();
    for file in String::from_utf8(listed.stdout).unwrap().lines() {
        let to = copy.path().join(file);
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        // The list also contains files that were removed without a commit.
        if root().join(file).exists() {
            fs::copy(root().join(file), to).unwrap();
        }
    }
    copy
}

fn release(tree: &Path, args: &[&str]) -> Command {
    let mut release = Command::new(env!("CARGO_BIN_EXE_bundler"));
    release.arg("--root").arg(tree).arg("release").args(args);
    release
}

/// Returns the files that a successful release prints.
fn changed(tree: &Path, args: &[&str]) -> Vec<String> {
    let changed = printed(&mut release(tree, args)).unwrap();
    changed.lines().map(str::to_owned).collect()
}

fn yaml(tree: &Path, file: &str) -> Value {
    serde_yaml::from_str(&fs::read_to_string(tree.join(file)).unwrap()).unwrap()
}

#[test]
fn a_release_sets_the_version_everywhere_once() {
    let tree = tree();
    let tree = tree.path();
    let first = newest();
    let changes = changed(tree, &["7.0.0"]);
    assert_eq!(
        changes,
        [
            "Cargo.toml",
            CSV,
            "catalog/imageset-config.yaml",
            "catalog/template.yaml",
            "charts/windows-storage-operator/Chart.yaml",
            "charts/windows-storage-operator/values.yaml",
            "manifests/install.yaml",
            "manifests/kustomization.yaml",
            "manifests/olm/releases.yaml",
            "Cargo.lock",
        ]
    );
    for package in ["windows-storage-operator", "windows-storage-agent"] {
        let output = Command::new(env!("CARGO"))
            .args(["pkgid", "--offline", "--locked", "-p", package])
            .current_dir(tree)
            .output()
            .unwrap();
        let id = String::from_utf8(output.stdout).unwrap();
        assert!(id.trim().ends_with("7.0.0"), "{package}: {id}");
    }
    let csv = yaml(tree, CSV);
    assert_eq!(text(&csv, "spec/replaces"), first.csv_name());
    // Another major version, so OLM uses only `replaces`.
    assert!(at(&csv, "metadata/annotations/olm.skipRange").is_null());
    let image = "localhost/windows-storage-operator:7.0.0";
    assert_eq!(text(&csv, "metadata/annotations/containerImage"), image);
    let kustomization = yaml(tree, "manifests/kustomization.yaml");
    assert_eq!(text(&kustomization, "images/0/newTag"), "7.0.0");
    assert_no_finding(tree);

    assert_eq!(changed(tree, &["7.0.0"]), Vec::<String>::new());

    let mine = [
        "7.1.0",
        "--image",
        "example.org/mine:7.1.0",
        "--max-openshift-version",
        "4.21",
    ];
    let changes = changed(tree, &mine);
    assert!(
        changes.contains(&"bundle/metadata/properties.yaml".to_owned()),
        "{changes:?}"
    );
    let csv = yaml(tree, CSV);
    assert_eq!(
        text(&csv, "metadata/name"),
        "windows-storage-operator.v7.1.0"
    );
    assert_eq!(
        text(&csv, "spec/replaces"),
        "windows-storage-operator.v7.0.0"
    );
    assert_eq!(
        text(&csv, "metadata/annotations/olm.skipRange"),
        ">=7.0.0 <7.1.0"
    );
    let template = yaml(tree, "catalog/template.yaml");
    let [.., before, seventh, newest] = list(&template, "entries/1/entries") else {
        panic!("{template:?}");
    };
    assert_eq!(text(before, "name"), first.csv_name());
    assert_eq!(text(seventh, "name"), "windows-storage-operator.v7.0.0");
    assert_eq!(text(newest, "name"), "windows-storage-operator.v7.1.0");
    assert_eq!(text(newest, "replaces"), text(seventh, "name"));
    assert_eq!(text(newest, "skipRange"), ">=7.0.0 <7.1.0");
    let [package, channel, bundles @ ..] = list(&template, "entries") else {
        panic!("{template:?}");
    };
    assert_eq!(text(package, "defaultChannel"), text(channel, "name"));
    assert_eq!(bundles.len(), list(channel, "entries").len());
    let last = bundles.last().unwrap();
    assert_eq!(text(last, "image"), "example.org/mine-bundle:7.1.0");
    assert_no_finding(tree);
}

#[test]
fn a_version_that_makes_no_sense_changes_nothing() {
    let tree = tree();
    let tree = tree.path();
    for (args, complaint) in [
        (&["0.0.9"][..], "is not above"),
        (&["7"], "7"),
        (&["v7.0.0"], "v7.0.0"),
        (&["7.0.0+build"], "build metadata"),
        (
            &["7.0.0", "--skip-range", ">=0.1.0"],
            "contains 7.0.0 itself",
        ),
        (&["7.0.0", "--image", "no-tag"], "is not NAME:TAG"),
        (
            &["7.0.0", "--max-openshift-version", "4.21.1"],
            "MAJOR.MINOR",
        ),
    ] {
        let output = release(tree, args).output().unwrap();
        assert!(!output.status.success(), "{args:?}");
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(error.contains(complaint), "{args:?}: {error}");
        for file in [
            "Cargo.toml",
            "Cargo.lock",
            CSV,
            "manifests/olm/releases.yaml",
        ] {
            assert_eq!(
                fs::read(tree.join(file)).unwrap(),
                fs::read(root().join(file)).unwrap(),
                "{args:?}: {file}"
            );
        }
    }
}
