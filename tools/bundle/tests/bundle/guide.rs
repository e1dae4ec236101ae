//! The commands of the pages on installing and uninstalling work on a real API server.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use bundler::Release;
use serde_yaml::Value;
use tempfile::TempDir;
use testbed::commands::printed;
use testbed::control_plane::ControlPlane;
use testbed::markdown::{self, Block};
use testbed::parts::part;

use crate::cluster::install_olm_crds;
use crate::project::{at, copy, newest, parse, root, text};

/// The image that the page on installing pushes.
const IMAGE: &str = "registry.example.com/windows-storage-operator:0.1.0";

fn blocks() -> Vec<Block> {
    let pages = ["docs/install.md", "docs/uninstall.md"].into_iter();
    let blocks = pages.flat_map(|page| {
        let text = fs::read_to_string(root().join(page)).unwrap();
        markdown::blocks(&text)
    });
    // Commands that need a running operator are run by another test.
    let is_left_out = |block: &Block| {
        let mut comments = block.comments.iter();
        let marks = ["<!-- run by:", "<!-- not run: waits for an operator"];
        comments.any(|comment| marks.iter().any(|mark| comment.starts_with(mark)))
    };
    blocks.filter(|block| !is_left_out(block)).collect()
}

/// The folders with the guide's files, in which its commands run.
struct Workplace {
    folder: TempDir,
    home: TempDir,
}

impl Workplace {
    fn new() -> Self {
        let workplace = Self {
            folder: copy(),
            home: tempfile::tempdir().unwrap(),
        };
        // The guide's overlay renames the image that a fresh clone contains.
        let release = Release {
            image: "localhost/windows-storage-operator:0.1.0".to_owned(),
            ..newest()
        };
        let mut files = bundler::render(workplace.folder.path(), &release).unwrap();
        files.retain(|path, _| path.starts_with("manifests"));
        bundler::write(workplace.folder.path(), &files).unwrap();

        let home = workplace.home.path();
        fs::create_dir_all(home.join(".ssh")).unwrap();
        fs::write(home.join(".ssh/windows_rsa"), "a key").unwrap();
        symlink(part("kubectl").unwrap(), home.join("kubectl")).unwrap();
        workplace
    }

    /// Writes a YAML block to the file that its first line names.
    fn write(&self, code: &str) -> PathBuf {
        let first = code.lines().next().unwrap();
        let name = first
            .strip_prefix("# ")
            .unwrap_or_else(|| panic!("a file without a name: {first}"));
        let file = self.folder.path().join(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, code).unwrap();
        file
    }

    /// Runs a shell block and returns its output.
    fn run(&self, code: &str, kubeconfig: &Path) -> String {
        let path = format!("{}:/usr/bin:/bin", self.home.path().display());
        let mut bash = Command::new("timeout");
        bash.args(["120", "bash", "-euo", "pipefail", "-c", code])
            .current_dir(self.folder.path())
            .env("PATH", path)
            .env("HOME", self.home.path())
            .env("KUBECONFIG", kubeconfig);
        printed(&mut bash).unwrap()
    }
}

#[test]
fn every_command_of_the_guide_works_that_is_not_called_untested() {
    let control_plane = ControlPlane::start().unwrap();
    // Namespaces are only finalized if their controller runs.
    control_plane
        .start_controller_manager("namespace-controller")
        .unwrap();
    install_olm_crds(&control_plane);
    let others = "openshift-windows-machine-config-operator";
    control_plane
        .kubectl(&["create", "namespace", others])
        .unwrap();
    let labels = || {
        let namespace = control_plane
            .read(&format!("/api/v1/namespaces/{others}"))
            .unwrap();
        namespace.unwrap()["metadata"]["labels"].clone()
    };
    let labels_before = labels();

    let workplace = Workplace::new();
    let mut printed = String::new();
    let mut tried = 0;
    for block in blocks() {
        let is_not_run = |comment: &String| comment.starts_with("<!-- not run:");
        if block.comments.iter().any(is_not_run) {
            assert!(
                block.introduction.to_lowercase().contains("not tested"),
                "neither tested nor called so: {}",
                block.code
            );
            continue;
        }
        match &*block.language {
            "yaml" => {
                workplace.write(&block.code);
            }
            "sh" => {
                if block.code.contains("kubectl wait") {
                    say_upgradeable(&control_plane);
                }
                printed += &workplace.run(&block.code, control_plane.kubeconfig());
                tried += 1;
                if block.code.contains("kubectl set image") {
                    assert_eq!(deployed_image(&control_plane), IMAGE);
                }
            }
            other => panic!("a block of {other}"),
        }
    }
    assert!(tried > 10, "{tried}");
    let granted = printed.lines().filter(|line| *line == "yes").count();
    assert_eq!(granted, 2, "{printed}");
    assert_eq!(labels(), labels_before);
    for made in [
        "deployment.apps/windows-storage-operator created",
        "subscription.operators.coreos.com/windows-storage-operator created",
        "secret/cloud-private-key created",
        "namespace \"windows-storage-operator\" deleted",
    ] {
        assert!(printed.contains(made), "{made} is not in\n{printed}");
    }
    for left in ["windowsstorages", "windowsnodestorages"] {
        let path = format!(
            "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{left}.windowsstorage.dev"
        );
        assert_eq!(control_plane.read(&path).unwrap(), None);
    }
}

