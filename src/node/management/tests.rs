use serde_json::{Value, json};

use super::*;
use crate::node::SSH_KEY_ACCEPTED;
use crate::objects::kind;

fn now() -> Timestamp {
    Timestamp::from_second(100_000).unwrap()
}

/// A Windows node that has been Ready for an hour.
fn node(name: &str, labels: &Value) -> Value {
    let mut all = json!({"kubernetes.io/os": "windows"});
    let all_labels = all.as_object_mut().unwrap();
    all_labels.extend(labels.as_object().unwrap().clone());
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "uid": name, "labels": all},
        "status": {"conditions": [
            {"type": "Ready", "status": "True", "lastTransitionTime": "1970-01-02T02:46:40Z"},
        ]},
    })
}

fn daemon_set(selector: &Value, tolerations: &Value) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "DaemonSet",
        "metadata": {"namespace": "kube-system", "name": "csi-proxy"},
        "spec": {"template": {"spec": {
            "nodeSelector": selector,
            "tolerations": tolerations,
            "containers": [{"name": "csi-proxy", "image": "ghcr.io/kubernetes-sigs/sig-windows/csi-proxy:v1.1.2"}],
        }}},
    })
}

fn cluster(objects: &[Value]) -> Cluster {
    let mut cluster = Cluster::default();
    for object in objects {
        let text = |field: &str| object[field].as_str().unwrap();
        let kind = kind(text("apiVersion"), text("kind")).unwrap();
        let object = serde_json::from_value(object.clone()).unwrap();
        kind.absorb(&mut cluster, &object);
    }
    cluster
}

fn status(management: &str, managed_by: &str) -> WindowsNodeStorageStatus {
    WindowsNodeStorageStatus {
        management: management.to_owned(),
        managed_by: managed_by.to_owned(),
        ..WindowsNodeStorageStatus::default()
    }
}

/// Returns who manages `win-1`: `ours`, `?`, the other owner, or what holds it.
fn of(cluster: &Cluster, management: Management) -> String {
    let node = cluster.nodes.get("win-1").unwrap();
    match Managers::new(cluster, now()).of("win-1", node, management) {
        ManagedBy::Operator => "ours".to_owned(),
        ManagedBy::External(who) => who,
        ManagedBy::Undecided(Awaited::Time(until)) => format!("? {}", until.is_some()),
        ManagedBy::Undecided(Awaited::DaemonSet(set)) => format!("held by {set}"),
    }
}

#[test]
fn the_first_rule_that_fits_decides() {
    use Management::{Auto, External, Managed};

    let openshift = json!({"node.openshift.io/os_id": "Windows"});
    let azure = json!({"kubernetes.azure.com/managedby": "aks"});
    let amazon = json!({"eks.amazonaws.com/nodegroup": "win"});
    let wmco_shown = "WMCO by label node.openshift.io/os_id";
    let aks_shown = "AKS by label kubernetes.azure.com/managedby";
    let eks_shown = "EKS by label eks.amazonaws.com/nodegroup";
    let plain = json!({});
    for (labels, management, expected) in [
        (&plain, Auto, "ours"),
        (&plain, Managed, "ours"),
        (&plain, External, BY_SETTINGS),
        (&openshift, Auto, wmco_shown),
        (&azure, Auto, aks_shown),
        (&amazon, Auto, eks_shown),
        (&openshift, External, BY_SETTINGS),
        // `Managed` wins, except where the node itself would suffer.
        (&openshift, Managed, wmco_shown),
        (&azure, Managed, aks_shown),
        (&amazon, Managed, "ours"),
    ] {
        let mut node = node("win-1", labels);
        assert_eq!(
            of(&cluster(&[node.clone()]), management),
            expected,
            "{labels}"
        );
        node["metadata"]["annotations"] = json!({"windowsstorage.dev/management": "Managed"});
        let expected = match management {
            External => expected,
            Auto | Managed | Management::Removed => "ours",
        };
        assert_eq!(
            of(&cluster(&[node.clone()]), management),
            expected,
            "{labels}"
        );
        node["metadata"]["annotations"] = json!({"windowsstorage.dev/management": "managed?"});
        assert_ne!(of(&cluster(&[node]), Auto), "", "{labels}");
    }
}

