//! Finds out why a node has no pod of a driver.

use serde_json::{Value, json};

use crate::assess::causes::{DaemonSet, Place, deploy, lacks_pods_of};
use crate::assess::report::Finding;
use crate::index::Taint;

impl Place<'_> {
    /// Returns why the node has no pod of the driver.
    pub(super) fn no_pod(&self) -> Vec<Finding> {
        let sets = self.sets.windows.iter();
        // The DaemonSet with the fewest untolerated taints on this node.
        let nearest = sets
            .map(|set| (set, set.node_side.repelled_by(self.node)))
            .min_by_key(|(_, taints)| taints.len());
        let Some((set, of_set)) = nearest else {
            return vec![self.no_daemon_set()];
        };
        // The node needs fixing, not the DaemonSet.
        let of_node = set.node_side.kept_away_by(self.node);
        if of_set.is_empty() && of_node.is_empty() {
            return vec![self.pod_missing(set)];
        }
        let mut findings = Vec::new();
        if !of_set.is_empty() {
            findings.push(self.not_tolerated(set, &of_set));
        }
        if !of_node.is_empty() {
            findings.push(finding!(
                NODE_NOT_READY,
                format!("Node/{}", self.name),
                "the node has the taint {}, which keeps the pod of DaemonSet {} of {} from it; fix the node first",
                texts(&of_node), set.key, self.driver
            )
            .run(&["kubectl", "describe", "node", self.name]));
        }
        findings
    }

    fn not_tolerated(&self, set: &DaemonSet<'_>, taints: &[&Taint]) -> Finding {
        let tolerations: Vec<String> = taints
            .iter()
            .map(|Taint { key, effect, .. }| {
                format!("{{key: {key}, operator: Exists, effect: {effect}}}")
            })
            .collect();
        let finding = finding!(
            TAINT_NOT_TOLERATED,
            set.object(),
            "DaemonSet {} of {} does not tolerate the taint {}; add to its spec.template.spec.tolerations: {}",
            set.key,
            self.driver,
            texts(taints),
            tolerations.join(", ")
        );
        set.patch(finding, "json", &tolerate(set, taints))
    }

    fn pod_missing(&self, set: &DaemonSet<'_>) -> Finding {
        let (driver, key) = (self.driver, set.key);
        if lacks_pods_of(self.cluster, &key.namespace) {
            let finding = finding!(
                DRIVER_POD_MISSING,
                set.object(),
                "DaemonSet {key} brings {driver}, but the input has no pod of its namespace; add what this prints"
            );
            return finding.run(&["kubectl", "get", "pods", "-n", &key.namespace, "-o", "yaml"]);
        }
        let finding = finding!(
            DRIVER_POD_MISSING,
            set.object(),
            "DaemonSet {key} of {driver} has no pod here, and no taint explains it; compare its node selector and \
             affinity with the node's labels, and look for a pod of it that is pending, and at its events"
        );
        finding.run(&set.describe())
    }

    fn no_daemon_set(&self) -> Finding {
        let driver = self.driver;
        let object = format!("CSIDriver/{driver}");
        if let Some(why) = self.unseen_daemon_sets() {
            let finding = finding!(
                DAEMON_SET_MISSING,
                object,
                "whether a DaemonSet brings {driver} cannot be seen, for {why}; add what this prints"
            );
            return finding.run(&["kubectl", "get", "daemonsets,pods", "-A", "-o", "yaml"]);
        }
        let others = match self.sets.others.first() {
            Some(set) => format!(" ({} is not for Windows)", set.key),
            None => String::new(),
        };
        finding!(
            DAEMON_SET_MISSING,
            object,
            "no DaemonSet for Windows nodes brings {driver}{others}; {}",
            deploy(driver)
        )
    }
}

/// Returns the patch that adds a toleration of each taint to a DaemonSet.
fn tolerate(set: &DaemonSet<'_>, taints: &[&Taint]) -> Value {
    const LIST: &str = "/spec/template/spec/tolerations";
    let new = taints.iter().map(
        |Taint { key, effect, .. }| json!({"key": key, "operator": "Exists", "effect": effect}),
    );
    if set.node_side.tolerations.is_empty() {
        json!([{"op": "add", "path": LIST, "value": new.collect::<Vec<_>>()}])
    } else {
        let path = format!("{LIST}/-");
        let add = new.map(|new| json!({"op": "add", "path": path, "value": new}));
        add.collect()
    }
}

fn texts(taints: &[&Taint]) -> String {
    let taints: Vec<String> = taints.iter().map(ToString::to_string).collect();
    taints.join(", ")
}
