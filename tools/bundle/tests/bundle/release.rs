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
    // Git still lists what was removed without a commit.
    let script = "git ls-files -z --cached --others --exclude-standard | \
        while IFS= read -r -d '' file; do [ ! -e \"$file\" ] || cp --parents -P \"$file\" \"$0\"; done";
    let mut bash = Command::new("bash");
    bash.args(["-euc", script])
        .arg(copy.path())
        .current_dir(root());
    printed(&mut bash).unwrap();
    copy
}

/// Runs a release, and returns the files that it says to have changed, or its error.
fn release(tree: &Path, args: &str) -> Result<Vec<String>, String> {
    let mut release = Command::new(env!("CARGO_BIN_EXE_bundler"));
    release.arg("--root").arg(tree).arg("release");
    let changed = printed(release.args(args.split(' '))).map_err(|error| error.to_string())?;
    Ok(changed.lines().map(str::to_owned).collect())
}

fn yaml(tree: &Path, file: &str) -> Value {
    serde_yaml::from_str(&fs::read_to_string(tree.join(file)).unwrap()).unwrap()
}

/// Asserts what is at paths of a file, where `-` stands for nothing.
fn assert_has(tree: &Path, file: &str, expected: &[[&str; 2]]) {
    let value = yaml(tree, file);
    for [keys, text] in expected {
        assert_eq!(
            at(&value, keys).as_str().unwrap_or("-"),
            *text,
            "{file}: {keys}"
        );
    }
}

#[test]
fn a_release_sets_the_version_everywhere_once() {
    let tree = tree();
    let tree = tree.path();
    let first = newest().csv_name();
    let expected = [
        "Cargo.toml",
        CSV,
        "catalog/imageset-config.yaml",
        "catalog/template.yaml",
        "charts/windows-storage-operator/Chart.yaml",
        "charts/windows-storage-operator/README.md",
        "charts/windows-storage-operator/values.schema.json",
        "charts/windows-storage-operator/values.yaml",
        "manifests/install.yaml",
        "manifests/kustomization.yaml",
        "manifests/olm/releases.yaml",
        "Cargo.lock",
    ];
    assert_eq!(release(tree, "7.0.0").unwrap(), expected);
    for package in ["windows-storage-operator", "windows-storage-agent"] {
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(["pkgid", "--offline", "--locked", "-p", package]);
        let id = printed(cargo.current_dir(tree)).unwrap();
        assert!(id.trim().ends_with("7.0.0"), "{package}: {id}");
    }
    let image = "localhost/windows-storage-operator:7.0.0";
    let seventh = "windows-storage-operator.v7.0.0";
    let csv = [
        ["spec/replaces", &first],
        // Another major version, so OLM uses only `replaces`.
        ["metadata/annotations/olm.skipRange", "-"],
        ["metadata/annotations/containerImage", image],
    ];
    assert_has(tree, CSV, &csv);
    assert_has(
        tree,
        "manifests/kustomization.yaml",
        &[["images/0/newTag", "7.0.0"]],
    );
    assert_no_finding(tree);

    assert_eq!(release(tree, "7.0.0").unwrap(), Vec::<String>::new());

    let mine = "7.1.0 --image example.org/mine:7.1.0 --max-openshift-version 4.21";
    let properties = "bundle/metadata/properties.yaml".to_owned();
    assert!(release(tree, mine).unwrap().contains(&properties));
    let (newest, range) = ("windows-storage-operator.v7.1.0", ">=7.0.0 <7.1.0");
    let csv = [
        ["metadata/name", newest],
        ["spec/replaces", seventh],
        ["metadata/annotations/olm.skipRange", range],
    ];
    assert_has(tree, CSV, &csv);
    let template = yaml(tree, "catalog/template.yaml");
    let [package, channel, bundles @ ..] = list(&template, "entries") else {
        panic!("{template:?}");
    };
    let entries = list(channel, "entries");
    let names: Vec<_> = entries.iter().map(|entry| text(entry, "name")).collect();
    assert!(names.ends_with(&[&first, seventh, newest]), "{names:?}");
    let last = entries.last().unwrap();
    assert_eq!(
        [text(last, "replaces"), text(last, "skipRange")],
        [seventh, range]
    );
    assert_eq!(text(package, "defaultChannel"), text(channel, "name"));
    assert_eq!(bundles.len(), entries.len());
    let image = text(bundles.last().unwrap(), "image");
    assert_eq!(image, "example.org/mine-bundle:7.1.0");
    assert_no_finding(tree);
}

#[test]
fn a_version_that_makes_no_sense_changes_nothing() {
    let tree = tree();
    let tree = tree.path();
    for (args, complaint) in [
        ("0.0.9", "is not above"),
        ("7", "7"),
        ("v7.0.0", "v7.0.0"),
        ("7.0.0+build", "build metadata"),
        ("7.0.0 --skip-range >=0.1.0", "contains 7.0.0 itself"),
        ("7.0.0 --image no-tag", "is not NAME:TAG"),
        ("7.0.0 --image host:5000/a", "is not NAME:TAG"),
        ("7.0.0 --image a@", "is not NAME:TAG"),
        ("7.0.0 --max-openshift-version 4.21.1", "MAJOR.MINOR"),
    ] {
        let error = release(tree, args).unwrap_err();
        assert!(error.contains(complaint), "{args}: {error}");
        for file in [
            "Cargo.toml",
            "Cargo.lock",
            CSV,
            "manifests/olm/releases.yaml",
        ] {
            let [now, before] = [tree, &root()].map(|root| fs::read(root.join(file)).unwrap());
            assert_eq!(now, before, "{args}: {file}");
        }
    }
}
