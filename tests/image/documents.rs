//! The SBOM and the licences of the image.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::archive::{Image, sha256, walk};

const DOCUMENTS: &str = "/usr/share/doc/windows-storage-operator";

/// Returns the names and versions of the components of one package type, such as `cargo`.
fn components(sbom: &Value, kind: &str) -> BTreeMap<String, String> {
    let prefix = format!("pkg:{kind}/");
    sbom["components"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|component| component["purl"].as_str().unwrap().starts_with(&prefix))
        .map(|component| {
            let text = |key: &str| component[key].as_str().unwrap().to_owned();
            (
                format!("{} {}", text("name"), text("version")),
                text("name"),
            )
        })
        .collect()
}

fn sbom(image: &Image) -> Value {
    image.json(&format!("{DOCUMENTS}/sbom.cdx.json"))
}

#[test]
fn the_sbom_names_crates_modules_and_packages() {
    for image in Image::all() {
        let sbom = sbom(image);
        assert_eq!(sbom["bomFormat"], "CycloneDX");
        assert_eq!(sbom["specVersion"], "1.5");

        let crates = components(&sbom, "cargo");
        let lock = include_str!("../../Cargo.lock");
        for (component, name) in &crates {
            let version = &component[name.len() + 1..];
            let locked = format!("name = \"{name}\"\nversion = \"{version}\"\n");
            assert!(lock.contains(&locked), "{component} is not in Cargo.lock");
        }
        let names: BTreeSet<&str> = crates.values().map(String::as_str).collect();
        for name in [
            "windows-storage-operator",
            "windows-storage-agent",
            "ssh2",
            "libssh2-sys",
            "openssl",
            "kube",
            // Only the agent links it.
            "windows-service",
        ] {
            assert!(names.contains(name), "{name} is not in the SBOM");
        }
        assert!(
            !names.contains("russh"),
            "what only tests need is not shipped"
        );

        let modules = components(&sbom, "golang");
        let csi_proxy = image.json("/payload/payload.json")["csiProxy"]["version"]
            .as_str()
            .unwrap()
            .to_owned();
        for module in [
            &format!("github.com/kubernetes-csi/csi-proxy {csi_proxy}"),
            "github.com/Microsoft/go-winio v0.6.2",
        ] {
            assert!(modules.contains_key(module), "{module}: {modules:?}");
        }
        assert!(modules.values().any(|name| name == "std"), "{modules:?}");

        let packages: BTreeSet<String> = components(&sbom, "deb").into_values().collect();
        let there: BTreeSet<String> = walk(&image.path("/var/lib/dpkg/status.d"))
            .into_iter()
            .map(|(path, _)| path.to_str().unwrap().to_owned())
            .collect();
        assert_eq!(packages, there);
        for start in ["libc6", "libssl3", "libgcc-s1", "zlib1g", "ca-certificates"] {
            // Ubuntu and newer releases of Debian call libssl3 libssl3t64.
            assert!(
                packages.iter().any(|name| name.starts_with(start)),
                "{start}: {packages:?}"
            );
        }
    }
}

/// Returns the names and versions of all crates that are linked into a program.
fn linked(package: &str, target: &str) -> BTreeSet<String> {
    let mut cargo = Command::new(env!("CARGO"));
    cargo
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .args(["tree", "--locked", "--edges", "normal", "--prefix", "none"])
        .args(["--package", package, "--target", target, "--format", "{p}"]);
    let tree = testbed::commands::printed(&mut cargo).unwrap();
    tree.lines()
        .filter_map(|line| {
            let mut words = line.split(' ');
            let (name, version) = (words.next()?, words.next()?);
            Some(format!("{name} {}", version.strip_prefix('v')?))
        })
        .collect()
}

