//! Finds out why a node has no pod of a driver.

use crate::assess::causes::{DaemonSet, Place, deploy, lacks_pods_of};
use crate::assess::report::Finding;
use crate::index::{ObjectKey, Taint};
use crate::visible::some_of;

/// How many DaemonSets that do not select a node are named, and how much of what their selectors want.
const NAMED: usize = 5;

impl Place<'_> {
    /// Returns why the node has no pod of the driver.
    pub(super) fn no_pod(&self) -> Vec<Finding> {
        let sets = self.sets_for_node();
        let Some(first) = sets.first() else {
            return self.no_daemon_set();
        };
        let selects = first.node_side.selects(self.name, self.node);
        let sets = sets.iter().take(if selects { 1 } else { NAMED });
        sets.flat_map(|set| self.no_pod_of(set)).collect()
    }

    fn no_pod_of(&self, set: &DaemonSet<'_>) -> Vec<Finding> {
        let unmet = set.node_side.unmet(self.name, self.node);
        let of_set = set.node_side.repelled_by(self.node);
        // The node needs fixing, not the DaemonSet.
        let of_node = set.node_side.kept_away_by(self.node);
        let mut findings = Vec::new();
        if !unmet.is_empty() {
            findings.push(self.not_selected(set, &unmet));
        }
        if !of_set.is_empty() {
            findings.push(self.not_tolerated(set, &of_set));
        }
        if !of_node.is_empty() {
            findings.push(finding!(
                NODE_NOT_READY,
                format!("Node/{}", self.name),
                "the node has the taint {}, which keeps the pod of DaemonSet {} of {} from it; fix the node first \
                 (kubectl describe node {})",
                texts(&of_node), set.key, self.driver, self.name
            ));
        }
        if findings.is_empty() {
            findings.push(self.pod_missing(set));
        }
        findings
    }

    fn not_selected(&self, set: &DaemonSet<'_>, unmet: &[String]) -> Finding {
        let ObjectKey { namespace, name } = set.key;
        finding!(
            DRIVER_POD_MISSING,
            set.object(),
            "DaemonSet {} of {} does not select the node: it wants {}; change the selector (kubectl edit daemonset -n {namespace} \
             {name}), label the node, or deploy one for such nodes",
            set.key,
            self.driver,
            some_of(unmet, NAMED)
        )
    }

    fn not_tolerated(&self, set: &DaemonSet<'_>, taints: &[&Taint]) -> Finding {
        let tolerations: Vec<String> = taints
            .iter()
            .map(|Taint { key, effect, .. }| {
                format!("{{key: {key}, operator: Exists, effect: {effect}}}")
            })
            .collect();
        finding!(
            TAINT_NOT_TOLERATED,
            set.object(),
            "DaemonSet {} of {} does not tolerate the taint {}; add to its spec.template.spec.tolerations: {}",
            set.key,
            self.driver,
            texts(taints),
            tolerations.join(", ")
        )
    }

    fn pod_missing(&self, set: &DaemonSet<'_>) -> Finding {
        let (driver, key) = (self.driver, set.key);
        let message = if lacks_pods_of(self.cluster, &key.namespace) {
            format!(
                "DaemonSet {key} brings {driver}, but the input has no pod of its namespace; add the output of kubectl \
                 get pods -n {} -o yaml",
                key.namespace
            )
        } else {
            format!(
                "DaemonSet {key} of {driver} has no pod here, and neither its selector nor a taint explains it; look at \
                 its events ({}) and for a pod of it that is pending",
                set.describe()
            )
        };
        finding!(DRIVER_POD_MISSING, set.object(), "{message}")
    }

    fn no_daemon_set(&self) -> Vec<Finding> {
        let driver = self.driver;
        let message = if let Some(brings) = self.perhaps() {
            format!(
                "no DaemonSet for Windows nodes names {driver}, and {brings}; if that is another driver, {}",
                deploy(driver)
            )
        } else if self.has_no_daemon_sets() {
            format!(
                "whether a DaemonSet brings {driver} cannot be seen, for the input has none; add the output of kubectl \
                 get daemonsets -A -o yaml"
            )
        } else {
            let others = match self.sets.others.first() {
                Some(set) => format!(" ({} is not for Windows)", set.key),
                None => String::new(),
            };
            format!(
                "no DaemonSet for Windows nodes brings {driver}{others}; {}",
                deploy(driver)
            )
        };
        let mut findings = self.not_ready_perhaps();
        findings.push(finding!(
            DAEMON_SET_MISSING,
            format!("CSIDriver/{driver}"),
            "{message}"
        ));
        findings
    }
}

fn texts(taints: &[&Taint]) -> String {
    let taints: Vec<String> = taints.iter().map(ToString::to_string).collect();
    taints.join(", ")
}
