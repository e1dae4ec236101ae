//! The image's configuration and files, with their checksums and modes.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::json;

use crate::archive::{Image, sha256, walk};

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
        for absent in ["Cmd", "Volumes", "Shell"] {
            assert!(
                config[absent].is_null(),
                "{absent} is {}: the manifest says what is run and mounted",
                config[absent]
            );
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
        let check = Command::new("sha256sum")
            .args(["--check", "--strict", "--quiet", "SHA256SUMS"])
            .current_dir(&image.root)
            .output()
            .unwrap();
        assert!(
            check.status.success(),
            "{}",
            String::from_utf8_lossy(&check.stdout)
        );
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
        for program in [packed, &programs["agent"]] {
            let file = image.path(&format!("/payload/{}", program["file"].as_str().unwrap()));
            assert_eq!(program["sha256"], sha256(&file), "{}", file.display());
        }
        let packed = image.path(&format!("/payload/{}", packed["file"].as_str().unwrap()));
        let agent = image.path(&format!(
            "/payload/{}",
            programs["agent"]["file"].as_str().unwrap()
        ));
        let unpacked = tempfile::tempdir().unwrap();
        let csi_proxy = unpacked.path().join("csi-proxy.exe");
        let status = Command::new("zstd")
            .args(["-d", "--quiet", "-o"])
            .args([&csi_proxy, &packed])
            .status();
        assert!(status.unwrap().success());
        assert_eq!(programs["csiProxy"]["sha256"], sha256(&csi_proxy));
        let size = std::fs::metadata(&csi_proxy).unwrap().len();
        assert_eq!(programs["csiProxy"]["packed"]["unpackedSize"], size);
        for file in [agent, csi_proxy] {
            let start = &std::fs::read(&file).unwrap()[..2];
            assert_eq!(start, b"MZ", "{} is for Windows", file.display());
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
        let home = std::env::var_os("HOME").unwrap();
        let cargo = std::env::var_os("CARGO_HOME").unwrap_or_else(|| join(&home, ".cargo"));
        let rust = std::env::var_os("RUSTUP_HOME").unwrap_or_else(|| join(&home, ".rustup"));
        let mut grep = Command::new("grep");
        grep.args(["--recursive", "--files-with-matches", "--fixed-strings"]);
        for place in [
            env!("CARGO_MANIFEST_DIR").into(),
            cargo,
            rust,
            join(&home, "go/pkg"),
            join(&home, ".cache"),
        ] {
            grep.arg("-e").arg(place);
        }
        let found = grep
            .arg(".")
            .current_dir(&image.root)
            .output()
            .unwrap()
            .stdout;
        let found = String::from_utf8(found).unwrap();
        let mut found: Vec<&str> = found.lines().collect();
        if !image.is_release() {
            // A test build contains them. Finding them there shows that the search works.
            assert!(found.contains(&"./usr/bin/windows-storage-operator"));
            found.retain(|path| *path != "./usr/bin/windows-storage-operator");
        }
        assert!(found.is_empty(), "{found:?}");
        for file in [
            "etc/hostname",
            "etc/hosts",
            "etc/resolv.conf",
            "etc/apt",
            "etc/machine-id",
        ] {
            assert!(!image.root.join(file).exists(), "{file} is in the image");
        }
    }
}

/// Runs each program with the libraries of its own image. Only qemu, for the processor, is from this machine.
#[test]
fn its_program_starts_with_its_libraries() {
    for image in Image::all() {
        let (processor, _) = image.target().split_once('-').unwrap();
        for image in [image, must_gather_for(image)] {
            let output = Command::new(format!("qemu-{processor}"))
                .arg("-L")
                .arg(&image.root)
                .arg(image.path("/usr/bin/windows-storage-operator"))
                .arg("--version")
                .output()
                .unwrap();
            let said = String::from_utf8_lossy(&output.stdout);
            assert!(output.status.success(), "{output:?}");
            let version = env!("CARGO_PKG_VERSION");
            assert_eq!(said.trim(), format!("windows-storage-operator {version}"));
        }
    }
}

/// Returns the image for `oc adm must-gather` of the same architecture.
fn must_gather_for(image: &Image) -> &'static Image {
    let all = Image::all_must_gather();
    let found = all
        .iter()
        .find(|other| other.architecture == image.architecture);
    found.unwrap_or_else(|| panic!("no image for must-gather on {}", image.architecture))
}

fn join(home: &OsString, name: &str) -> OsString {
    Path::new(home).join(name).into_os_string()
}
