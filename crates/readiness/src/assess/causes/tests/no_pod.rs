use super::*;
use crate::assess::codes;

const SET: &str = "DaemonSet/kube-system/azuredisk-win";

#[test]
fn a_driver_without_a_daemon_set_for_windows_says_where_to_get_it() {
    let linux_set = linux(daemon_set("kube-system", "azuredisk-node", IMAGE));
    let not_in = change(
        change(driver_set(), "nodeSelector", json!(null)),
        "affinity",
        json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
            {"matchExpressions": [{"key": "kubernetes.io/os", "operator": "NotIn", "values": ["windows"]}]}
        ]}}}),
    );
    let anywhere = change(driver_set(), "nodeSelector", json!(null));
    for set in [linux_set, not_in, anywhere] {
        let name = set["metadata"]["name"].as_str().unwrap().to_owned();
        let report = report_with(&[set]);
        let words = [
            "csi-azuredisk-node-win",
            "https://github.com/kubernetes-sigs/azuredisk-csi-driver",
            &format!("(kube-system/{name} is not for Windows)"),
        ];
        let object = format!("CSIDriver/{AZURE_DISK}");
        says(on_node(&report), codes::DAEMON_SET_MISSING, &object, &words);
        let of_all = of_driver(&report, AZURE_DISK);
        says(of_all, codes::DAEMON_SET_MISSING, &object, &["(on win-1)"]);
    }
    silent!(on_node(&report_with(&[driver_set()])) => DAEMON_SET_MISSING);
}

#[test]
fn a_controller_is_no_node_side_and_a_driver_nobody_knows_is_its_vendors() {
    let mut deployment = driver_set();
    deployment["kind"] = json!("Deployment");
    let found = live_report_with(&[deployment]);
    says!(on_node(&found) => DAEMON_SET_MISSING, &format!("CSIDriver/{AZURE_DISK}"), "no DaemonSet");

    let vendors = user("csi", json!({"driver": "csi.vendor.example"}));
    let objects = [node("v1.30.4", &[]), csi_node(&[]), vendors];
    let found = live_report(&objects);
    says!(on_node(&found) => DAEMON_SET_MISSING, "CSIDriver/csi.vendor.example", "ask its vendor");
}

#[test]
fn files_without_daemon_sets_prove_nothing() {
    let found = report(&start());
    says!(on_node(&found) => DAEMON_SET_MISSING, &format!("CSIDriver/{AZURE_DISK}"), "cannot be seen",
        "kubectl get daemonsets -A -o yaml");
    let found = report_with(&[driver_set()]);
    says!(on_node(&found) => DRIVER_POD_MISSING, SET, "kubectl get pods -n kube-system -o yaml");
}

