//! The lists in docs/drivers.md are complete, and its commands work.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use testbed::commands::{printed, with_path};
use testbed::control_plane::ControlPlane;
use testbed::{markdown, objects};

use crate::samples::catalogue::{DRIVERS, all, kustomized, root};

fn page() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/drivers.md");
    std::fs::read_to_string(path).unwrap()
}

/// Returns the code blocks in this language.
fn blocks(language: &str) -> Vec<String> {
    let blocks = markdown::blocks(&page()).into_iter();
    let blocks = blocks.filter(|block| block.language == language);
    let blocks: Vec<String> = blocks.map(|block| block.code).collect();
    assert!(!blocks.is_empty(), "no block of {language}");
    blocks
}

/// Returns the only row of the page that starts with this text.
fn row<'a>(page: &'a str, beginning: &str) -> &'a str {
    let rows = page.lines().filter(|line| line.starts_with(beginning));
    let rows: Vec<&str> = rows.collect();
    assert_eq!(rows.len(), 1, "{beginning}: {rows:?}");
    rows[0]
}

#[test]
fn the_page_lists_every_sample_with_its_version() {
    let page = page();
    for sample in all() {
        let folder = format!("{}/{}", sample.driver.folder, sample.form.folder);
        let row = row(&page, &format!("| [`{folder}`]"));
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
        assert!(
            row.contains(&format!("| `{version}` |")),
            "{version}: {row}"
        );
    }
}

#[test]
fn the_page_lists_every_driver_with_its_daemon_set_and_its_pipes() {
    let page = page();
    for driver in DRIVERS.iter() {
        let key = driver.key();
        let row = row(&page, &format!("| `{}` | `{key}` |", driver.name));
        let pipes: Vec<&str> = row
            .split('`')
            .filter(|part| part.starts_with("csi-proxy-"))
            .collect();
        let mut forms = driver.forms.iter();
        let form = forms.find(|form| form.folder == "csi-proxy").unwrap();
        assert_eq!(pipes, form.pipes, "{row}");
        // According to the page, the other form needs no pipes.
        assert!(forms.all(|form| form.pipes.is_empty()), "{driver:?}");
    }
}

#[test]
fn every_driver_says_what_has_to_be_there_already_and_how_old_volumes_map() {
    for driver in DRIVERS.iter() {
        let text = std::fs::read_to_string(root().join(&driver.folder).join("README.md")).unwrap();
        assert!(text.contains("## Prerequisites"), "{}", driver.folder);
        assert!(
            text.contains(&driver.name) && text.contains(&driver.key()),
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
        let sources = "azureDisk azureFile awsElasticBlockStore gcePersistentDisk vsphereVolume";
        let source = fields.find(|field| sources.split(' ').any(|source| source == *field));
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
    control_plane.apply(&objects::linux_node()).unwrap();
    // `kubectl delete` waits for what these controllers finish.
    control_plane
        .start_controller_manager(
            "namespace-controller,persistentvolumeclaim-protection-controller",
        )
        .unwrap();
    // The page assumes these: the namespaces of the drivers' Linux parts.
    for namespace in ["vmware-system-csi", "openshift-cluster-csi-drivers"] {
        control_plane
            .kubectl(&["create", "namespace", namespace])
            .unwrap();
    }
    let folder = tempfile::tempdir().unwrap();
    let samples = folder.path().join("manifests/samples");
    std::fs::create_dir_all(samples.parent().unwrap()).unwrap();
    let copied = Command::new("cp")
        .arg("-r")
        .arg(root())
        .arg(&samples)
        .status();
    assert!(copied.unwrap().success());
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
    let programs = [kubectl.as_path(), operator].map(|program| program.parent().unwrap());
    for block in blocks("sh") {
        let mut bash = with_path(Command::new("bash"), &programs).unwrap();
        bash.args(["-euo", "pipefail", "-c", &block])
            .env("KUBECONFIG", control_plane.kubeconfig())
            .current_dir(folder.path());
        printed(&mut bash).unwrap();
    }
    let left = control_plane
        .read("/apis/apps/v1/daemonsets")
        .unwrap()
        .unwrap();
    let mut images = BTreeMap::new();
    for set in left["items"].as_array().unwrap() {
        let namespace = set["metadata"]["namespace"].as_str().unwrap().to_owned();
        images.insert(namespace, set["metadata"]["name"].clone());
    }
    // The overlay for OpenShift is applied, and what was deleted is gone.
    assert_eq!(images.len(), 1, "{images:?}");
    assert_eq!(
        images["openshift-cluster-csi-drivers"],
        "vsphere-csi-node-windows"
    );
}
