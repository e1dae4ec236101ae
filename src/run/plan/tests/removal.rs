//! csi-proxy is installed and removed with its users, and everything can be removed.

use super::*;
use crate::node::{Absence, FIRST_CONTACT, HOST_KEYS_CONFIG_MAP, Hold, Purpose};

/// A DaemonSet for a driver, with this image and these volumes.
fn driver(image: &str, volumes: &Value, host_process: bool) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "DaemonSet",
        "metadata": {"namespace": "kube-system", "name": "driver", "uid": "driver"},
        "spec": {"template": {"spec": {
            "nodeSelector": {"kubernetes.io/os": "windows"},
            "securityContext": {"windowsOptions": {"hostProcess": host_process}},
            "containers": [{"name": "driver", "image": image}],
            "volumes": volumes,
        }}},
    })
}

pub(super) fn with_pipes() -> Value {
    let pipe = r"\\.\pipe\csi-proxy-disk-v1";
    driver(
        "x/driver:v1.0",
        &json!([{"name": "p", "hostPath": {"path": pipe}}]),
        false,
    )
}

/// A pod on `win-1` that mounts this pipe.
pub(super) fn pod_with_pipe(pipe: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"namespace": "kube-system", "name": "left", "uid": "left"},
        "spec": {
            "nodeName": "win-1",
            "volumes": [{"name": "p", "hostPath": {"path": format!(r"\\.\pipe\{pipe}")}}],
        },
    })
}

pub(super) fn where_needed() -> Value {
    json!({"csiProxy": {"install": "WhereNeeded"}})
}

pub(super) fn all_removed() -> Value {
    json!({"csiProxy": {"management": "Removed"}})
}

impl Rig {
    /// Known Windows nodes with labels; nothing uses csi-proxy.
    pub(super) fn with_labels(names: &[&str]) -> Self {
        let mut rig = Self::settled();
        for name in names {
            rig.add_node(name, "windows");
            rig.label(name, "kubernetes.io/os", "windows");
        }
        // The operator has been there.
        let pins: Vec<_> = names.iter().map(|name| (*name, FIRST_CONTACT)).collect();
        rig.pin(&pins);
        rig.pause = 0;
        rig
    }

    /// Writes the pins of these nodes, each with its comment.
    pub(super) fn pin(&mut self, pins: &[(&str, &str)]) {
        let pin = |(name, comment): &(&str, &str)| {
            ((*name).to_owned(), format!("ssh-ed25519 AAAA {comment}"))
        };
        self.put_config_map(HOST_KEYS_CONFIG_MAP, pins.iter().map(pin).collect());
    }

    pub(super) fn delete_driver(&mut self) {
        let key = ObjectKey::new("kube-system", "driver");
        self.cluster.owners[crate::index::WorkloadKind::DaemonSet].delete(&key);
    }

    /// Returns status, reason and message of a node's condition.
    pub(super) fn condition(&self, node: &str, type_: &str) -> (String, String, String) {
        let status = self.cluster.node_statuses.get(node).unwrap();
        let said = find(&status.conditions, type_).unwrap().clone();
        (said.status, said.reason, said.message)
    }

    /// Runs passes and writes their statuses until there are none to write.
    pub(super) fn act(&mut self) -> Arc<Plan> {
        for _ in 0..5 {
            let todo = self.pass();
            if names(&todo).is_empty() {
                return todo;
            }
            self.write_statuses(&todo);
        }
        panic!("the statuses do not come to rest")
    }

    pub(super) fn plan(&self, node: &str) -> &NodePlan {
        &self.last.nodes[node]
    }

    pub(super) fn management(&self, node: &str) -> &str {
        &self.cluster.node_statuses.get(node).unwrap().management
    }

    /// Returns reason and message of the rollout condition.
    pub(super) fn progress(&mut self) -> (String, String) {
        let todo = self.pass();
        super::rig::said(&todo, "RolloutProgressing").unwrap()
    }

    /// Records that the operator has removed everything from the node.
    pub(super) fn removed(&mut self, node: &str) {
        self.saw(node, Purpose::Remove, Standing::Current);
    }
}