#[test]
fn a_daemon_set_with_csi_proxy_holds_the_new_nodes_that_it_covers() {
    let windows = &json!({"kubernetes.io/os": "windows"});
    let (few, every) = (&json!([]), &json!([{"operator": "Exists"}]));
    // It does not cover a node that keeps such a taint; one of a node that has just joined goes away.
    for (selector, tolerations, taint, expected) in [
        (windows, few, "", HELD),
        (&json!({}), few, "", HELD),
        (&json!({"pool": "a"}), few, "", HELD),
        (&json!({"pool": "b"}), few, "", "ours"),
        (&json!({"kubernetes.io/os": "linux"}), few, "", "ours"),
        (windows, few, "os", "ours"),
        (windows, every, "os", HELD),
        (windows, few, "node.kubernetes.io/not-ready", HELD),
        (windows, few, "node.kubernetes.io/network-unavailable", HELD),
        (
            windows,
            few,
            "node.cloudprovider.kubernetes.io/uninitialized",
            HELD,
        ),
        (windows, few, "node.kubernetes.io/os", "ours"),
    ] {
        let mut node = node("win-1", &json!({"pool": "a"}));
        if !taint.is_empty() {
            let taint = json!({"key": taint, "value": "Windows", "effect": "NoSchedule"});
            node["spec"] = json!({"taints": [taint]});
        }
        let cluster = cluster(&[node, daemon_set(selector, tolerations)]);
        let found = of(&cluster, Management::Auto);
        assert_eq!(found, expected, "{selector} {taint}");
        assert_eq!(of(&cluster, Management::Managed), "ours");
    }
}

const HELD: &str = "held by kube-system/csi-proxy";

#[test]
fn a_daemon_set_changes_nothing_for_a_node_that_has_something_of_this_operator() {
    let set = daemon_set(&json!({}), &json!([]));
    let with_agent = || Some(crate::api::CsiProxyStatus::default());
    let accepted = || {
        let accepted = json!({"type": SSH_KEY_ACCEPTED, "status": "True", "reason": "Accepted",
            "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"});
        serde_json::from_value(accepted).unwrap()
    };
    let of_status = |status: WindowsNodeStorageStatus| {
        let mut cluster = cluster(&[node("win-1", &json!({})), set.clone()]);
        cluster.node_statuses.apply("win-1".to_owned(), status);
        of(&cluster, Management::Auto)
    };
    // Without a login, nothing was installed there.
    assert_eq!(of_status(status(MANAGED, OPERATOR)), HELD);
    for (management, managed_by, csi_proxy, expected) in [
        (MANAGED, OPERATOR, None, "ours"),
        (MANAGED, OPERATOR, with_agent(), "ours"),
        (REMOVING, OPERATOR, with_agent(), "ours"),
        (RELEASING, BY_SETTINGS, None, "ours"),
        // As an earlier version wrote them.
        (RELEASING, "DaemonSet kube-system/csi-proxy", None, "ours"),
        (EXTERNAL, "DaemonSet kube-system/csi-proxy", None, HELD),
        // Nothing is there.
        (EXTERNAL, "", None, HELD),
        (NOT_NEEDED, OPERATOR, None, HELD),
    ] {
        let found = of_status(WindowsNodeStorageStatus {
            csi_proxy,
            conditions: vec![accepted()],
            ..status(management, managed_by)
        });
        assert_eq!(found, expected, "{management} {managed_by}");
    }
}

#[test]
fn a_daemon_set_makes_no_other_node_wait() {
    let set = daemon_set(&json!({"pool": "b"}), &json!([]));
    let mut new = node("win-1", &json!({"pool": "a"}));
    new["status"]["conditions"][0]["lastTransitionTime"] = "1970-01-02T03:46:39Z".into();
    let held = node("win-2", &json!({"pool": "b"}));
    assert_eq!(of(&cluster(&[new, held, set]), Management::Auto), "ours");
}

