//! `nodes` and `why` on files: what they print and what they end with.

use std::path::Path;

use insta::assert_snapshot;
use serde_json::Value;

use crate::run::{BLOCKING_POD, Ended, FOLDERS, WINDOWS_NODE, end, folder, input, program};

fn ask(folder: &Path, arguments: &[&str]) -> Ended {
    end(program(folder).args(arguments))
}

/// A question about one of the clusters that have goldens.
fn ask_about(cluster: &str, arguments: &[&str]) -> Ended {
    let (command, rest) = arguments.split_first().unwrap();
    let mut all = vec![*command, "-f", cluster];
    all.extend(rest);
    ask(&input(), &all)
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
    let named = ask_about("vsphere-1.26", &["nodes", "-o", "name"]);
    assert_eq!(named.stdout, "node/win-a\nnode/win-b\nnode/win-c\n");
    let ready = ask_about("vsphere-1.26", &["nodes", "win-a"]);
    ready.assert_status(0);
    assert_eq!(ready.stdout.lines().count(), 2, "{}", ready.stdout);
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
    let nodes = report["nodes"].as_array().unwrap();
    let items = list["items"].as_array().unwrap();
    assert_eq!(nodes.len(), items.len());
    for (node, item) in nodes.iter().zip(items) {
        for (field, value) in node.as_object().unwrap() {
            assert_eq!(&item[field], value, "{field}");
        }
    }
}

#[test]
fn a_node_that_is_not_there_is_1_and_no_node_at_all_is_0() {
    let lost = ask_about("azure-1.27", &["nodes", "win-1", "win-9"]);
    lost.assert_status(1);
    lost.assert_says("no Windows node win-9");
    lost.assert_shows("win-1");

    let linux = folder(&[(
        "all.yaml",
        "apiVersion: v1\nkind: Node\nmetadata: {name: linux, labels: {kubernetes.io/os: linux}}\n",
    )]);
    let none = ask(linux.path(), &["nodes", "-f", "all.yaml"]);
    none.assert_status(0);
    none.assert_says("No Windows nodes found");
}