#[test]
fn where_it_is_needed_csi_proxy_comes_with_a_daemon_set_and_goes_ten_minutes_after_it() {
    let mut rig = Rig::with_labels(&["win-1"]);
    rig.pin(&[]);
    rig.cluster.node_statuses.delete(&"win-1".to_owned());
    rig.want(&where_needed());
    rig.act();
    assert_eq!(*rig.plan("win-1"), NodePlan::Absent(Absence::NotNeeded));
    assert_eq!(rig.management("win-1"), "NotNeeded");

    rig.put(&with_pipes());
    rig.act();
    assert!(matches!(rig.plan("win-1"), NodePlan::Reconcile(Ok(_))));
    assert_eq!(rig.management("win-1"), "Managed");
    rig.pin(&[("win-1", FIRST_CONTACT)]);

    rig.later(1_000);
    rig.delete_driver();
    rig.act();
    assert!(matches!(rig.plan("win-1"), NodePlan::Reconcile(Ok(_))));
    let due = |rig: &Rig| rig.last.due.map(|at| at - rig.instant);
    assert_eq!(due(&rig), Some(Duration::from_secs(600)));
    // If the DaemonSet is recreated meanwhile, the time starts over.
    rig.put(&with_pipes());
    rig.act();
    assert_eq!(due(&rig), None);
    rig.later(500);
    rig.delete_driver();
    rig.act();
    rig.later(599);
    rig.act();
    assert_eq!(rig.last.wants_lists, None);
    assert!(matches!(rig.plan("win-1"), NodePlan::Reconcile(Ok(_))));

    // The data may be stale.
    rig.is_fresh = false;
    rig.later(1);
    rig.act();
    assert!(matches!(rig.plan("win-1"), NodePlan::Reconcile(Ok(_))));
    assert!(rig.last.wants_lists.is_some());
    assert_eq!(due(&rig), None, "no busy loop");
    rig.is_fresh = true;
    rig.act();
    let is_due = |rig: &Rig| {
        let plan = rig.plan("win-1");
        matches!(plan, NodePlan::Remove(Absence::NotNeeded, Ok(target)) if target.purpose == Purpose::Remove)
    };
    assert!(is_due(&rig), "{:?}", rig.plan("win-1"));
    assert_eq!(rig.management("win-1"), "Removing");
    // A removal that has begun continues.
    rig.is_fresh = false;
    rig.put_config_map("other", BTreeMap::new());
    rig.act();
    assert!(is_due(&rig));
    rig.removed("win-1");
    rig.act();
    assert_eq!(*rig.plan("win-1"), NodePlan::Absent(Absence::NotNeeded));
    assert_eq!(rig.management("win-1"), "NotNeeded");
}

#[test]
fn a_node_counts_as_one_without_csi_proxy_before_the_entry_is_written() {
    let mut rig = Rig::new();
    rig.want(&where_needed());
    rig.add_node("win-1", "windows");
    rig.add_configuration();
    let map = services::CONFIG_MAP.to_owned();
    rig.cluster.config_maps.delete(&map);
    rig.read_verdict_kinds();
    rig.finish_configuration();
    rig.act();
    assert_eq!(*rig.plan("win-1"), NodePlan::Absent(Absence::NotNeeded));
    assert_eq!(rig.last.services, Ok(ServicesPlan::Unneeded));
    rig.want(&json!({}));
    rig.act();
    assert_eq!(*rig.plan("win-1"), NodePlan::Waiting);
    assert!(matches!(rig.last.services, Ok(ServicesPlan::Create(_))));
}

#[test]
fn a_driver_of_the_host_counts_unless_it_is_known_to_do_without_and_a_pod_stands_for_its_set() {
    let mut rig = Rig::with_labels(&["win-1"]);
    rig.want(&where_needed());
    let is_used = |rig: &mut Rig| {
        rig.act();
        let (status, reason, _) = rig.condition("win-1", "CSIProxyUsed");
        format!("{status} {reason}")
    };
    let folder = json!([{"name": "p", "hostPath": {"path": r"C:\var\lib\kubelet\plugins\disk.csi.azure.com"}}]);
    for (image, used) in [
        ("x/azuredisk-csi:v1.13.0", "True HostProcess"),
        ("x/azuredisk-csi:v1.30.0", "False NotUsed"),
        ("x/ose-azure-disk-csi-driver:v4.20", "True HostProcess"),
    ] {
        rig.put(&driver(image, &folder, true));
        assert_eq!(is_used(&mut rig), used, "{image}");
    }
    rig.put(&driver("x/azuredisk-csi:v1.30.0", &folder, true));
    // Names of pipes are case-insensitive.
    for pipe in ["csi-proxy-disk-v1", "CSI-Proxy-disk-v1"] {
        rig.put(&pod_with_pipe(pipe));
        assert_eq!(is_used(&mut rig), "True PipesMounted", "{pipe}");
        let pod = ObjectKey::new("kube-system", "left");
        rig.cluster.pods.delete(&pod);
        assert_eq!(is_used(&mut rig), "False NotUsed");
    }
    // A DaemonSet that does not cover the node does not count; one whose pods are only waiting for the node does.
    rig.put(&with_pipes());
    rig.taint("win-1", "os");
    assert_eq!(is_used(&mut rig), "False NotUsed");
    rig.taint("win-1", "node.kubernetes.io/not-ready");
    assert_eq!(is_used(&mut rig), "True PipesMounted");
}