#[test]
fn a_daemon_set_that_names_its_driver_only_by_a_path_is_seen() {
    let digest = "quay.io/openshift-release-dev/ocp-v4.0-art-dev@sha256:0011";
    let registrar = json!([
        {"name": "driver", "image": digest},
        {"name": "registrar", "image": digest,
         "args": ["--kubelet-registration-path=$(SOCKET)"],
         "env": [{"name": "FOLDER", "value": r"C:\var\lib\kubelet\plugins\disk.csi.azure.com"},
                 {"name": "SOCKET", "value": r"$(FOLDER)\csi.sock"}]},
    ]);
    let folder = json!([{"name": "p", "hostPath": {"path": r"C:\var\lib\kubelet\Plugins\disk.csi.azure.com\"}}]);
    let plain = daemon_set("kube-system", "azuredisk-win", digest);
    for set in [
        change(plain.clone(), "containers", registrar),
        change(plain.clone(), "volumes", folder),
        daemon_set(
            "kube-system",
            "azuredisk-win",
            "x/ose-azure-disk-csi-driver-rhel9@sha256:00",
        ),
    ] {
        let found = live_report_with(&[set]);
        says(on_node(&found), codes::DRIVER_POD_MISSING, SET, &[]);
    }
    let found = live_report_with(&[plain]);
    silent(on_node(&found), codes::DRIVER_POD_MISSING);
}

#[test]
fn a_taint_that_is_not_tolerated_comes_with_the_toleration_to_add() {
    let objects = |taints: &[(&str, &str, &str)], tolerations: Value| {
        let set = change(driver_set(), "tolerations", tolerations);
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "kube-system", "name": "dns",
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "dns", "uid": "u", "controller": true}]},
            "spec": {"nodeName": "linux-1"}});
        let mut objects = with(start(), &[set, pod]);
        objects[0] = node("v1.30.4", taints);
        objects
    };
    let os = [("os", "Windows", "NoSchedule")];
    let wrong = json!([{"key": "node.kubernetes.io/os", "operator": "Exists"}]);
    let words = [
        "the taint os=Windows:NoSchedule;",
        "spec.template.spec.tolerations: {key: os, operator: Exists, effect: NoSchedule}",
    ];
    for tolerations in [
        json!(null),
        json!([]),
        wrong,
        json!([{"key": "os", "value": "windows"}]),
    ] {
        let found = report(&objects(&os, tolerations));
        says(on_node(&found), codes::TAINT_NOT_TOLERATED, SET, &words);
        silent(on_node(&found), codes::DRIVER_POD_MISSING);
    }
    for tolerations in [
        json!([{"key": "os", "value": "Windows", "effect": ""}]),
        json!([{"key": "os", "operator": "Exists", "effect": "NoSchedule"}]),
    ] {
        let found = report(&objects(&os, tolerations));
        silent(on_node(&found), codes::TAINT_NOT_TOLERATED);
        says!(on_node(&found) => DRIVER_POD_MISSING, SET,
            "kubectl describe daemonset -n kube-system azuredisk-win");
    }
    let two = [
        ("a", "", "NoExecute"),
        ("b", "1", "NoSchedule"),
        ("c", "", "PreferNoSchedule"),
    ];
    let found = report(&objects(&two, json!([])));
    says!(on_node(&found) => TAINT_NOT_TOLERATED, SET, "a:NoExecute, b=1:NoSchedule;", "{key: a,",
        ", {key: b,");
    let pressed = [
        ("node.kubernetes.io/disk-pressure", "", "NoSchedule"),
        ("node.kubernetes.io/unschedulable", "", "NoSchedule"),
    ];
    silent!(on_node(&report(&objects(&pressed, json!([])))) => TAINT_NOT_TOLERATED);
}

#[test]
fn a_node_in_trouble_is_mended_not_tolerated() {
    let set = change(driver_set(), "tolerations", json!([]));
    let mut objects = with(start(), &[set]);
    for effect in ["NoSchedule", "NoExecute"] {
        let key = "node.kubernetes.io/not-ready";
        objects[0] = node("v1.30.4", &[(key, "", effect)]);
        let found = live_report(&objects);
        silent(on_node(&found), codes::TAINT_NOT_TOLERATED);
        if effect == "NoSchedule" {
            says!(on_node(&found) => NODE_NOT_READY, "Node/win-1", key, "kubectl describe node win-1");
        } else {
            silent(on_node(&found), codes::NODE_NOT_READY);
        }
    }
}

#[test]
fn of_two_daemon_sets_the_one_that_tolerates_is_the_one_that_should_be_there() {
    let first = change(
        daemon_set("kube-system", "a-win", IMAGE),
        "tolerations",
        json!([]),
    );
    let second = daemon_set("kube-system", "b-win", IMAGE);
    let mut objects = with(start(), &[first, second]);
    objects[0] = node("v1.30.4", &[("os", "Windows", "NoSchedule")]);
    let found = live_report(&objects);
    silent(on_node(&found), codes::TAINT_NOT_TOLERATED);
    says!(on_node(&found) => DRIVER_POD_MISSING, "DaemonSet/kube-system/b-win", "b-win");
}
