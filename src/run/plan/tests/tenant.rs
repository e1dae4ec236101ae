//! A tenant: somebody who may create anything that the role `edit` allows in one namespace, and nothing elsewhere. What
//! the tenant adds changes no row of another namespace, opens no gate, and changes nothing on a node that has something.
//!
//! Left out are `hostPath` volumes and HostProcess containers in templates: `docs/security.md` says what they do.

use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

use super::*;
use crate::api::CsiProxyStatus;
use crate::assess::report::{Upgradeable, VolumeUse};
use crate::node::{MANAGED, may_have_agent};

const CLUSTERS: usize = 150;
/// Most objects that the tenant adds.
const MOST: usize = 8;
const TENANT: &str = "tenant";
const DISK: &str = "disk.csi.azure.com";

/// What was seen over all clusters, to make sure that the test does not pass by doing nothing.
#[derive(Debug, Default)]
struct Counts {
    rows: usize,
    held: usize,
    open: usize,
    pools_at_zero: usize,
    managed: usize,
    own_rows: usize,
    plans_held: usize,
}

struct World {
    rng: StdRng,
    /// The objects that are not the tenant's.
    objects: Vec<Value>,
    /// The statuses that the operator has written.
    statuses: BTreeMap<String, WindowsNodeStorageStatus>,
    /// The uids that an owner reference may name.
    uids: Vec<String>,
    private_key: Vec<u8>,
}

impl World {
    fn new(seed: u64, private_key: &[u8]) -> Self {
        let mut world = Self {
            rng: StdRng::seed_from_u64(seed),
            objects: Vec::new(),
            statuses: BTreeMap::new(),
            uids: vec!["gone".to_owned()],
            private_key: private_key.to_vec(),
        };
        world.add_nodes();
        for namespace in ["shop", "bank", "kube-system"] {
            for _ in 0..world.rng.random_range(0..5) {
                let object = world.object(namespace);
                world.put(&object);
            }
        }
        world.put(&json!({
            "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "pv-csi"},
            "spec": {"csi": {"driver": "smb.csi.k8s.io", "volumeHandle": "h"}},
        }));
        world.put(&json!({
            "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "pv-disk"},
            "spec": {"azureDisk": {"diskName": "d", "diskURI": "u"}},
        }));
        world
    }

    fn add_nodes(&mut self) {
        self.put(&node("linux", "linux", &json!({})));
        if self.rng.random_bool(0.5) {
            let ignored = json!({"windowsstorage.dev/ignore": "true"});
            self.put(&node("ignored", "windows", &ignored));
        }
        for number in 1..=self.rng.random_range(0..=3) {
            let name = format!("win-{number}");
            self.put(&node(&name, "windows", &json!({})));
            let drivers = [DISK, "file.csi.azure.com", "smb.csi.k8s.io"];
            let drivers: Vec<Value> = drivers
                .iter()
                .filter(|_| self.rng.random_bool(0.8))
                .map(|driver| json!({"name": driver, "nodeID": name}))
                .collect();
            self.put(&json!({
                "apiVersion": "storage.k8s.io/v1", "kind": "CSINode", "metadata": {"name": name},
                "spec": {"drivers": drivers},
            }));
            if self.rng.random_bool(0.5) {
                let status = WindowsNodeStorageStatus {
                    management: MANAGED.to_owned(),
                    managed_by: crate::node::OPERATOR.to_owned(),
                    csi_proxy: Some(CsiProxyStatus::default()),
                    ..WindowsNodeStorageStatus::default()
                };
                self.statuses.insert(name, status);
            }
        }
    }

