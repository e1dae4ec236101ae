//! kubectl finds the plugin by its name and passes it the arguments.

use std::process::Command;

use testbed::commands::with_path;
use testbed::control_plane::ControlPlane;
use testbed::objects;
use testbed::parts::part;
use testbed::sandbox::installed;

use crate::plugin::{PLUGIN, linked};

/// kubectl with the plugin on its PATH.
struct Kubectl {
    folder: tempfile::TempDir,
    control_plane: ControlPlane,
}

impl Kubectl {
    /// Runs a line after `kubectl`, which must end with this status and print these parts.
    #[track_caller]
    fn expect(&self, line: &str, status: i32, parts: &[&str]) -> String {
        let kubectl = Command::new(part("kubectl").unwrap());
        let mut kubectl = with_path(kubectl, &[self.folder.path()]).unwrap();
        kubectl
            .args(line.split(' '))
            .env("KUBECONFIG", self.control_plane.kubeconfig())
            .env("HOME", self.folder.path())
            .stdin(std::process::Stdio::null());
        let output = kubectl.output().unwrap();
        let streams = [&output.stdout, &output.stderr];
        let text = streams.map(|text| String::from_utf8_lossy(text)).concat();
        assert_eq!(output.status.code(), Some(status), "{line}: {text}");
        for part in parts {
            assert!(text.contains(part), "{line}: {part} is not in {text}");
        }
        text
    }
}

#[test]
fn kubectl_runs_the_plugin_on_a_real_cluster() {
    let kubectl = Kubectl {
        folder: linked(),
        control_plane: installed().unwrap(),
    };
    let plugins = kubectl.expect("plugin list", 0, &[PLUGIN]);
    assert!(!plugins.to_lowercase().contains("warning"), "{plugins}");
    kubectl.expect("windows-storage check", 0, &["NoWindowsNodes"]);
    let none = ["No Windows nodes found"];
    kubectl.expect("windows-storage check hosts", 0, &none);

    let cluster = [
        objects::windows_node("win-1"),
        objects::csi_node("win-1", &[]),
        objects::azure_disk_workload("win-1"),
        "apiVersion: v1\nkind: Pod\nmetadata: {name: plain, namespace: shop}\nspec: {nodeName: win-1, containers: [{name: c, \
         image: example.com/c:1}]}\n"
            .to_owned(),
    ];
    kubectl.control_plane.apply(&cluster.join("---\n")).unwrap();
    let missing = "disk.csi.azure.com";
    kubectl.expect("windows-storage check", 3, &["NOT UPGRADEABLE", missing]);
    let held = ["HOLDS UPGRADES", "is on the Windows node win-1", missing];
    kubectl.expect("windows-storage why pod/web-0 -n shop", 3, &held);
    // Without a namespace flag, the namespace of the context applies.
    kubectl.expect(
        "windows-storage why pod/web-0",
        1,
        &["no pod web-0 in namespace default"],
    );
    kubectl.expect("config set-context --current --namespace=shop", 0, &[]);
    kubectl.expect("windows-storage why pod/web-0", 3, &held);
    // A pod without volumes is not kept in the index.
    kubectl.expect("windows-storage why plain", 1, &["matters for storage"]);
    kubectl.expect("windows-storage why pod/nobody", 1, &["no pod nobody"]);
    kubectl.expect(
        "windows-storage why pod/web-0 --context nowhere",
        1,
        &["no context nowhere"],
    );
}