#[test]
fn csi_proxy_is_reported_where_the_operator_has_seen_it() {
    let status = |state: &str, reason: &str| {
        format!(
            "apiVersion: windowsstorage.dev/v1alpha1\nkind: WindowsNodeStorage\nmetadata: {{name: win-1}}\nspec: {{}}\nstatus:\n  \
             management: Managed\n  csiProxy: {{version: v1.3.0, serviceState: {state}, openPipes: 2, missingPipes: []}}\n  \
             conditions: [{{type: CSIProxyReady, status: Unknown, reason: {reason}, message: 'the SSH host key is another', \
             lastTransitionTime: '2026-01-01T00:00:00Z'}}]\n"
        )
    };
    let running = folder(&[
        ("node.yaml", WINDOWS_NODE),
        ("status.yaml", &status("Running", "HostKeyChanged")),
    ]);
    let list = ask(running.path(), &["nodes", "-f", "."]);
    list.assert_shows("v1.3.0   ");
    let why = ask(running.path(), &["why", "win-1", "-f", "."]);
    why.assert_shows("of csi-proxy there (HostKeyChanged): The SSH host key is another.");
    let stopped = folder(&[
        ("node.yaml", WINDOWS_NODE),
        ("status.yaml", &status("Stopped", "CrashLoop")),
    ]);
    let list = ask(stopped.path(), &["nodes", "-f", "."]);
    list.assert_shows("v1.3.0, Stopped");
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

#[test]
fn a_pod_that_lacks_nothing_is_0() {
    let registered = WINDOWS_NODE.replace(
        "drivers: []",
        "drivers: [{name: disk.csi.azure.com, nodeID: n, topologyKeys: null}]",
    );
    let files = folder(&[
        ("nodes.yaml", &registered),
        ("pod.yaml", BLOCKING_POD),
        (
            "plain.yaml",
            "apiVersion: v1\nkind: Pod\nmetadata: {name: plain, namespace: shop, ownerReferences: [{apiVersion: apps/v1, \
             kind: ReplicaSet, name: r, uid: u, controller: true}]}\nspec: {nodeName: win-1}\n",
        ),
    ]);
    for pod in ["web", "pod/web", "plain"] {
        let ended = ask(files.path(), &["why", pod, "-n", "shop", "-f", "."]);
        ended.assert_status(0);
        assert!(
            ended.stdout.contains("NOTHING IS MISSING") && ended.stdout.contains("win-1"),
            "{}",
            ended.stdout
        );
    }
}

#[test]
fn a_name_alone_is_a_node_before_it_is_a_pod() {
    let pod = BLOCKING_POD.replace("name: web,", "name: win-1,");
    let files = folder(&[("all.yaml", &format!("{WINDOWS_NODE}{pod}"))]);
    let first = |arguments: &[&str]| {
        let mut all = vec!["why", "-f", "all.yaml", "-n", "shop"];
        all.extend(arguments);
        let ended = ask(files.path(), &all);
        ended.stdout.lines().next().unwrap_or_default().to_owned()
    };
    assert_eq!(first(&["win-1"]), "node win-1: NOT READY");
    assert_eq!(first(&["pod", "win-1"]), "pod shop/win-1: HOLDS UPGRADES");
    // The one that was not asked for is named.
    let says = |arguments: &[&str]| ask(files.path(), &[&["why", "-f", "."], arguments].concat());
    let named = says(&["win-1", "-n", "shop"]).stdout;
    let line = "\nAlso there, with -n shop: pod/win-1.\n";
    assert!(named.contains(line), "{named}");
    for arguments in [&["node/win-1", "-n", "shop"][..], &["win-1", "-n", "bank"]] {
        let alone = says(arguments).stdout;
        assert!(!alone.contains("Also there"), "{alone}");
    }
}

#[test]
fn a_volume_is_explained_by_its_use() {
    let claimed = BLOCKING_POD.replace(
        "azureDisk: {diskName: d, diskURI: d}",
        "persistentVolumeClaim: {claimName: data}",
    );
    let objects = "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: data, namespace: shop}\nspec: {volumeName: \
                   pv-1}\n---\napiVersion: v1\nkind: PersistentVolume\nmetadata: {name: pv-1}\nspec:\n  azureDisk: {diskName: d, \
                   diskURI: d}\n  claimRef: {namespace: shop, name: data}\nstatus: {phase: Bound}\n---\napiVersion: v1\nkind: \
                   PersistentVolume\nmetadata: {name: pv-2}\nspec: {azureDisk: {diskName: e, diskURI: e}}\n";
    let files = folder(&[("all.yaml", &format!("{WINDOWS_NODE}{claimed}{objects}"))]);
    let held = ask(files.path(), &["why", "pv/pv-1", "-f", "."]);
    held.assert_status(3);
    for words in [
        "persistentvolume pv-1: HOLDS UPGRADES\n",
        "The claim shop/data is bound to it.\n",
        "it needs disk.csi.azure.com, missing on win-1.\n",
        "pod/web",
    ] {
        held.assert_shows(words);
    }
    let free = ask(files.path(), &["why", "pv-2", "-f", "."]);
    free.assert_status(0);
    assert!(
        free.stdout.contains("No claim is bound to it.") && !free.stdout.contains("web"),
        "{}",
        free.stdout
    );
}

/// Of our own and of the parser's.
#[test]
fn an_error_shows_the_usage_of_its_command() {
    for arguments in [
        &["why", "volume/x"][..],
        &["why", "pod/"],
        &["why", "--nonsense"],
    ] {
        let ended = ask(&input(), arguments);
        ended.assert_status(2);
        let usage = "Usage: windows-storage-operator why [OPTIONS] <NODE|POD|PVC>";
        assert!(
            ended.stderr.contains(usage) || arguments[1].starts_with('-'),
            "{arguments:?}: {}",
            ended.stderr
        );
    }
}

#[test]
fn what_is_not_there_is_1_and_nonsense_is_2() {
    for (status, arguments, says) in [
        (1, &["why", "node/win-9"][..], "no node win-9"),
        (1, &["why", "pv/nothing"], "no persistentvolume nothing"),
        (1, &["why", "pod/ledger-0"], "in namespace default"),
        (
            1,
            &["why", "nobody", "-n", "bank"],
            "of that name in namespace bank",
        ),
        (2, &["why", "volume/x"], "none of the kinds"),
        (2, &["why", "pod/"], "KIND/NAME"),
        (2, &["why"], "NODE|POD|PVC"),
        (2, &["nodes", "-o", "html"], "possible values"),
    ] {
        let ended = ask_about("azure-1.27", arguments);
        ended.assert_status(status);
        ended.assert_says(says);
        assert_eq!(ended.stdout, "", "{arguments:?}");
    }
}

#[test]
fn what_was_not_read_is_not_fine() {
    // Without the claim that an in-tree volume is bound to, who uses it may be missing.
    let volume = "apiVersion: v1\nkind: PersistentVolume\nmetadata: {name: pv}\nspec:\n  azureDisk: {diskName: d, diskURI: d}\n  \
                  claimRef: {namespace: elsewhere, name: data}\nstatus: {phase: Bound}\n";
    let registered = WINDOWS_NODE.replace(
        "drivers: []",
        "drivers: [{name: disk.csi.azure.com, nodeID: n, topologyKeys: null}]",
    );
    let files = folder(&[("nodes.yaml", &registered), ("volume.yaml", volume)]);
    for command in [&["nodes"][..], &["why", "win-1"]] {
        let mut all = command.to_vec();
        all.extend(["-f", "."]);
        let ended = ask(files.path(), &all);
        ended.assert_status(1);
        ended.assert_says("not everything could be read");
    }
    let held = folder(&[
        ("nodes.yaml", WINDOWS_NODE),
        ("volume.yaml", volume),
        ("pod.yaml", BLOCKING_POD),
    ]);
    let ended = ask(held.path(), &["why", "pod/web", "-n", "shop", "-f", "."]);
    ended.assert_status(3);
}

#[test]
fn names_that_would_move_the_terminal_are_written_out() {
    let name = "\"evil\\u001b[2J\\u202e\"";
    let node = WINDOWS_NODE.replace("win-1", name);
    let pod = BLOCKING_POD.replace("win-1", name);
    let files = folder(&[("all.yaml", &format!("{node}{pod}"))]);
    for command in [
        &["nodes"][..],
        &["nodes", "-o", "wide"],
        &["nodes", "-o", "name"],
        &["nodes", "-o", "json"],
        &["nodes", "-o", "yaml"],
        &["why", "evil\u{1b}[2J\u{202e}"],
        &["why", "pod/web", "-n", "shop"],
        &["why", "pod/\u{1b}[2J"],
    ] {
        let mut all = command.to_vec();
        all.extend(["-f", "all.yaml"]);
        let ended = ask(files.path(), &all);
        let raw = |char: char| char.is_control() && char != '\n' || char == '\u{202e}';
        assert!(
            !ended.stdout.contains(raw),
            "{command:?}: {:?}",
            ended.stdout
        );
        assert!(
            !ended.stderr.contains(raw),
            "{command:?}: {:?}",
            ended.stderr
        );
    }
}
