//! Random lives of small clusters. All names come from small pools, so that references hit and objects come back.

pub mod pod;
mod storage;

use crate::oracle::cluster::{
    CRON_JOB, CSI_DRIVER, CSI_NODE, DAEMON_SET, DEPLOYMENT, JOB, Kind, NODE, POD, REPLICA_SET,
    REPLICATION_CONTROLLER, RUNTIME_CLASS, STATEFUL_SET, WINDOWS_STORAGE,
};
use crate::run::key;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde_json::{Value, json};
use std::collections::BTreeMap;

#[derive(Clone, Debug)]
pub enum Event {
    Upsert(Value),
    Delete(Value),
}

/// What random objects are made with.
pub struct Random {
    rng: StdRng,
    /// The plugins that this cluster mostly uses: of all at once, none would ever be used twice.
    favourites: [usize; 2],
    /// The owner that this cluster mostly has, so that pods find theirs.
    favourite_owner: usize,
}

/// Mostly one of the two, or nothing would meet.
pub const NAMESPACES: [&str; 5] = ["shop", "bank", "shop", "shop", "shop"];
const OWNERS: [(Kind, &str); 7] = [
    (DEPLOYMENT, "deploy"),
    (REPLICA_SET, "rs"),
    (STATEFUL_SET, "sts"),
    (DAEMON_SET, "ds"),
    (JOB, "job"),
    (CRON_JOB, "cron"),
    (REPLICATION_CONTROLLER, "rc"),
];

pub fn events(count: usize, seed: u64) -> Vec<Event> {
    let mut rng = StdRng::seed_from_u64(seed);
    let favourites = [rng.random_range(0..7), rng.random_range(0..7)];
    let favourite_owner = rng.random_range(0..OWNERS.len());
    let mut random = Random {
        rng,
        favourites,
        favourite_owner,
    };
    let mut there: BTreeMap<String, Value> = BTreeMap::new();
    let mut life = Vec::new();
    while life.len() < count {
        if !there.is_empty() && life.len() > 3 && random.chance(10) {
            let nth = random.below(there.len());
            let gone = there.keys().nth(nth).cloned().unwrap();
            life.extend(there.remove(&gone).map(Event::Delete));
        } else if !there.is_empty() && random.chance(3) {
            // A watch that starts again repeats what is already known.
            let nth = random.below(there.len());
            life.extend(there.values().nth(nth).cloned().map(Event::Upsert));
        } else {
            let object = match life.len() {
                0 if random.chance(95) => plain_node(),
                1 if random.chance(60) => random.node(),
                2 if random.chance(60) => random.csi_node(),
                _ => random.object(),
            };
            there.insert(key(&object), object.clone());
            life.push(Event::Upsert(object));
        }
    }
    life
}

fn plain_node() -> Value {
    object(
        NODE,
        "",
        "n-1",
        json!({"metadata": {"labels": {"kubernetes.io/os": "windows"}}}),
    )
}