#[test]
fn the_sbom_names_every_linked_crate_and_no_other_with_licence_and_hash() {
    for image in Image::all() {
        let sbom = sbom(image);
        let mut expected = linked("windows-storage-operator", image.target());
        expected.extend(linked("windows-storage-agent", "x86_64-pc-windows-gnu"));
        let named: BTreeSet<String> = components(&sbom, "cargo").into_keys().collect();
        assert_eq!(named, expected);

        for component in sbom["components"].as_array().unwrap() {
            let purl = component["purl"].as_str().unwrap();
            if purl.starts_with("pkg:deb/") {
                continue;
            }
            let licence = component["licenses"][0]["expression"].as_str();
            assert!(licence.is_some_and(|text| !text.is_empty()), "{component}");
            let name = component["name"].as_str().unwrap();
            // Crates of this workspace are not downloaded.
            if Path::new(env!("CARGO_MANIFEST_DIR"))
                .join("crates")
                .join(name)
                .is_dir()
            {
                continue;
            }
            let hash = &component["hashes"][0]["content"];
            let program = match name {
                "windows-storage-operator" => Some("/usr/bin/windows-storage-operator"),
                "windows-storage-agent" => Some("/payload/windows-storage-agent.exe"),
                _ => None,
            };
            if let Some(program) = program {
                assert_eq!(hash, sha256(&image.path(program)).as_str(), "{component}");
            } else if purl.starts_with("pkg:cargo/") {
                let hash = hash.as_str().unwrap();
                assert!(
                    include_str!("../../Cargo.lock").contains(hash),
                    "{component}"
                );
            } else if component["type"] == "library" && purl.starts_with("pkg:golang/github") {
                let sum = component["properties"][0]["value"].as_str().unwrap();
                let sums = include_str!("../../tools/csi-proxy-1.3.0/go.sum");
                assert!(sums.contains(sum), "{component}");
            }
        }
    }
}

#[test]
fn the_sbom_is_valid_by_the_schema_of_the_standard() {
    for image in Image::all() {
        let part = |name| testbed::parts::part(name).unwrap();
        let check = |sbom: &Path| {
            Command::new(part("sbom-check"))
                .arg(part("cyclonedx-schemas"))
                .arg(sbom)
                .output()
                .unwrap()
        };
        let path = image.path(&format!("{DOCUMENTS}/sbom.cdx.json"));
        let valid = check(&path);
        assert!(valid.status.success(), "{valid:?}");

        let mut wrong = sbom(image);
        wrong["components"][0]["type"] = "crate".into();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("wrong.cdx.json");
        std::fs::write(&path, wrong.to_string()).unwrap();
        let invalid = check(&path);
        let said = String::from_utf8_lossy(&invalid.stderr).into_owned();
        assert!(
            !invalid.status.success() && said.contains("/components/0/type"),
            "{said}"
        );
    }
}

#[test]
fn the_sbom_holds_together() {
    for image in Image::all() {
        let sbom = sbom(image);
        let reference = |value: &Value| value.as_str().unwrap().to_owned();
        let components = sbom["components"].as_array().unwrap();
        let references: BTreeSet<String> = components
            .iter()
            .map(|component| reference(&component["bom-ref"]))
            .collect();
        assert_eq!(references.len(), components.len(), "a component is twice");
        let root = reference(&sbom["metadata"]["component"]["bom-ref"]);
        let mut reached = BTreeSet::new();
        for dependency in sbom["dependencies"].as_array().unwrap() {
            let from = reference(&dependency["ref"]);
            assert!(from == root || references.contains(&from), "{from}");
            reached.extend(
                dependency["dependsOn"]
                    .as_array()
                    .unwrap()
                    .iter()
                    .map(reference),
            );
        }
        assert_eq!(reached, references, "each is a part of another, and known");
    }
}

#[test]
fn every_part_has_its_licence() {
    for image in Image::all() {
        let sbom = sbom(image);
        let texts: String = ["operator", "agent"]
            .iter()
            .map(|program| image.text(&format!("{DOCUMENTS}/licences/rust/{program}.txt")))
            .collect();
        let lines: BTreeSet<&str> = texts.lines().collect();
        for component in components(&sbom, "cargo").keys() {
            let line = format!("  * {component}");
            assert!(lines.contains(line.as_str()), "no licence of {component}");
        }
        // The C library that a crate bundles has its own licence.
        assert!(
            texts.contains("Sara Golemon"),
            "libssh2's licence is missing"
        );

        let go = image.path(&format!("{DOCUMENTS}/licences/go"));
        let files: Vec<String> = walk(&go)
            .into_iter()
            .filter(|(_, metadata)| metadata.is_file())
            .map(|(path, _)| path.to_str().unwrap().to_owned())
            .collect();
        for name in components(&sbom, "golang").values() {
            let folder = if name == "std" {
                "standard-library"
            } else {
                name
            };
            let folder = format!("{folder}/");
            assert!(
                files.iter().any(|file| file.starts_with(&folder)),
                "no licence of {name}"
            );
        }
        for name in components(&sbom, "deb").values() {
            let copyright = image.text(&format!("/usr/share/doc/{name}/copyright"));
            assert!(!copyright.is_empty(), "no licence of {name}");
        }
        for part in ["LICENSE", "rust/standard-library", "mingw-w64/copyright"] {
            let path = image.path(&format!("{DOCUMENTS}/licences/{part}"));
            assert!(path.exists(), "{part} is not among the licences");
        }
    }
}