/// A cluster with two managed nodes, one node that has become another owner's, and a driver that uses csi-proxy.
/// Everything is to be removed.
fn to_be_removed() -> Rig {
    let mut rig = Rig::with_labels(&["win-1", "win-2", "theirs"]);
    rig.pin(&[("win-1", FIRST_CONTACT), ("win-2", "by-hand")]);
    rig.change_node("theirs", |node| node.given = true);
    rig.act();
    rig.see("theirs", Standing::Current);
    rig.act();
    rig.change_node("theirs", |node| node.given = false);
    rig.belongs_to("theirs", Platform::WMCO);
    rig.put(&with_pipes());
    rig.act();
    // It was ours, so it is released first.
    assert_eq!(rig.management("theirs"), "Releasing");
    rig.saw("theirs", Purpose::Release, Standing::Current);
    rig.act();
    rig.later(1_000);
    rig.want(&all_removed());
    rig.act();
    rig
}

#[test]
fn what_uses_csi_proxy_holds_its_removal_and_is_named() {
    let mut rig = to_be_removed();
    for node in ["win-1", "win-2"] {
        let NodePlan::RemovalWaits(Hold::Used(used)) = rig.plan(node) else {
            panic!("{:?}", rig.plan(node))
        };
        assert_eq!(used.user, "DaemonSet kube-system/driver");
        assert_eq!(rig.management(node), "Removing");
    }
    let (reason, message) = rig.progress();
    assert_eq!(reason, "Removing");
    assert!(
        message.contains("win-1 (DaemonSet kube-system/driver mounts"),
        "{message}"
    );
}

#[test]
fn all_is_removed_from_every_node_and_then_from_the_cluster() {
    let mut rig = to_be_removed();
    rig.delete_driver();
    rig.act();
    rig.later(600);
    rig.act();
    for node in ["win-1", "win-2"] {
        assert!(matches!(
            rig.plan(node),
            NodePlan::Remove(Absence::Removed, Ok(_))
        ));
    }
    // One after the other: both are observed, and one gets the slot.
    for node in ["win-1", "win-2"] {
        rig.saw(node, Purpose::Remove, Standing::Waiting);
    }
    assert_eq!(rig.slots(), ["win-1"]);
    rig.removed("win-1");
    rig.act();
    assert_eq!(*rig.plan("win-1"), NodePlan::Absent(Absence::Removed));
    assert_eq!(rig.slots(), ["win-2"]);
    // Until the last node is done, whatever the operator needs for it stays.
    assert_eq!(rig.last.services, Ok(ServicesPlan::Unneeded));
    assert!(rig.act().left_keys.is_empty());
    let failed = Observation {
        purpose: Purpose::Remove,
        problem: Some(crate::node::Reason::HostKeyChanged.error("another key")),
        ..Observation::default()
    };
    rig.observations.insert("win-2".to_owned(), failed);
    rig.act();
    let (_, message) = rig.progress();
    assert!(
        message.contains("1 of 2 node(s); to be removed: win-2 (another key)"),
        "{message}"
    );
    rig.removed("win-2");
    rig.act();
    let left = rig.act().left_keys.clone();
    assert_eq!(
        left,
        ["win-1".to_owned()].into(),
        "what was pinned by hand stays"
    );
    let Ok(ServicesPlan::Update { data, .. }) = rig.last.services.clone() else {
        panic!("{:?}", rig.last.services)
    };
    assert_eq!(data["services"], "[]");
    let (reason, message) = super::rig::said(&rig.last, "ServicesValid").unwrap();
    assert!(
        reason == "Unneeded" && message.contains("to run on no node"),
        "{reason}: {message}"
    );
    let (reason, message) = rig.progress();
    assert_eq!(reason, "Removing");
    assert!(message.contains("being deleted"), "{message}");

    rig.put_config_map(services::CONFIG_MAP, data);
    rig.pin(&[("win-2", "by-hand")]);
    rig.act();
    assert_eq!(rig.progress().0, "Removed");
    assert_eq!(rig.management("theirs"), "External");

    // If the removal is revoked, everything is installed again.
    rig.want(&json!({}));
    rig.act();
    assert!(matches!(rig.last.services, Ok(ServicesPlan::Update { .. })));
    rig.add_configuration();
    rig.act();
    assert!(matches!(rig.plan("win-1"), NodePlan::Reconcile(Ok(_))));
}
