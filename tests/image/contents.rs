//! The image's configuration and files, with their checksums and modes.

use std::collections::BTreeSet;
use std::env::consts::ARCH;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::json;
use testbed::cleanup::Guardian;
use testbed::commands::printed;

use crate::archive::{Image, sha256, walk};
use crate::must_gather::in_image;

#[test]
fn the_configuration_starts_the_operator_as_a_user_without_rights() {
    for image in Image::all() {
        let config = &image.config["config"];
        assert_eq!(config["User"], "65532:65532");
        assert_eq!(
            config["Entrypoint"],
            json!(["/usr/bin/windows-storage-operator"])
        );
        assert_eq!(
            config["ExposedPorts"],
            json!({"8081/tcp": {}, "8443/tcp": {}})
        );
        // The manifest says what is run and mounted.
        for absent in ["Cmd", "Volumes", "Shell"] {
            assert!(config[absent].is_null(), "{absent}");
        }
        for (label, expected) in [
            ("title", "windows-storage-operator"),
            ("version", env!("CARGO_PKG_VERSION")),
            ("licenses", "Apache-2.0"),
            ("description", env!("CARGO_PKG_DESCRIPTION")),
        ] {
            let label = format!("org.opencontainers.image.{label}");
            assert_eq!(config["Labels"][&label], expected, "{label}");
        }
    }
}

#[test]
fn every_file_on_top_of_the_packages_has_its_right_sum() {
    for image in Image::all() {
        let mut check = Command::new("sha256sum");
        check.args(["--check", "--strict", "--quiet", "SHA256SUMS"]);
        printed(check.current_dir(&image.root)).unwrap();
        let listed: BTreeSet<PathBuf> = image
            .text("/SHA256SUMS")
            .lines()
            .map(|line| PathBuf::from(&line[66..]))
            .collect();
        let there: BTreeSet<PathBuf> = walk(image.layers.last().unwrap())
            .into_iter()
            .filter(|(path, metadata)| !metadata.is_dir() && path != Path::new("SHA256SUMS"))
            .map(|(path, _)| path)
            .collect();
        assert_eq!(listed, there);
        for file in [
            "usr/bin/windows-storage-operator",
            "payload/csi-proxy.exe.zst",
            "payload/windows-storage-agent.exe",
            "payload/payload.json",
            "usr/share/doc/windows-storage-operator/sbom.cdx.json",
            "usr/share/doc/windows-storage-operator/licences/LICENSE",
        ] {
            assert!(listed.contains(Path::new(file)), "{file} is not listed");
        }
    }
}

#[test]
fn the_payload_is_what_its_manifest_says() {
    for image in Image::all() {
        let manifest = image.json("/payload/payload.json");
        let programs = manifest.as_object().unwrap();
        assert_eq!(programs.len(), 2, "{manifest}");
        let packed = &programs["csiProxy"]["packed"];
        let [csi_proxy, agent] = [packed, &programs["agent"]].map(|program| {
            let file = image.path(&format!("/payload/{}", program["file"].as_str().unwrap()));
            assert_eq!(program["sha256"], sha256(&file), "{}", file.display());
            file
        });
        let folder = tempfile::tempdir().unwrap();
        let unpacked = folder.path().join("csi-proxy.exe");
        let mut zstd = Command::new("zstd");
        zstd.args(["-d", "--quiet", "-o"])
            .args([&unpacked, &csi_proxy]);
        printed(&mut zstd).unwrap();
        assert_eq!(programs["csiProxy"]["sha256"], sha256(&unpacked));
        assert_eq!(packed["unpackedSize"], unpacked.metadata().unwrap().len());
        for file in [agent, unpacked] {
            let content = std::fs::read(&file).unwrap();
            assert!(
                content.starts_with(b"MZ"),
                "{} is for Windows",
                file.display()
            );
        }
    }
}

#[test]
fn nothing_in_it_gives_rights_away() {
    for image in Image::all() {
        let own = std::fs::metadata("/proc/self").unwrap().uid();
        for (path, metadata) in walk(&image.root) {
            let shown = path.display();
            let mode = metadata.permissions().mode();
            assert_eq!(mode & 0o6000, 0, "{shown} is setuid or setgid: {mode:o}");
            let kind = metadata.file_type();
            if !kind.is_symlink() && mode & 0o002 != 0 {
                assert_eq!(mode & 0o1777, 0o1777, "{shown} may be written: {mode:o}");
                assert_eq!(path, Path::new("tmp"), "it may be written by everybody");
            }
            assert!(
                kind.is_file() || kind.is_dir() || kind.is_symlink(),
                "{shown} is a device or the like"
            );
            // If unpacked without root, all files belong to the user.
            assert!(
                metadata.uid() == 0 || metadata.uid() == own,
                "{shown} belongs to {}",
                metadata.uid()
            );
            let name = path.file_name().unwrap().to_string_lossy();
            assert!(!name.starts_with(".wh."), "{shown} hides another file");
        }
    }
}

#[test]
fn there_is_no_shell_and_no_package_manager() {
    for image in Image::all() {
        let programs: Vec<PathBuf> = walk(&image.path("/usr/bin"))
            .into_iter()
            .chain(walk(&image.path("/usr/sbin")))
            .map(|(path, _)| path)
            .collect();
        assert_eq!(programs, [Path::new("windows-storage-operator")]);
    }
}

#[test]
fn nothing_in_it_tells_of_the_machine_that_built_it() {
    for image in Image::all() {
        let home = PathBuf::from(std::env::var_os("HOME").unwrap());
        let folder = |variable: &str, name: &str| {
            std::env::var_os(variable).map_or_else(|| home.join(name), PathBuf::from)
        };
        let mut grep = Command::new("grep");
        grep.args(["--recursive", "--files-with-matches", "--fixed-strings"]);
        for place in [
            env!("CARGO_MANIFEST_DIR").into(),
            folder("CARGO_HOME", ".cargo"),
            folder("RUSTUP_HOME", ".rustup"),
            home.join("go/pkg"),
            home.join(".cache"),
        ] {
            grep.arg("-e").arg(place);
        }
        let found = grep.arg(".").current_dir(&image.root).output().unwrap();
        let found = String::from_utf8(found.stdout).unwrap();
        let mut found: Vec<&str> = found.lines().collect();
        if !image.is_release() {
            // A test build contains them. Finding them there shows that the search works.
            assert!(found.contains(&"./usr/bin/windows-storage-operator"));
            found.retain(|path| *path != "./usr/bin/windows-storage-operator");
        }
        assert!(found.is_empty(), "{found:?}");
        for file in ["hostname", "hosts", "resolv.conf", "apt", "machine-id"] {
            assert!(!image.root.join("etc").join(file).exists(), "{file}");
        }
    }
}

/// Runs each program with the libraries of its own image; only qemu, for another processor, is from this machine.
#[test]
fn its_program_starts_with_its_libraries() {
    let guardian = Guardian::temp("contents").unwrap();
    for image in Image::all().iter().chain(Image::all_must_gather()) {
        let program = "/usr/bin/windows-storage-operator";
        let (processor, _) = image.target().split_once('-').unwrap();
        let mut program = if processor == ARCH {
            in_image(&guardian, &image.root, &[program])
        } else {
            let mut qemu = Command::new(format!("qemu-{processor}"));
            qemu.arg("-L").arg(&image.root).arg(image.path(program));
            qemu
        };
        let version = env!("CARGO_PKG_VERSION");
        let expected = format!("windows-storage-operator {version}\n");
        assert_eq!(printed(program.arg("--version")).unwrap(), expected);
    }
}