#[test]
fn of_marks_that_contradict_each_other_the_first_counts_and_linux_nodes_show_nothing() {
    let windows = json!({"kubernetes.io/os": "windows"});
    let of_aks = node("win-1", &json!({"kubernetes.azure.com/managedby": "aks"}));
    let set = daemon_set(&windows, &json!([]));
    let both = cluster(&[of_aks.clone(), set.clone()]);
    assert_eq!(
        of(&both, Management::Auto),
        "AKS by label kubernetes.azure.com/managedby"
    );
    let mut of_three = of_aks;
    of_three["metadata"]["annotations"] =
        json!({"windowsmachineconfig.openshift.io/username": "x"});
    let all = cluster(&[of_three, set]);
    assert_eq!(
        of(&all, Management::Auto),
        "WMCO by annotation windowsmachineconfig.openshift.io/username"
    );

    let mut linux = node("linux-1", &json!({"kubernetes.io/os": "linux"}));
    linux["metadata"]["annotations"] =
        json!({"windowsmachineconfig.openshift.io/version": "11.0.0"});
    let mut new = node("win-1", &json!({}));
    new["status"]["conditions"][0]["lastTransitionTime"] = "1970-01-02T03:46:39Z".into();
    assert_eq!(of(&cluster(&[linux, new]), Management::Auto), "ours");
}

#[test]
fn what_a_node_has_shown_once_holds_until_the_node_is_another() {
    for (management, managed_by, expected) in [
        (EXTERNAL, "WMCO by label x", "WMCO by label x"),
        // As an earlier version wrote it: a DaemonSet takes no node away, and is not remembered.
        (EXTERNAL, "DaemonSet a/b", "ours"),
        (RELEASING, "DaemonSet a/b", "ours"),
        (RELEASING, "WMCO by label x", "WMCO by label x"),
        (EXTERNAL, BY_SETTINGS, "ours"),
        (EXTERNAL, "", "ours"),
        ("Managed", OPERATOR, "ours"),
    ] {
        let mut cluster = cluster(&[node("win-1", &json!({}))]);
        let status = status(management, managed_by);
        cluster.node_statuses.apply("win-1".to_owned(), status);
        assert_eq!(of(&cluster, Management::Auto), expected, "{managed_by}");
    }
}

#[test]
fn a_new_node_among_those_of_others_is_left_alone_until_it_has_been_ready_for_ten_minutes() {
    let other = node("win-2", &json!({"cattle.io/os": "windows"}));
    let with = |ready: &str, since: &str, taint: &str| {
        let mut node = node("win-1", &json!({}));
        node["status"]["conditions"][0]["status"] = ready.into();
        node["status"]["conditions"][0]["lastTransitionTime"] = since.into();
        node["spec"] = json!({"taints": [{"key": taint, "effect": "NoSchedule"}]});
        node
    };
    let (long, just) = ("1970-01-02T03:36:40Z", "1970-01-02T03:36:41Z");
    let capi = "node.cluster.x-k8s.io/uninitialized";
    for (ready, since, taint, alone, among_others) in [
        ("True", long, "x", "ours", "ours"),
        ("True", just, "x", "ours", "? true"),
        ("False", long, "x", "ours", "? false"),
        ("Unknown", long, "x", "ours", "? false"),
        ("True", just, capi, "? false", "? false"),
        ("True", long, capi, "? false", "? false"),
    ] {
        let node = with(ready, since, taint);
        let mut cluster = cluster(&[node]);
        assert_eq!(
            of(&cluster, Management::Auto),
            alone,
            "{ready} {since} {taint}"
        );
        assert_eq!(of(&cluster, Management::Managed), "ours");
        let other = serde_json::from_value(other.clone()).unwrap();
        kind("v1", "Node").unwrap().absorb(&mut cluster, &other);
        assert_eq!(
            of(&cluster, Management::Auto),
            among_others,
            "{ready} {since} {taint}"
        );
        // A node whose agent has answered was ours before.
        let status = WindowsNodeStorageStatus {
            csi_proxy: Some(crate::api::CsiProxyStatus::default()),
            ..WindowsNodeStorageStatus::default()
        };
        cluster.node_statuses.apply("win-1".to_owned(), status);
        assert_eq!(of(&cluster, Management::Auto), "ours");
    }
}

#[test]
fn the_definition_takes_each_word_that_a_status_says() {
    let schema = schemars::schema_for!(WindowsNodeStorageStatus);
    let words = schema.pointer("/properties/management/enum").unwrap();
    let all = [MANAGED, EXTERNAL, RELEASING, REMOVING, REMOVED, NOT_NEEDED];
    assert_eq!(words, &json!(all));
}
