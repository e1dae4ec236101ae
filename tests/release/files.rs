//! `tools/release` builds a complete and reproducible release from the images of `make image-dev`.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use serde_yaml::Value;
use testbed::commands::printed;

use crate::root;

const VERSION: &str = env!("CARGO_PKG_VERSION");
const REGISTRY: &str = "registry.example.com/storage";

fn release(umask: &str, time_zone: &str) -> String {
    let mut release = Command::new("bash");
    let script = "umask $0 && exec tools/release $1 dev";
    release
        .args(["-c", script, umask, VERSION])
        .envs([
            ("REGISTRY", REGISTRY),
            ("REPOSITORY", "https://example.com/operator"),
            ("TZ", time_zone),
        ])
        .current_dir(root());
    printed(&mut release).unwrap()
}

fn folder() -> PathBuf {
    root().join("target/release-files-dev")
}

fn text(name: &str) -> String {
    let path = folder().join(name);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn a_release_is_complete_names_images_by_digest_and_is_the_same_each_time() {
    let mut plugin = Command::new(root().join("tools/plugin"));
    plugin
        .args(["dev", env!("CARGO_BIN_EXE_windows-storage-operator")])
        .env("REPOSITORY", "https://example.com/operator");
    printed(&mut plugin).unwrap();
    // In place of the command line, which takes minutes to build for Windows.
    let program = root().join("target/cli-dev/windows-amd64");
    fs::create_dir_all(&program).unwrap();
    fs::write(program.join("windows-storage-operator.exe"), "MZ").unwrap();
    let said = release("022", "UTC");
    let sums = text("SHA256SUMS");
    assert!(
        said.contains("push the images") && said.contains("sign them"),
        "{said}"
    );

    let mut check = Command::new("sha256sum");
    check
        .args(["--check", "--strict", "SHA256SUMS"])
        .current_dir(folder());
    printed(&mut check).unwrap();
    let summed: BTreeSet<&str> = sums.lines().map(|line| &line[66..]).collect();
    let files = fs::read_dir(folder()).unwrap();
    let there: BTreeSet<String> = files
        .map(|file| file.unwrap().file_name().into_string().unwrap())
        .filter(|name| name != "SHA256SUMS")
        .collect();
    assert_eq!(summed, there.iter().map(String::as_str).collect());
    let parts = "operator.oci.tar must-gather.oci.tar bundle.oci.tar catalog.oci.tar install.yaml crds.yaml \
        imageset-config.yaml windows-storage.yaml .cdx.json licences_ samples_ kubectl-windows_storage_ _windows_amd64.tar.gz";
    let chart = format!("windows-storage-operator-{VERSION}.tgz");
    for part in parts.split_whitespace().chain([&*chart]) {
        assert!(
            there.iter().any(|name| name.contains(part)),
            "{part}: {there:?}"
        );
    }

    let images = text("images.txt");
    assert_eq!(images.lines().count(), 4, "{images}");
    let image = |name: &str| {
        let start = format!("{REGISTRY}/windows-storage-operator{name}@sha256:");
        let mut lines = images.lines();
        lines.find(|line| line.starts_with(&start)).unwrap()
    };
    assert!(text("install.yaml").contains(&format!("image: {}\n", image(""))));
    let sbom = there
        .iter()
        .find(|name| name.ends_with(".cdx.json"))
        .unwrap();
    let sbom: Value = serde_yaml::from_str(&text(sbom)).unwrap();
    assert_eq!(sbom["bomFormat"], "CycloneDX");

    // OLM reads the contents of the bundle image and the catalog image.
    let csv = "manifests/windows-storage-operator.clusterserviceversion.yaml";
    let csv = unpacked("bundle", csv);
    let csv: Value = serde_yaml::from_str(&csv).unwrap();
    let related = csv["spec"]["relatedImages"].as_sequence().unwrap().iter();
    let related: Vec<&str> = related.map(|one| one["image"].as_str().unwrap()).collect();
    assert_eq!(related, [image(""), image("-must-gather")]);
    let catalog = unpacked("catalog", "configs/windows-storage-operator/catalog.yaml");
    assert!(
        catalog.contains(&format!("image: {}\n", image("-bundle"))),
        "{catalog}"
    );

    release("077", "Pacific/Auckland");
    assert_eq!(text("SHA256SUMS"), sums);
}

/// Returns a file from the last layer of an image.
fn unpacked(image: &str, path: &str) -> String {
    let script = r#"
        work=$(mktemp -d) && trap 'rm -rf "$work"' EXIT && tar -xf "$0" -C "$work" && cd "$work/blobs/sha256"
        manifest=$(jq -r '.manifests[0].digest[7:]' ../../index.json)
        tar -xOf "$(jq -r '.layers[-1].digest[7:]' "$manifest")" "$1""#;
    let archive = folder().join(format!("windows-storage-operator-{image}.oci.tar"));
    let mut bash = Command::new("bash");
    bash.args(["-euc", script]).arg(archive).arg(path);
    printed(&mut bash).unwrap()
}

#[test]
fn another_version_than_the_sources_is_refused() {
    let mut release = Command::new(root().join("tools/release"));
    let error = printed(release.args(["99.0.0", "dev"]))
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("make release-bundle VERSION=99.0.0"),
        "{error}"
    );
}