/// An object of the parts of it that are given.
pub fn object((api_version, kind): Kind, namespace: &str, name: &str, parts: Value) -> Value {
    let mut object = parts;
    object["apiVersion"] = json!(api_version);
    object["kind"] = json!(kind);
    object["metadata"]["name"] = json!(name);
    if !namespace.is_empty() {
        object["metadata"]["namespace"] = json!(namespace);
    }
    object
}

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.rng.random_range(0..limit)
    }

    fn chance(&mut self, percent: u32) -> bool {
        self.rng.random_range(0..100) < percent
    }

    fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }

    /// The index of a plugin that a driver takes over.
    fn plugin(&mut self) -> usize {
        if self.chance(85) {
            self.favourites[self.below(2)]
        } else {
            self.below(7)
        }
    }

    fn object(&mut self) -> Value {
        match self.below(100) {
            0..8 => self.node(),
            8..16 => self.csi_node(),
            16..20 => {
                let name = if self.chance(60) {
                    "x.example.com".to_owned()
                } else {
                    self.driver()
                };
                object(CSI_DRIVER, "", &name, json!({"spec": {}}))
            }
            20..41 => self.pod(),
            41..52 => self.claim(),
            52..60 => self.persistent_volume(),
            60..68 => self.storage_class(),
            68..72 => self.runtime_class(),
            72..93 => self.owner(),
            93..98 => self.driver_daemon_set(),
            _ => self.windows_storage(),
        }
    }

    fn node(&mut self) -> Value {
        let name = self.pick(&["n-1", "n-2", "n-3", "n-4"]);
        let mut parts = match self.below(12) {
            0..6 => json!({"metadata": {"labels": {"kubernetes.io/os": "windows"}}}),
            6 => json!({"metadata": {"labels": {"kubernetes.io/os": "linux"}}}),
            // The label has the last word.
            7 => json!({"metadata": {"labels": {"kubernetes.io/os": "linux"}},
                "status": {"nodeInfo": {"operatingSystem": "windows"}}}),
            8 => json!({"metadata": {"labels": {"kubernetes.io/os": "windows"}},
                "status": {"nodeInfo": {"operatingSystem": "linux"}}}),
            9 => {
                json!({"metadata": {"labels": {"a": "b"}}, "status": {"nodeInfo": {"operatingSystem": "windows"}}})
            }
            10 => json!({"metadata": {}, "status": {"nodeInfo": {"operatingSystem": "linux"}}}),
            _ => json!({"metadata": {"labels": {"beta.kubernetes.io/os": "windows"}}}),
        };
        if self.chance(20) {
            parts["metadata"]["labels"]["windowsstorage.dev/ignore"] =
                json!(self.pick(&["true", "true", "false"]));
        }
        if self.chance(12) {
            parts["metadata"]["deletionTimestamp"] = json!("2026-01-02T03:04:05Z");
        }
        object(NODE, "", name, parts)
    }

    fn csi_node(&mut self) -> Value {
        let name = self.pick(&["n-1", "n-1", "n-2", "n-2", "n-3", "n-4", "n-5"]);
        let mut drivers: Vec<String> = (0..self.below(5)).map(|_| self.driver()).collect();
        drivers.sort();
        drivers.dedup();
        let drivers: Vec<_> = drivers
            .iter()
            .map(|driver| json!({"name": driver, "nodeID": name}))
            .collect();
        object(CSI_NODE, "", name, json!({"spec": {"drivers": drivers}}))
    }

    fn windows_storage(&mut self) -> Value {
        let name = if self.chance(85) { "cluster" } else { "other" };
        let spec = self.pick(&[Some("Ignore"), Some("Ignore"), Some("Enforce"), None]);
        object(
            WINDOWS_STORAGE,
            "",
            name,
            json!({"spec": spec.map_or(json!({}), |gate| json!({"upgradeGate": gate}))}),
        )
    }

    fn runtime_class(&mut self) -> Value {
        let name = self.pick(&["r-1", "r-2"]);
        let mut parts = json!({"handler": "runhcs"});
        if self.chance(90) {
            parts["scheduling"] = json!({"nodeSelector": self.selector()});
        }
        object(RUNTIME_CLASS, "", name, parts)
    }

    fn pod(&mut self) -> Value {
        let namespace = self.pick(&NAMESPACES);
        let name = self.pick(&["a-0", "a-1", "b-0"]);
        let mut spec = self.pod_spec();
        if self.chance(60) {
            spec["nodeName"] = json!(self.pick(&["n-1", "n-1", "n-2", "n-3", "n-4", "n-5"]));
        } else if self.chance(10) {
            spec["nodeName"] = json!("");
        }
        let mut parts = json!({"metadata": {}, "spec": spec});
        if self.chance(85) {
            let phase = self.pick(&[
                "Pending",
                "Running",
                "Running",
                "Unknown",
                "Succeeded",
                "Failed",
            ]);
            parts["status"] = json!({"phase": phase});
        }
        if self.chance(10) {
            parts["metadata"]["deletionTimestamp"] = json!("2026-01-02T03:04:05Z");
        }
        if self.chance(60) {
            parts["metadata"]["ownerReferences"] = self.references(namespace, &OWNERS);
        }
        object(POD, namespace, name, parts)
    }

    /// References to owners of some kinds, of which at most one is the controller.
    fn references(&mut self, namespace: &str, kinds: &[(Kind, &str)]) -> Value {
        let mut references = Vec::new();
        if self.chance(20) {
            references.push(self.reference(namespace, kinds));
        }
        if self.chance(90) {
            let mut controller = self.reference(namespace, kinds);
            controller["controller"] = json!(true);
            references.push(controller);
        }
        json!(references)
    }

    fn reference(&mut self, namespace: &str, kinds: &[(Kind, &str)]) -> Value {
        let any = kinds.len() == OWNERS.len();
        let ((api_version, kind), short) = if any && self.chance(60) {
            OWNERS[self.favourite_owner]
        } else {
            self.pick(kinds)
        };
        let name = self.pick(&["a", "a", "b"]);
        let mut reference = json!({"apiVersion": api_version, "kind": kind, "name": name, "uid": self.uid(short, namespace, name)});
        if self.chance(30) {
            reference["controller"] = json!(false);
        }
        reference
    }

    /// An object that was deleted and made again has another uid.
    fn uid(&mut self, short: &str, namespace: &str, name: &str) -> String {
        let age = if self.chance(80) { "new" } else { "old" };
        format!("{short}-{namespace}-{name}-{age}")
    }

    fn owner(&mut self) -> Value {
        let (kind, short) = if self.chance(40) {
            OWNERS[self.favourite_owner]
        } else {
            self.pick(&OWNERS)
        };
        let namespace = self.pick(&NAMESPACES);
        let name = self.pick(&["a", "a", "b"]);
        let mut parts = json!({"metadata": {"uid": self.uid(short, namespace, name)}});
        let controllers: &[(Kind, &str)] = match short {
            "rs" => &[
                (DEPLOYMENT, "deploy"),
                (DEPLOYMENT, "deploy"),
                (REPLICA_SET, "rs"),
            ],
            "rc" => &[
                (REPLICATION_CONTROLLER, "rc"),
                (REPLICA_SET, "rs"),
                (DEPLOYMENT, "deploy"),
            ],
            "job" => &[(CRON_JOB, "cron"), (CRON_JOB, "cron"), (JOB, "job")],
            _ => &[(REPLICA_SET, "rs"), (JOB, "job")],
        };
        if self.chance(if controllers.len() == 3 { 60 } else { 8 }) {
            parts["metadata"]["ownerReferences"] = self.references(namespace, controllers);
        }
        let template = json!({"metadata": {"labels": {"app": name}}, "spec": self.pod_spec()});
        if short == "cron" {
            parts["spec"] =
                json!({"schedule": "@daily", "jobTemplate": {"spec": {"template": template}}});
        } else {
            parts["spec"] = json!({"selector": {}, "template": template});
        }
        if ["deploy", "rs", "sts", "rc"].contains(&short) && self.chance(50) {
            parts["spec"]["replicas"] = json!(self.below(2));
        }
        if short == "job" {
            self.job_state(&mut parts);
        }
        if short == "sts" {
            parts["spec"]["serviceName"] = json!(name);
            self.claim_templates(&mut parts["spec"]);
        }
        object(kind, namespace, name, parts)
    }

    fn job_state(&mut self, parts: &mut Value) {
        if self.chance(20) {
            parts["spec"]["suspend"] = json!(true);
        }
        if self.chance(50) {
            let condition = self.pick(&["Complete", "Failed", "Suspended", "SuccessCriteriaMet"]);
            let status = self.pick(&["True", "True", "False"]);
            parts["status"] = json!({"conditions": [
                {"type": "FailureTarget", "status": "False"}, {"type": condition, "status": status}]});
        }
    }
}
