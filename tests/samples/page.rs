//! docs/samples.md: its lists are complete, and its commands are typed here.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use pulldown_cmark::{CodeBlockKind, Event, Parser, Tag, TagEnd};
use testbed::control_plane::ControlPlane;

use crate::catalogue::{DRIVERS, all, documents, kustomized, root};

fn page() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/samples.md");
    std::fs::read_to_string(path).unwrap()
}

/// The code blocks of that language.
fn blocks(language: &str) -> Vec<String> {
    let page = page();
    let mut blocks = Vec::new();
    let mut is_in = false;
    for event in Parser::new(&page) {
        match event {
            Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(info))) if &*info == language => {
                is_in = true;
                blocks.push(String::new());
            }
            Event::End(TagEnd::CodeBlock) => is_in = false,
            Event::Text(text) if is_in => blocks.last_mut().unwrap().push_str(&text),
            _ => {}
        }
    }
    assert!(!blocks.is_empty(), "no block of {language}");
    blocks
}

#[test]
fn the_page_lists_every_sample_with_its_version_and_its_pipes() {
    let page = page();
    for sample in all() {
        let folder = format!("{}/{}", sample.driver.folder, sample.form.folder);
        let mut rows = page
            .lines()
            .filter(|line| line.starts_with("| ") && line.contains(&format!("[`{folder}`]")));
        let row = rows
            .next()
            .unwrap_or_else(|| panic!("{folder} is not listed"));
        let set = sample.daemon_set();
        let images = set["spec"]["template"]["spec"]["containers"]
            .as_array()
            .unwrap()
            .iter();
        let version = images
            .map(|container| container["image"].as_str().unwrap())
            .find(|image| {
                !image.contains("/sig-storage/csi-node") && !image.contains("/livenessprobe")
            })
            .and_then(|image| image.rsplit_once(':'))
            .map(|(_, tag)| tag.trim_end_matches("-windows-hp").to_owned())
            .unwrap();
        for expected in [sample.driver.name, sample.driver.daemon_set.1, &version] {
            assert!(row.contains(&format!("`{expected}`")), "{expected}: {row}");
        }
        let pipes: Vec<&str> = row
            .split('`')
            .filter(|part| part.starts_with("csi-proxy-"))
            .collect();
        assert_eq!(pipes, sample.form.pipes, "{row}");
    }
}

#[test]
fn every_driver_says_what_has_to_be_there_already_and_how_old_volumes_map() {
    for driver in &DRIVERS {
        let text = std::fs::read_to_string(root().join(driver.folder).join("README.md")).unwrap();
        assert!(
            text.contains("## What has to be there"),
            "{}",
            driver.folder
        );
        assert!(
            text.contains(driver.name) && text.contains(&driver.key()),
            "{}",
            driver.folder
        );
        let has_host_process = driver.forms.len() == 2;
        assert_eq!(
            text.contains("There is no HostProcess sample"),
            !has_host_process
        );
    }
    let readme = std::fs::read_to_string(root().join("README.md")).unwrap();
    for driver in DRIVERS.iter().filter(|driver| driver.is_migrated_to) {
        let volume = &kustomized(&driver.in_tree())[0];
        assert_eq!(volume["kind"], "PersistentVolume");
        let mut fields = volume["spec"].as_object().unwrap().keys();
        let source = fields.find(|field| {
            [
                "azureDisk",
                "azureFile",
                "awsElasticBlockStore",
                "gcePersistentDisk",
                "vsphereVolume",
            ]
            .contains(&field.as_str())
        });
        let row = readme
            .lines()
            .find(|line| line.starts_with("| ") && line.contains(&format!("`{}`", source.unwrap())))
            .unwrap();
        assert!(row.contains(&format!("`{}`", driver.name)), "{row}");
    }
}

#[test]
fn the_commands_of_the_page_work() {
    let control_plane = ControlPlane::start().unwrap();
    // They end what `kubectl delete` waits for.
    control_plane
        .start_controller_manager(
            "namespace-controller,persistentvolumeclaim-protection-controller",
        )
        .unwrap();
    // What the page takes for granted: the namespaces of the drivers' Linux sides.
    for namespace in ["vmware-system-csi", "openshift-cluster-csi-drivers"] {
        control_plane
            .kubectl(&["create", "namespace", namespace])
            .unwrap();
    }
    let folder = tempfile::tempdir().unwrap();
    let samples = folder.path().join("manifests/samples");
    copy(&root(), &samples);
    for block in blocks("yaml") {
        let (path, _) = block
            .strip_prefix("# ")
            .and_then(|rest| rest.split_once('\n'))
            .unwrap();
        let path = folder.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, &block).unwrap();
    }
    let kubectl = testbed::parts::part("kubectl").unwrap();
    let operator = Path::new(env!("CARGO_BIN_EXE_windows-storage-operator"));
    let programs =
        [kubectl.as_path(), operator].map(|program| program.parent().unwrap().to_owned());
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path =
        std::env::join_paths(programs.into_iter().chain(std::env::split_paths(&path))).unwrap();
    for block in blocks("sh") {
        let output = Command::new("bash")
            .args(["-euo", "pipefail", "-c", &block])
            .env("PATH", &path)
            .env("KUBECONFIG", control_plane.kubeconfig())
            .current_dir(folder.path())
            .output()
            .unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{block}\n{errors}");
    }
    let left = control_plane
        .kubectl(&["get", "daemonsets", "--all-namespaces", "-o", "yaml"])
        .unwrap();
    let left = documents(&left).remove(0);
    let mut images = BTreeMap::new();
    for set in left["items"].as_array().unwrap() {
        let namespace = set["metadata"]["namespace"].as_str().unwrap().to_owned();
        images.insert(namespace, set["metadata"]["name"].clone());
    }
    // The overlay for OpenShift is there, and what was deleted is gone.
    assert_eq!(images.len(), 1, "{images:?}");
    assert_eq!(
        images["openshift-cluster-csi-drivers"],
        "vsphere-csi-node-windows"
    );
}

fn copy(from: &Path, to: &Path) {
    for entry in walkdir::WalkDir::new(from) {
        let entry = entry.unwrap();
        let target = to.join(entry.path().strip_prefix(from).unwrap());
        if entry.file_type().is_dir() {
            std::fs::create_dir_all(target).unwrap();
        } else {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}
