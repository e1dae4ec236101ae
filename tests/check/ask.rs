//! `nodes` and `why` on files: their output and exit status.

use insta::assert_snapshot;
use serde_json::Value;

use crate::run::{Ended, FOLDERS, end, input, program};

/// Runs a question about one of the clusters that have snapshots.
fn ask_about(cluster: &str, arguments: &[&str]) -> Ended {
    end(program(&input()).args(arguments).args(["-f", cluster]))
}

fn shown(ended: &Ended) -> String {
    let Ended { status, stdout, .. } = ended;
    format!("{stdout}--- exit status {status:?}\n")
}

#[test]
fn nodes_are_listed_as_kubectl_does() {
    for cluster in FOLDERS {
        let ended = ask_about(cluster, &["nodes"]);
        assert_snapshot!(format!("nodes_{cluster}"), shown(&ended));
    }
    let wide = ask_about("vsphere-1.26", &["nodes", "-o", "wide"]);
    assert_snapshot!("nodes_wide", shown(&wide));
}

#[test]
fn nodes_for_programs_are_those_of_the_report() {
    let list = ask_about("azure-1.27", &["nodes", "-o", "json"]);
    let yaml = ask_about("azure-1.27", &["nodes", "-o", "yaml"]);
    let value: Value = serde_yaml::from_str(&yaml.stdout).unwrap();
    let list = list.json();
    assert_eq!(value, list);
    assert_eq!(list["kind"], "NodeReadinessList");
    assert_eq!(list["items"][0]["kubeletVersion"], "v1.27.9");
    let report = ask_about("azure-1.27", &["check", "-o", "json"]).json();
    for (number, node) in report["nodes"].as_array().unwrap().iter().enumerate() {
        for (field, value) in node.as_object().unwrap() {
            assert_eq!(&list["items"][number][field], value, "{field}");
        }
    }
}

#[test]
fn each_kind_of_object_is_explained() {
    for (name, cluster, line) in [
        ("node_not_ready", "azure-1.27", "why node/win-1"),
        ("node_without_csi_node", "azure-1.27", "why win-3"),
        ("node_ready", "vsphere-1.26", "why win-a"),
        ("pod", "azure-1.27", "why pod/ledger-0 -n bank"),
        ("pod_lost", "azure-1.27", "why teller -n bank"),
        ("claim", "azure-1.27", "why pvc/ledger -n bank"),
        ("claim_not_there", "azure-1.27", "why pvc/nowhere -n bank"),
        ("claim_of_no_driver", "azure-1.27", "why pvc images -n bank"),
        ("template", "azure-1.27", "why deployment/portable -n bank"),
        ("stateful_set", "vsphere-1.26", "why sts/orders -n shop"),
    ] {
        let ended = ask_about(cluster, &line.split(' ').collect::<Vec<_>>());
        assert_snapshot!(format!("why_{name}"), shown(&ended));
    }
}
