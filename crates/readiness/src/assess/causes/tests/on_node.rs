use super::*;
use crate::assess::codes;

const SET: &str = "DaemonSet/kube-system/azuredisk-win";
const POD: &str = "Pod/kube-system/azuredisk-win-x7k2p";

/// In each line the DaemonSet, why a container of its pod waits, what the message says, and what it does not say.
const NOT_READY: &str = r#"
plain |                      | kubectl logs -n kube-system azuredisk-win-x7k2p --all-containers | (CrashLoop
plain | CrashLoopBackOff     | (CrashLoopBackOff); see kubectl logs                             | cannot find the file
piped | CrashLoopBackOff     | cannot find the file specified" there means a pipe               | describe
piped | ImagePullBackOff     | pull secret                                                      | kubectl logs
plain | CreateContainerError | kubectl describe pod -n kube-system azuredisk-win-x7k2p          | kubectl logs
"#;

#[test]
fn a_pod_that_is_not_ready_says_where_to_look() {
    let plain = driver_set();
    let piped = change(driver_set(), "volumes", pipes(&["csi-proxy-disk-v1"]));
    for line in NOT_READY.trim().lines() {
        let columns: Vec<&str> = line.split('|').map(str::trim).collect();
        let [set, reason, has, has_not] = columns[..] else {
            panic!("{line}");
        };
        let set = if set == "piped" { &piped } else { &plain };
        let reason = (!reason.is_empty()).then_some(reason);
        let found = report_with(&[set.clone(), driver_pod(set, false, reason)]);
        says(on_node(&found), codes::DRIVER_POD_NOT_READY, POD, &[has]);
        let mut findings = on_node(&found).iter();
        let finding = findings.find(|finding| finding.code == codes::DRIVER_POD_NOT_READY);
        assert!(!finding.unwrap().message.contains(has_not), "{line}");
    }
    let found = report_with(&[plain.clone(), driver_pod(&plain, true, None)]);
    silent(on_node(&found), codes::DRIVER_POD_NOT_READY);
}

#[test]
fn a_linux_daemon_sets_pod_on_windows_is_not_taken_for_the_driver() {
    let anywhere = change(driver_set(), "nodeSelector", json!(null));
    let found = report_with(&[
        anywhere.clone(),
        driver_pod(&anywhere, false, Some("ErrImagePull")),
    ]);
    says!(on_node(&found) => DAEMON_SET_NOT_FOR_WINDOWS, SET, "kubernetes.io/os: linux");
    says!(on_node(&found) => DAEMON_SET_MISSING, &format!("CSIDriver/{AZURE_DISK}"));
    silent(on_node(&found), codes::DRIVER_POD_NOT_READY);
    // One with images for both is the driver all the same.
    let found = report_with(&[anywhere.clone(), driver_pod(&anywhere, true, None)]);
    silent(on_node(&found), codes::DAEMON_SET_NOT_FOR_WINDOWS);
    says(on_node(&found), codes::DRIVER_NOT_REGISTERED, POD, &[]);
}

#[test]
fn a_ready_pod_without_an_entry_is_started_again_unless_the_kubelet_is_too_old() {
    let objects = |kubelet: &str| {
        let mut objects = with(
            start(),
            &[driver_set(), driver_pod(&driver_set(), true, None)],
        );
        objects[0] = node(kubelet, &[]);
        objects
    };
    for kubelet in ["v1.23.10", "v1.24.4+k3s1", "v1.25.0", "v1.34.0"] {
        let found = report(&objects(kubelet));
        says!(on_node(&found) => DRIVER_NOT_REGISTERED, POD,
            "kubectl delete pod -n kube-system azuredisk-win-x7k2p", "--root-dir");
        silent(on_node(&found), codes::KUBELET_TOO_OLD);
    }
    for kubelet in ["v1.22.17", "v1.23.9", "v1.24.3"] {
        let found = report(&objects(kubelet));
        says!(on_node(&found) => KUBELET_TOO_OLD, "Node/win-1", kubelet, "1.24.4");
        silent(on_node(&found), codes::DRIVER_NOT_REGISTERED);
    }
    let mut alone = objects("v1.30.4");
    alone[4]["metadata"]["ownerReferences"] = json!(null);
    says!(on_node(&report(&alone)) => DRIVER_NOT_REGISTERED, POD, "nothing recreates it");
    let mut without = objects("v1.30.4");
    without.remove(1);
    let found = report(&without);
    says!(on_node(&found) => CSI_NODE_MISSING, "CSINode/win-1", "kubelet");
    silent(on_node(&found), codes::DRIVER_NOT_REGISTERED);
}

#[test]
fn pipes_that_csi_proxy_does_not_offer_are_named() {
    let status = |missing: &[&str]| {
        json!({
            "apiVersion": "windowsstorage.dev/v1alpha1", "kind": "WindowsNodeStorage", "metadata": {"name": "win-1"},
            "spec": {}, "status": {"csiProxy": {"serviceState": "Running", "openPipes": 20, "missingPipes": missing}},
        })
    };
    let mounting = |names: &[&str]| {
        let mut objects = with(start(), &[change(driver_set(), "volumes", pipes(names))]);
        objects.push(status(&["csi-proxy-disk-v1", "csi-proxy-smb-v1"]));
        objects
    };
    let known = [
        "csi-proxy-filesystem-v1",
        "csi-proxy-volume-v1beta2",
        "csi-proxy-disk-v1beta2",
        "csi-proxy-system-v1alpha1",
    ];
    silent!(on_node(&live_report(&mounting(&known))) => PIPE_NOT_OFFERED);
    let found = live_report(&mounting(&["csi-proxy-disk-v1", "csi-proxy-filesystem-v1"]));
    says!(on_node(&found) => PIPE_NOT_OFFERED, SET,
        r"mounts \\.\pipe\csi-proxy-disk-v1, which csi-proxy here");
    // Files say nothing of what runs at present.
    silent!(on_node(&report(&mounting(&["csi-proxy-disk-v1"]))) => PIPE_NOT_OFFERED);
    let found = report(&mounting(&[
        "csi-proxy-disk-v2",
        "csi-proxy-disk-v3",
        "csi-proxy-disk-v1",
    ]));
    says!(on_node(&found) => PIPE_NOT_OFFERED, SET,
        r"\\.\pipe\csi-proxy-disk-v2, \\.\pipe\csi-proxy-disk-v3, which no csi-proxy");
}

#[test]
fn a_host_process_driver_without_pipes_needs_no_csi_proxy() {
    let set = driver_set();
    let found = report_with(&[set.clone(), driver_pod(&set, true, None)]);
    for code in [
        codes::PIPE_NOT_OFFERED,
        codes::CSI_PROXY_UNKNOWN,
        codes::CSI_PROXY_NOT_READY,
    ] {
        silent(on_node(&found), code);
    }
    let piped = change(set, "volumes", pipes(&["csi-proxy-disk-v1"]));
    let objects = with(start(), &[piped.clone(), driver_pod(&piped, true, None)]);
    says!(on_node(&report(&objects)) => CSI_PROXY_UNKNOWN, "Node/win-1", "kubectl get windowsnodestorages");
    let stopped = json!({
        "apiVersion": "windowsstorage.dev/v1alpha1", "kind": "WindowsNodeStorage", "metadata": {"name": "win-1"},
        "spec": {}, "status": {"csiProxy": {"serviceState": "Stopped", "openPipes": 20}},
    });
    let found = live_report(&with(objects, &[stopped]));
    says!(on_node(&found) => CSI_PROXY_NOT_READY, "Node/win-1", "Stopped");
}

#[test]
fn an_entry_that_no_ready_pod_stands_behind_is_stale() {
    let registered = |more: &[Value]| {
        let mut objects = with(start(), more);
        objects[1] = csi_node(&[AZURE_DISK]);
        objects
    };
    let set = driver_set();
    let pod = |ready| driver_pod(&set, ready, Some("CrashLoopBackOff"));
    let object = "CSINode/win-1";
    let found = report(&registered(&[set.clone(), pod(false)]));
    says!(on_node(&found) => STALE_ENTRY, object, "azuredisk-win-x7k2p is not ready (CrashLoopBackOff)");
    let found = live_report(&registered(std::slice::from_ref(&set)));
    says!(on_node(&found) => STALE_ENTRY, object, "kubectl describe daemonset -n kube-system azuredisk-win");
    let found = live_report(&registered(&[]));
    says!(on_node(&found) => STALE_ENTRY, object, "no DaemonSet", "deploy it");
    silent!(on_node(&report(&registered(&[set.clone(), pod(true)]))) => STALE_ENTRY);
    // What was not given cannot be missed.
    silent(on_node(&report(&registered(&[]))), codes::STALE_ENTRY);
    silent(on_node(&report(&registered(&[set]))), codes::STALE_ENTRY);
    // A driver that only CSI volumes need is not missed where none of them is used.
    let mut unbound = user("csi", json!({"driver": AZURE_DISK}));
    unbound["spec"]["nodeName"] = json!(null);
    unbound["spec"]["os"] = json!({"name": "windows"});
    let found = live_report(&[node("v1.30.4", &[]), csi_node(&[]), unbound]);
    assert_eq!(found.drivers[0].name, AZURE_DISK);
    silent(on_node(&found), codes::STALE_ENTRY);
    // Nobody needs that one.
    let mut objects = start();
    objects[1] = csi_node(&["other.csi.example"]);
    silent(on_node(&live_report(&objects)), codes::STALE_ENTRY);
}

#[test]
fn the_pod_of_another_driver_tells_nothing_of_this_one() {
    let other = daemon_set(
        "kube-system",
        "csi-smb-node-win",
        "registry.k8s.io/sig-storage/smbplugin:v1.17.0",
    );
    let without = live_report_with(&[driver_set(), other.clone()]);
    let pod = driver_pod(&other, false, Some("CrashLoopBackOff"));
    let along = live_report_with(&[driver_set(), other, pod]);
    assert_eq!(on_node(&along), on_node(&without));
}
