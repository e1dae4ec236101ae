//! Foresees which pods of a node could not mount their volumes if it were upgraded in place, or drained.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::assess::judgement::judged::Report;
use crate::index::{
    Access, Cluster, LeftOut, Moving, Name, Node, NodeSelection, ObjectKey, PersistentVolume, Pod,
    PodVolumeSource, WorkloadKey, from_text,
};

/// Where the pods of a node go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// They start again on the node.
    Again,
    /// They leave for other nodes, as in a drain: those of DaemonSets and static ones stay.
    Away,
}

/// A pod that could not mount a volume wherever it may go.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Stuck {
    /// The pod's namespace.
    pub namespace: String,
    /// The pod's name.
    pub name: String,
    /// Why not.
    pub reasons: Vec<Reason>,
}

/// Why a pod could not mount a volume.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Reason {
    /// What is in the way.
    pub message: String,
    /// On which of the nodes that may take the pod; none if there is no such node.
    pub nodes: Vec<String>,
}

/// The pods that would be stuck.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Preview {
    /// The node.
    pub node: String,
    /// How many of its pods use volumes and would start again.
    pub pods: usize,
    /// Those that could not mount a volume, by namespace and name.
    pub stuck: Vec<Stuck>,
}

/// Foresees the pods of a node that would be stuck, at the report's target version or today's. Else says why there is nothing to
/// foresee.
pub fn preview(
    cluster: &Cluster,
    report: &Report,
    name: &str,
    way: Way,
) -> Result<Preview, String> {
    let node = cluster.nodes.get(name);
    let node =
        node.ok_or_else(|| format!("there is no node {name}; kubectl get nodes lists them"))?;
    let why = match node.left_out {
        _ if !node.runs_windows() => Some("it does not run Windows"),
        Some(LeftOut::Ignored) => Some("it is labelled windowsstorage.dev/ignore=true"),
        Some(LeftOut::Virtual) => Some("it is virtual, and mounts no volumes of CSI drivers"),
        None => None,
    };
    if let Some(why) = why {
        return Err(format!("the pods of node {name} do not count: {why}"));
    }
    let foresight = Foresight {
        cluster,
        report,
        name,
        way,
    };
    let pods = cluster.pods.iter().filter(|(_, pod)| {
        let leaves = way == Way::Again || pod.moving.is_some();
        leaves && pod.node_name.as_deref() == Some(name) && !pod.volumes.is_empty()
    });
    let pods: Vec<_> = pods.collect();
    let stuck = pods.iter().map(|(key, pod)| Stuck {
        namespace: key.namespace.to_string(),
        name: key.name.to_string(),
        reasons: foresight.reasons(key, pod),
    });
    Ok(Preview {
        node: name.to_owned(),
        stuck: stuck.filter(|stuck| !stuck.reasons.is_empty()).collect(),
        pods: pods.len(),
    })
}

struct Foresight<'a> {
    cluster: &'a Cluster,
    report: &'a Report,
    /// The node that the pods are on.
    name: &'a str,
    way: Way,
}

