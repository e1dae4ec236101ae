//! Finds out why a node has no pod of a driver.

use serde_json::{Value, json};

use crate::assess::causes::on_node::BUILD_LABEL;
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
        let unmet = set.node_side.selection.unmet(self.name, &self.node.labels);
        // Where a taint passes, the node needs fixing, not the DaemonSet.
        let (of_set, of_node) = set.node_side.not_tolerated(self.node);
        let mut findings = Vec::new();
        if !unmet.is_empty() {
            findings.push(self.not_selected(set, &unmet));
        }
        findings.extend(self.not_in_namespace(set));
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
            .run("kubectl describe node", &[self.name]));
        }
        if findings.is_empty() {
            findings.push(self.pod_missing(set));
        }
        findings
    }

    fn not_selected(&self, set: &DaemonSet<'_>, unmet: &[String]) -> Finding {
        // A label that says what the node is cannot be another one.
        let is_of_windows = unmet.iter().all(|it| it.contains(BUILD_LABEL));
        let remedy = if is_of_windows {
            "deploy one whose images are for this build of Windows"
        } else {
            "label the node, deploy one for such nodes, or change the selector"
        };
        let finding = finding!(
            DRIVER_POD_MISSING,
            set.object(),
            "DaemonSet {} of {} does not select the node: it wants {}; {remedy}",
            set.key,
            self.driver,
            some_of(unmet, NAMED)
        );
        if is_of_windows {
            return finding;
        }
        finding.run("kubectl edit daemonset", &set.key.words())
    }

    /// Reports what the namespace's node selector, which is added to the DaemonSet's, wants and the node does not have.
    fn not_in_namespace(&self, set: &DaemonSet<'_>) -> Option<Finding> {
        let ObjectKey { namespace, name } = set.key;
        let added = self.cluster.namespaces.get(namespace)?;
        let unmet = added.unmet(self.name, &self.node.labels);
        if unmet.is_empty() {
            return None;
        }
        let finding = finding!(
            DRIVER_POD_MISSING,
            set.object(),
            "namespace {namespace} adds a node selector to the pods of DaemonSet {name}: it wants {}; empty it, or deploy {} in a \
             namespace without one",
            some_of(&unmet, NAMED),
            self.driver
        );
        let empty = "openshift.io/node-selector=";
        Some(finding.run(
            "kubectl annotate namespace",
            &[namespace, empty, "--overwrite"],
        ))
    }

    fn not_tolerated(&self, set: &DaemonSet<'_>, taints: &[&Taint]) -> Finding {
        let finding = finding!(
            TAINT_NOT_TOLERATED,
            set.object(),
            "DaemonSet {} of {} does not tolerate the taint {}; add a toleration",
            set.key,
            self.driver,
            texts(taints)
        );
        let patch = tolerate(set, taints).to_string();
        let words = [&set.key.words()[..], &["--type=json", "-p", &patch]].concat();
        finding.run("kubectl patch daemonset", &words)
    }

    fn pod_missing(&self, set: &DaemonSet<'_>) -> Finding {
        let (driver, key) = (self.driver, set.key);
        if lacks_pods_of(self.cluster, &key.namespace) {
            let finding = finding!(
                DRIVER_POD_MISSING,
                set.object(),
                "DaemonSet {key} brings {driver}, but the input has no pod of its namespace; add what this prints"
            );
            return finding.run("kubectl get pods -n", &[&key.namespace, "-o", "yaml"]);
        }
        let finding = finding!(
            DRIVER_POD_MISSING,
            set.object(),
            "DaemonSet {key} of {driver} has no pod here, and neither its selector nor a taint explains it; look for a \
             pod of it that is pending, and at its events"
        );
        finding.run("kubectl describe daemonset", &key.words())
    }

    fn no_daemon_set(&self) -> Vec<Finding> {
        let driver = self.driver;
        let object = format!("CSIDriver/{driver}");
        let message = if let Some(brings) = self.perhaps() {
            format!(
                "no DaemonSet for Windows nodes names {driver}, and {brings}; if that is another driver, {}",
                deploy(driver)
            )
        } else if self.may_lack_daemon_sets() {
            let finding = finding!(
                DAEMON_SET_MISSING,
                object,
                "whether a DaemonSet brings {driver} cannot be seen: the input may lack it; add what this prints"
            );
            return vec![finding.run("kubectl get daemonsets,pods -A -o yaml", &[])];
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
        findings.push(finding!(DAEMON_SET_MISSING, object, "{message}"));
        findings
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
