//! krew accepts the output of `make plugin`.

use std::path::Path;
use std::process::Command;

use serde_yaml::Value;
use testbed::commands::{printed, with_path};
use testbed::parts::part;

#[test]
#[ignore = "make test-release: it packs a release, and builds krew"]
fn krew_installs_the_archive_and_kubectl_runs_it() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let make = |repository: &str| {
        let mut make = Command::new(root.join("tools/plugin"));
        make.args(["dev", env!("CARGO_BIN_EXE_windows-storage-operator")])
            .env("REPOSITORY", repository);
        printed(&mut make).unwrap();
        std::fs::read_to_string(root.join("target/plugin/dev/windows-storage.yaml")).unwrap()
    };
    let published = make("https://example.com/operator");
    let manifest: Value = serde_yaml::from_str(&published).unwrap();
    let version = format!("v{}", env!("CARGO_PKG_VERSION"));
    assert_eq!(manifest["spec"]["version"], Value::from(version.as_str()));
    let platform = &manifest["spec"]["platforms"][0];
    let uri = platform["uri"].as_str().unwrap();
    let place = format!("https://example.com/operator/releases/download/{version}/");
    let archive = uri.strip_prefix(&place).unwrap();
    let folder = root.join("target/plugin/dev");
    let archive = folder.join(archive);
    let sum = printed(Command::new("sha256sum").arg(&archive)).unwrap();
    assert_eq!(sum.split(' ').next(), platform["sha256"].as_str());
    let again = make("https://example.com/operator");
    assert_eq!(again, published, "the same files make another archive");

    let krew = part("krew").unwrap();
    let manifest = folder.join("windows-storage.yaml");
    let validator = krew.with_file_name("validate-krew-manifest");
    let mut validate = Command::new(validator);
    printed(validate.args(["-skip-install", "-manifest"]).arg(&manifest)).unwrap();

    let home = tempfile::tempdir().unwrap();
    let mut install = Command::new(krew);
    install
        .arg("install")
        .arg(format!("--manifest={}", manifest.display()))
        .arg(format!("--archive={}", archive.display()))
        .env("KREW_ROOT", home.path());
    printed(&mut install).unwrap();
    let bin = home.path().join("bin");
    let mut kubectl = with_path(Command::new(part("kubectl").unwrap()), &[&bin]).unwrap();
    let version = printed(kubectl.args(["windows-storage", "--version"])).unwrap();
    let expected = format!("kubectl windows-storage {}\n", env!("CARGO_PKG_VERSION"));
    assert_eq!(version, expected);
    let input = root.join("tests/check/input/ready-1.31");
    let mut kubectl = with_path(Command::new(part("kubectl").unwrap()), &[&bin]).unwrap();
    let verdict = printed(kubectl.args(["windows-storage", "check", "-f"]).arg(input)).unwrap();
    assert!(verdict.starts_with("UPGRADEABLE"), "{verdict}");
}