impl Foresight<'_> {
    /// Returns why the pod could mount on no node, with the nodes; nothing if it could on one.
    fn reasons(&self, key: &ObjectKey, pod: &Pod) -> Vec<Reason> {
        let mut reasons = BTreeMap::<String, Vec<String>>::new();
        for (name, node) in self.places(pod) {
            let there = self.reasons_on(key, pod, name, node);
            if there.is_empty() {
                return Vec::new();
            }
            for reason in there {
                reasons.entry(reason).or_default().push(name.to_string());
            }
        }
        if reasons.is_empty() {
            let nowhere = "no other Windows node that is ready for pods has the labels that it selects and only taints that it \
                           tolerates";
            reasons.insert(nowhere.to_owned(), Vec::new());
        }
        let reasons = reasons.into_iter();
        reasons
            .map(|(message, nodes)| Reason { message, nodes })
            .collect()
    }

    /// Returns the nodes that may take the pod.
    fn places(&self, pod: &Pod) -> Vec<(&Name, &Node)> {
        let nodes = self.cluster.nodes.iter();
        if self.way == Way::Again {
            return nodes.filter(|(name, _)| ***name == *self.name).collect();
        }
        let moving = pod.moving.as_deref();
        let moving: Moving = moving.map(from_text).unwrap_or_default();
        let others = nodes.filter(|(name, node)| ***name != *self.name && !node.deleting);
        // An ignored one is a machine, too.
        let machines = others
            .filter(|(_, node)| node.runs_windows() && node.left_out != Some(LeftOut::Virtual));
        machines
            .filter(|(name, node)| moving.takes(name, node))
            .collect()
    }

    fn reasons_on(&self, key: &ObjectKey, pod: &Pod, name: &Name, node: &Node) -> BTreeSet<String> {
        let used = self.report.workloads.get(&WorkloadKey::pod(key.clone()));
        // Claims, volumes and classes that are not there are missing on every node.
        let findings = used.iter().flat_map(|used| &used.findings);
        let mut reasons: BTreeSet<String> = findings.map(|it| it.problem().to_owned()).collect();
        let rows = used.iter().flat_map(|used| &used.rows);
        for row in rows.filter(|row| !self.report.needs_no_driver(row)) {
            let what = row.named_as(" ");
            reasons.extend(match row.driver() {
                Some(driver) if self.cluster.is_registered(name, driver) => {
                    let is_down = self.is_down(name, driver);
                    is_down.map(|pod| {
                        format!("{what} needs {driver}, whose pod {pod} is not ready there")
                    })
                }
                Some(driver) => Some(format!(
                    "{what} needs {driver}, which is not registered there"
                )),
                None => row
                    .plugin()
                    .map(|plugin| format!("no CSI driver takes over {what} ({})", plugin.name)),
            });
        }
        for volume in &pod.volumes {
            let PodVolumeSource::Claim(claim) = &volume.source else {
                continue;
            };
            let claim = ObjectKey::new(key.namespace.clone(), claim.clone());
            let Some((of_volume, there)) = self.bound(&claim) else {
                continue;
            };
            let nodes = there
                .node_affinity
                .as_deref()
                .map(from_text::<NodeSelection>);
            if nodes.is_some_and(|nodes| !nodes.matches(name, &node.labels)) {
                reasons.insert(format!(
                    "PersistentVolume {of_volume} is not for that node (its nodeAffinity or zone)"
                ));
            }
            reasons.extend(self.taken(&claim, there.access, name));
        }
        reasons
    }

    /// Returns the driver's pod on the node if it has one there, and none that is ready.
    fn is_down(&self, node: &Name, driver: &str) -> Option<&ObjectKey> {
        let there = self.report.pods_on(self.cluster, node);
        let of_driver = there.into_iter().filter_map(|(key, pod)| {
            let side = pod.driver.as_deref()?;
            side.names.contains(driver).then_some((key, side.ready))
        });
        let pods: Vec<_> = of_driver.collect();
        let is_ready = pods.iter().any(|(_, ready)| *ready);
        pods.first().filter(|_| !is_ready).map(|(key, _)| *key)
    }

    fn bound(&self, claim: &ObjectKey) -> Option<(&Name, &PersistentVolume)> {
        let name = self.cluster.claims.get(claim)?.volume_name.as_ref()?;
        Some((name, self.cluster.volumes.get(name)?))
    }

    /// Returns who keeps a claim from being used on a node: a pod that stays elsewhere.
    fn taken(&self, claim: &ObjectKey, access: Access, name: &str) -> Option<String> {
        let (modes, shares_node) = match access {
            Access::Many => return None,
            Access::OneNode => ("ReadWriteOnce", true),
            Access::OnePod => ("ReadWriteOncePod", false),
        };
        let source = PodVolumeSource::Claim(claim.name.clone());
        let mut pods = self.cluster.pods.iter();
        let (pod, node) = pods.find_map(|(key, pod)| {
            let node = pod.node_name.as_deref()?;
            let stays = node != self.name && !(shares_node && node == name);
            let uses = key.namespace == claim.namespace
                && pod.volumes.iter().any(|volume| volume.source == source);
            (stays && uses).then_some((key, node))
        })?;
        Some(format!(
            "PersistentVolumeClaim {} is {modes}, and pod {pod} uses it on {node}",
            claim.name
        ))
    }
}