/// Returns the image of the Deployment in the cluster.
fn deployed_image(control_plane: &ControlPlane) -> String {
    let path =
        "/apis/apps/v1/namespaces/windows-storage-operator/deployments/windows-storage-operator";
    let deployment = control_plane.read(path).unwrap().unwrap();
    let image = &deployment["spec"]["template"]["spec"]["containers"][0]["image"];
    image.as_str().unwrap().to_owned()
}

/// Sets the verdict to True in place of the operator, which does not run in this test.
fn say_upgradeable(control_plane: &ControlPlane) {
    control_plane
        .apply("apiVersion: windowsstorage.dev/v1alpha1\nkind: WindowsStorage\nmetadata: {name: cluster}\nspec: {}\n")
        .unwrap();
    let status = r#"{"status":{"conditions":[{"type":"Upgradeable","status":"True","reason":"NoWindowsNodes","message":"There are no Windows nodes.","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}"#;
    let patch = "patch windowsstorage cluster --subresource=status --type=merge -p";
    let patch: Vec<&str> = patch.split(' ').chain([status]).collect();
    control_plane.kubectl(&patch).unwrap();
}

/// Returns the objects that kustomize builds from the guide's overlay that contains `marker`.
fn overlay(marker: &str) -> Vec<Value> {
    let block = blocks()
        .into_iter()
        .find(|block| block.language == "yaml" && block.code.contains(marker))
        .unwrap();
    let workplace = Workplace::new();
    let file = workplace.write(&block.code);
    let mut kubectl = Command::new(part("kubectl").unwrap());
    parse(&printed(kubectl.arg("kustomize").arg(file.parent().unwrap())).unwrap())
}

/// Returns every namespace in the objects, at any depth.
fn namespaces(objects: &[Value]) -> Vec<String> {
    let mut namespaces = Vec::new();
    for object in objects {
        let kind = text(object, "kind");
        if kind == "CustomResourceDefinition" {
            continue;
        }
        if kind == "Namespace" {
            namespaces.push(text(object, "metadata/name").to_owned());
        }
        let subjects = object.get("subjects").and_then(Value::as_sequence);
        let has_one = !["Namespace", "ClusterRole", "ClusterRoleBinding"].contains(&kind);
        let own = has_one.then(|| at(object, "metadata/namespace"));
        for namespace in own.into_iter().chain(
            subjects
                .into_iter()
                .flatten()
                .map(|subject| &subject["namespace"]),
        ) {
            namespaces.push(namespace.as_str().unwrap_or(kind).to_owned());
        }
    }
    namespaces
}

#[test]
fn an_overlay_moves_everything_to_another_namespace_and_image() {
    let objects = overlay("namespace: storage");
    let namespaces = namespaces(&objects);
    // Namespace, ServiceAccount, Role, RoleBinding and its subject, the ClusterRoleBinding's subject, Deployment,
    // Service.
    assert_eq!(namespaces, ["storage"; 9]);
    let deployment = objects
        .iter()
        .find(|object| text(object, "kind") == "Deployment")
        .unwrap();
    assert_eq!(
        text(deployment, "spec/template/spec/containers/0/image"),
        IMAGE
    );
}

#[test]
fn an_overlay_leaves_the_namespace_of_another_owner_alone() {
    let objects = overlay("$patch: delete");
    assert_eq!(
        namespaces(&objects),
        ["openshift-windows-machine-config-operator"; 8]
    );
    assert!(
        objects
            .iter()
            .all(|object| text(object, "kind") != "Namespace")
    );
}
