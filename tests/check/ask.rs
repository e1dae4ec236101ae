//! `why` on files: their output and exit status.

use insta::assert_snapshot;

use crate::run::{end, input, program};

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
        let ended = end(program(&input())
            .args(line.split(' '))
            .args(["-f", cluster]));
        let shown = format!("{}--- exit status {:?}\n", ended.stdout, ended.status);
        assert_snapshot!(format!("why_{name}"), shown);
    }
}
