//! The SBOM and the licences of the image.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::archive::{Image, sha256, walk};

const DOCUMENTS: &str = "/usr/share/doc/windows-storage-operator";

/// Returns the components of one package type, such as `cargo`: names and versions.
fn components(sbom: &Value, kind: &str) -> Vec<[String; 2]> {
    let prefix = format!("pkg:{kind}/");
    let components = sbom["components"].as_array().unwrap().iter();
    components
        .filter(|component| component["purl"].as_str().unwrap().starts_with(&prefix))
        .map(|component| ["name", "version"].map(|key| component[key].as_str().unwrap().to_owned()))
        .collect()
}

fn sbom(image: &Image) -> Value {
    image.json(&format!("{DOCUMENTS}/sbom.cdx.json"))
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
fn the_sbom_names_every_part_and_no_other_with_licence_and_hash() {
    for image in Image::all() {
        let sbom = sbom(image);
        let mut expected = linked("windows-storage-operator", image.target());
        expected.extend(linked("windows-storage-agent", "x86_64-pc-windows-gnu"));
        let named = components(&sbom, "cargo").into_iter();
        let named: BTreeSet<String> = named.map(|component| component.join(" ")).collect();
        assert_eq!(named, expected);

        let modules = components(&sbom, "golang");
        let payload = image.json("/payload/payload.json");
        let csi_proxy = payload["csiProxy"]["version"].as_str().unwrap();
        for (module, version) in [
            ("github.com/kubernetes-csi/csi-proxy", csi_proxy),
            ("github.com/Microsoft/go-winio", "v0.6.2"),
        ] {
            let module = [module, version].map(str::to_owned);
            assert!(modules.contains(&module), "{module:?}: {modules:?}");
        }
        assert!(modules.iter().any(|[name, _]| name == "std"), "{modules:?}");

        let packages = components(&sbom, "deb").into_iter();
        let packages: BTreeSet<String> = packages.map(|[name, _]| name).collect();
        let there = walk(&image.path("/var/lib/dpkg/status.d")).into_iter();
        let there: BTreeSet<_> = there
            .map(|(path, _)| path.to_str().unwrap().to_owned())
            .collect();
        assert_eq!(packages, there);
        assert!(packages.len() >= 5, "{packages:?}");

        for component in sbom["components"].as_array().unwrap() {
            let purl = component["purl"].as_str().unwrap();
            if purl.starts_with("pkg:deb/") {
                continue;
            }
            let licence = component["licenses"][0]["expression"].as_str();
            assert!(licence.is_some_and(|text| !text.is_empty()), "{component}");
            let name = component["name"].as_str().unwrap();
            // Crates of this workspace are not downloaded.
            let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("crates");
            if workspace.join(name).is_dir() {
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
                let lock = include_str!("../../Cargo.lock");
                assert!(lock.contains(hash.as_str().unwrap()), "{component}");
            } else if component["type"] == "library" && purl.starts_with("pkg:golang/github") {
                let sum = component["properties"][0]["value"].as_str().unwrap();
                let sums = include_str!("../../tools/csi-proxy-1.3.0/go.sum");
                assert!(sums.contains(sum), "{component}");
            }
        }
    }
}

#[test]
fn the_sbom_is_valid_by_the_schema_of_the_standard_and_holds_together() {
    for image in Image::all() {
        let part = |name| testbed::parts::part(name).unwrap();
        let path = image.path(&format!("{DOCUMENTS}/sbom.cdx.json"));
        let mut check = Command::new(part("sbom-check"));
        testbed::commands::printed(check.arg(part("cyclonedx-schemas")).arg(path)).unwrap();

        let sbom = sbom(image);
        let components = sbom["components"].as_array().unwrap();
        let known: BTreeSet<_> = components.iter().map(|it| it["bom-ref"].as_str()).collect();
        assert_eq!(known.len(), components.len(), "a component is twice");
        let root = sbom["metadata"]["component"]["bom-ref"].as_str();
        let mut reached = BTreeSet::new();
        for dependency in sbom["dependencies"].as_array().unwrap() {
            let from = dependency["ref"].as_str();
            assert!(from == root || known.contains(&from), "{from:?}");
            let on = dependency["dependsOn"].as_array().unwrap().iter();
            reached.extend(on.map(Value::as_str));
        }
        assert_eq!(reached, known, "each is a part of another, and known");
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
        for [name, version] in components(&sbom, "cargo") {
            let line = format!("  * {name} {version}");
            assert!(lines.contains(line.as_str()), "no licence of {name}");
        }
        // The C library that a crate bundles has its own licence.
        assert!(texts.contains("Sara Golemon"), "libssh2's is missing");

        let go = image.path(&format!("{DOCUMENTS}/licences/go"));
        let files: Vec<String> = walk(&go)
            .into_iter()
            .filter(|(_, metadata)| metadata.is_file())
            .map(|(path, _)| path.to_str().unwrap().to_owned())
            .collect();
        for [name, _] in components(&sbom, "golang") {
            let folder = if name == "std" {
                "standard-library/".to_owned()
            } else {
                name + "/"
            };
            let is_there = files.iter().any(|file| file.starts_with(&folder));
            assert!(is_there, "no licence of {folder}");
        }
        for [name, _] in components(&sbom, "deb") {
            let copyright = image.text(&format!("/usr/share/doc/{name}/copyright"));
            assert!(!copyright.is_empty(), "no licence of {name}");
        }
        for part in ["LICENSE", "rust/standard-library", "mingw-w64/copyright"] {
            let path = image.path(&format!("{DOCUMENTS}/licences/{part}"));
            assert!(path.exists(), "{part} is not among the licences");
        }
    }
}