    fn one<'t>(&mut self, choices: &[&'t str]) -> &'t str {
        choices.choose(&mut self.rng).unwrap()
    }

    fn put(&mut self, object: &Value) {
        self.uids
            .extend(object["metadata"]["uid"].as_str().map(str::to_owned));
        self.objects.push(object.clone());
    }

    /// Returns a random object of one namespace.
    fn object(&mut self, namespace: &str) -> Value {
        let kind = self.one(&[
            "Pod",
            "Pod",
            "Deployment",
            "ReplicaSet",
            "StatefulSet",
            "DaemonSet",
            "DaemonSet",
            "ReplicationController",
            "Job",
            "PersistentVolumeClaim",
            "ConfigMap",
        ]);
        let name = self.one(&["web", "data", "db", "csi-proxy"]);
        let mut object = json!({
            "kind": kind,
            "metadata": {"name": name, "namespace": namespace, "uid": format!("{namespace}-{kind}-{name}")},
        });
        if self.rng.random_bool(0.5) {
            let uid = self.uids.choose(&mut self.rng).unwrap();
            object["metadata"]["ownerReferences"] = json!([{"apiVersion": "v1", "kind": "X", "name": "x", "uid": uid, "controller": true}]);
        }
        let (api_version, spec) = match kind {
            "Pod" => ("v1", self.pod_spec()),
            "PersistentVolumeClaim" => {
                let volume = self.one(&["pv-csi", "pv-disk"]);
                ("v1", json!({"volumeName": volume}))
            }
            "ConfigMap" => {
                object["data"] = json!({"csi-windows-support": "false"});
                ("v1", Value::Null)
            }
            _ => {
                let replicas = self.rng.random_range(0..=1);
                let spec = json!({"replicas": replicas, "template": {"spec": self.pod_spec()}});
                let api_version = match kind {
                    "ReplicationController" => "v1",
                    "Job" => "batch/v1",
                    _ => "apps/v1",
                };
                (api_version, spec)
            }
        };
        object["apiVersion"] = json!(api_version);
        object["spec"] = spec;
        object
    }

    fn pod_spec(&mut self) -> Value {
        let mut volumes = Vec::new();
        for name in ["data", "more"] {
            let (field, source) = match self.rng.random_range(0..8) {
                0 => ("azureDisk", json!({"diskName": "d", "diskURI": "u"})),
                1 => ("azureFile", json!({"secretName": "s", "shareName": "s"})),
                2 => ("csi", json!({"driver": "smb.csi.k8s.io"})),
                3 | 4 => ("persistentVolumeClaim", json!({"claimName": "data"})),
                _ => continue,
            };
            volumes.push(json!({"name": name, field: source}));
        }
        let image = self.one(&[
            "app",
            "registry.k8s.io/csi-proxy:v1.1.2",
            "azuredisk-csi:v1.30.0",
            "busybox",
        ]);
        let mut spec = json!({
            "volumes": volumes,
            "containers": [{
                "name": "c",
                "image": image,
                "args": [format!("--kubelet-registration-path=/x/{DISK}/csi.sock")],
            }],
            "tolerations": [{"operator": "Exists"}],
        });
        match self.one(&["win-1", "ignored", "linux", "", "", ""]) {
            "" => {
                spec["nodeSelector"] =
                    json!({"kubernetes.io/os": self.one(&["windows", "windows", "linux"])});
            }
            node => spec["nodeName"] = json!(node),
        }
        spec
    }

    /// Lets a process start, read everything, decide, and write its statuses. Returns what it decided.
    fn decide(&mut self, added: &[Value]) -> Decided {
        let mut rig = Rig::new();
        rig.add_configuration_with(self.private_key.clone());
        for object in self.objects.iter().chain(added) {
            rig.put(object);
        }
        for (name, status) in &self.statuses {
            let statuses = &mut rig.cluster.node_statuses;
            statuses.apply(name.clone(), status.clone());
        }
        rig.read_verdict_kinds();
        rig.finish_configuration();
        // The second pass follows from complete data.
        rig.pass();
        for (name, node) in &rig.pass().statuses.by_name {
            self.statuses.insert(name.clone(), node.status.clone());
        }
        let report = rig.report.to_json(&rig.cluster);
        Decided {
            upgradeable: report.verdict.upgradeable,
            rows: report.volumes,
            plans: rig.last.nodes.clone(),
        }
    }
}

struct Decided {
    upgradeable: Upgradeable,
    rows: Vec<VolumeUse>,
    plans: BTreeMap<String, NodePlan>,
}

fn node(name: &str, system: &str, labels: &Value) -> Value {
    let mut labels = labels.clone();
    labels["kubernetes.io/os"] = json!(system);
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "uid": format!("uid-{name}"), "labels": labels},
        "status": {
            "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}],
            "nodeInfo": {"operatingSystem": system, "kubeletVersion": "v1.30.4", "bootID": "b"},
            "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "1970-01-01T00:00:00Z"}],
        },
    })
}

/// Returns the row with what a tenant must not change.
fn same_row(rows: &[VolumeUse], row: &VolumeUse) -> Option<VolumeUse> {
    let mut rows = rows.iter();
    let identity = |row: &VolumeUse| VolumeUse {
        blocking: false,
        missing_on: Vec::new(),
        ..row.clone()
    };
    rows.find(|it| identity(it) == identity(row)).cloned()
}

/// Whether the plan connects to the node.
fn connects(plan: &NodePlan) -> bool {
    matches!(
        plan,
        NodePlan::Reconcile(Ok(_)) | NodePlan::Release(..) | NodePlan::Remove(..)
    )
}

#[test]
fn a_tenant_changes_nothing_outside_its_namespace_except_by_holding() {
    let private_key = PrivateKey::new_pem();
    let mut counts = Counts::default();
    for seed in 0..CLUSTERS as u64 {
        let mut world = World::new(seed, &private_key);
        world.decide(&[]);
        if world.rng.random_bool(0.5) {
            world.put(&node("win-new", "windows", &json!({})));
        }
        let known = world.statuses.clone();
        let before = world.decide(&[]);
        world.statuses = known;
        let statuses = world.statuses.iter();
        let had = statuses.filter(|(_, status)| may_have_agent(status, false));
        let had: BTreeSet<String> = had.map(|(name, _)| name.clone()).collect();
        let added: Vec<Value> = (0..world.rng.random_range(1..=MOST))
            .map(|_| world.object(TENANT))
            .collect();
        let during = world.decide(&added);
        let shown = || {
            let added: Vec<String> = added.iter().map(ToString::to_string).collect();
            format!("seed {seed}, the tenant added\n{}", added.join("\n"))
        };

        if before.upgradeable == Upgradeable::False {
            assert_eq!(
                during.upgradeable,
                Upgradeable::False,
                "the gate opens: {}",
                shown()
            );
            counts.held += 1;
        } else {
            counts.open += 1;
        }
        let of_others = |row: &&VolumeUse| row.workload.namespace != TENANT;
        assert_eq!(
            during.rows.iter().filter(of_others).count(),
            before.rows.len(),
            "rows: {}",
            shown()
        );
        for row in &before.rows {
            let Some(after) = same_row(&during.rows, row) else {
                panic!("{row:?} is gone: {}", shown());
            };
            assert!(after.blocking || !row.blocking, "{after:?}: {}", shown());
            let mut missing = row.missing_on.iter();
            assert!(
                missing.all(|node| after.missing_on.contains(node)),
                "{after:?}: {}",
                shown()
            );
        }
        for (name, plan) in &before.plans {
            let after = &during.plans[name];
            if had.contains(name) {
                assert_eq!(after, plan, "{name}: {}", shown());
                counts.managed += 1;
            } else {
                assert!(
                    after == plan || !connects(after),
                    "{name}: {after:?}: {}",
                    shown()
                );
                counts.plans_held += usize::from(after != plan);
            }
        }
        counts.rows += before.rows.len();
        counts.own_rows += during.rows.len() - before.rows.len();
        counts.pools_at_zero += usize::from(before.plans.is_empty() && !before.rows.is_empty());

        // Nothing of it is remembered in what the operator wrote.
        let later = world.decide(&[]);
        assert_eq!(later.upgradeable, before.upgradeable, "{}", shown());
        assert_eq!(later.rows, before.rows, "{}", shown());
        assert_eq!(later.plans, before.plans, "{}", shown());
    }
    println!("{counts:?}");
    let Counts {
        rows,
        held,
        open,
        pools_at_zero,
        managed,
        own_rows,
        plans_held,
    } = counts;
    for (count, least) in [
        (rows, CLUSTERS),
        (held, CLUSTERS / 5),
        (open, CLUSTERS / 3),
        (pools_at_zero, CLUSTERS / 38),
        (managed, CLUSTERS * 2 / 3),
        (own_rows, CLUSTERS * 2 / 3),
        (plans_held, CLUSTERS / 38),
    ] {
        assert!(count >= least, "{count}, not {least}");
    }
}
