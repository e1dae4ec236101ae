//! The types of the readiness report.

use std::iter;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::assess::redirection::Loss;

/// The report's `apiVersion`.
pub const API_VERSION: &str = "windowsstorage.dev/v1alpha1";
/// The report's `kind`.
pub const KIND: &str = "ReadinessReport";

/// The readiness report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReadinessReport {
    /// `windowsstorage.dev/v1alpha1`.
    pub api_version: String,
    /// `ReadinessReport`.
    pub kind: String,
    /// What was read, when, and by which version of this program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub about: Option<About>,
    /// The cluster that was judged.
    pub cluster: ClusterFacts,
    /// The target version, such as `1.27` or `4.14`; null for any future version.
    pub target: Option<String>,
    /// Whether the cluster may be upgraded.
    pub verdict: Verdict,
    /// The Windows nodes, sorted by name.
    pub nodes: Vec<NodeReadiness>,
    /// The volumes of Windows workloads that need a driver or are in-tree.
    pub volumes: Vec<VolumeUse>,
    /// The drivers that some Windows workload needs or some Windows node has, sorted by name.
    pub drivers: Vec<DriverReadiness>,
    /// Findings on the cluster as a whole.
    pub findings: Vec<Finding>,
}

impl ReadinessReport {
    /// The volumes that hold upgrades.
    pub fn blocking(&self) -> impl Iterator<Item = &VolumeUse> {
        self.volumes.iter().filter(|volume| volume.blocking)
    }
}

/// What a report is about. Nothing of it depends on the state of the cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct About {
    /// The address of the API server, if a cluster was read.
    pub server: Option<String>,
    /// The kubeconfig's context, if one was used.
    pub context: Option<String>,
    /// The files and folders that were read instead of a cluster, as given on the command line.
    pub files: Vec<String>,
    /// When they were read, as in RFC 3339, in UTC.
    pub time: String,
    /// The version of windows-storage-operator.
    pub version: String,
}

/// The cluster that was judged.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterFacts {
    /// The API server's version, or for files, the highest kubelet version.
    pub kubernetes_version: Option<String>,
    /// The number of Windows nodes.
    pub windows_nodes: usize,
}

/// Whether the cluster may be upgraded, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Verdict {
    /// True or False.
    pub upgradeable: Upgradeable,
    /// The reason code.
    pub reason: Reason,
    /// The message for people.
    pub message: String,
}

names! {
    /// A condition's status, without `Unknown`.
    #[derive(Serialize, Deserialize, JsonSchema)]
    pub enum Upgradeable {
        /// The upgrade may proceed.
        True,
        /// The upgrade is held.
        False,
    }
}

names! {
    /// The reason for the verdict.
    #[derive(Serialize, Deserialize, JsonSchema)]
    pub enum Reason {
        /// An input has not been read completely.
        ReadinessUnknown,
        /// There is no Windows node.
        NoWindowsNodes,
        /// No Windows workload uses an in-tree volume.
        NoInTreeVolumes,
        /// No CSI driver takes over a volume.
        NoCSIMigration,
        /// A Windows node has no CSINode object.
        CSINodeMissing,
        /// A driver that an in-tree volume needs is missing on a Windows node.
        DriversMissing,
        /// Every driver that in-tree volumes need is registered on every Windows node.
        DriversRegistered,
        /// The administrator accepts the risk.
        Override,
        /// In-tree plugins still serve the volumes at the target version. Only `check` returns this.
        InTreeServed,
        /// A node is being updated. Only the gate returns this.
        NodeOperationInProgress,
    }
}

impl Reason {
    /// The reasons that the operator's own assessment returns: all but those of `check` and the gate.
    pub const JUDGED: &[Self] = Self::ALL.split_at(Self::ALL.len() - 2).0;
}

/// The readiness of one Windows node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeReadiness {
    /// The node's name.
    pub name: String,
    /// Whether the node has a CSINode object.
    pub csi_node: bool,
    /// The drivers registered on the node.
    pub drivers: Vec<String>,
    /// The drivers that are needed but not registered on the node.
    pub missing_drivers: Vec<String>,
    /// Whether the CSINode exists, no driver is missing, and csi-proxy runs if needed (as far as known).
    pub ready: bool,
    /// The node's problems, and why drivers are missing on it.
    pub findings: Vec<Finding>,
    /// Whether csi-proxy must run on the node: a pod or DaemonSet uses its pipes, or the administrator requires it.
    #[serde(skip)]
    pub needs_csi_proxy: bool,
}

/// The readiness of one CSI driver.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DriverReadiness {
    /// The driver's name.
    pub name: String,
    /// The Windows nodes where the driver is registered.
    pub registered_on: Vec<String>,
    /// The Windows nodes where the driver is needed but not registered.
    pub missing_on: Vec<String>,
    /// The driver's DaemonSet for Windows nodes, as `namespace/name`.
    pub daemon_set: Option<String>,
    /// The csi-proxy pipes that the DaemonSet mounts, without `\\.\pipe\`.
    pub csi_proxy_pipes: Vec<String>,
    /// Why the driver is missing, and what to do about it.
    pub findings: Vec<Finding>,
}

/// A volume of a Windows workload.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VolumeUse {
    /// The workload that uses the volume.
    pub workload: Workload,
    /// The volume's name in the workload.
    pub volume: String,
    /// How it was found.
    pub source: Source,
    /// The claim, if any.
    pub persistent_volume_claim: Option<String>,
    /// The `PersistentVolume`, if the claim is bound.
    pub persistent_volume: Option<String>,
    /// The class that determines the driver, or that the claim names.
    pub storage_class: Option<String>,
    /// The in-tree plugin.
    pub plugin: Option<String>,
    /// The CSI driver that the volume needs.
    pub csi_driver: Option<String>,
    /// Whether the volume is in-tree.
    pub in_tree: bool,
    /// Whether the volume holds upgrades.
    pub blocking: bool,
    /// Whether the plugin is redirected or gone at the cluster's version: without its driver, the volume cannot be mounted
    /// already today. Null if that version is unknown or the volume is not in-tree.
    pub redirected: Option<bool>,
    /// When it is lost, if it is in-tree and the cluster's version is known.
    #[serde(skip)]
    pub loss: Option<Loss>,
    /// The Windows nodes where the volume's driver is missing.
    pub missing_on: Vec<String>,
}

/// A workload that uses a volume.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct Workload {
    /// The object's kind.
    pub kind: String,
    /// The object's namespace.
    pub namespace: String,
    /// The object's name.
    pub name: String,
}

/// How a volume was found.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
pub enum Source {
    /// In the pod's spec.
    Inline,
    /// Through a bound claim.
    PersistentVolume,
    /// Through the class of an unbound claim.
    StorageClass,
}

/// A problem or recommendation on an object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct Finding {
    /// A stable code for machines.
    pub code: String,
    /// The object: `Kind/namespace/name` or `Kind/name`.
    pub object: String,
    /// The problem and what to do. Ends with the command, if there is one.
    pub message: String,
    /// The next command to run, for a shell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
}

impl Finding {
    /// Creates a finding.
    pub fn new(code: &str, object: String, message: impl Into<String>) -> Self {
        Self {
            code: code.to_owned(),
            object,
            message: message.into(),
            command: None,
        }
    }

    /// Adds a command and more words of it to the end of the message; a second one runs after the first.
    pub fn run(mut self, command: &str, words: &[&str]) -> Self {
        let words = words.iter().map(|word| shell_word(word));
        let words: Vec<String> = iter::once(command.to_owned()).chain(words).collect();
        if self.message.ends_with('.') {
            self.message.pop();
        }
        let (joint, command) = match self.command.take() {
            Some(first) => (" && ", format!("{first} && {}", words.join(" "))),
            None => (": ", words.join(" ")),
        };
        self.message.push_str(joint);
        self.message.push_str(&words.join(" "));
        self.command = Some(command);
        self
    }

    /// Returns the message without the command.
    pub fn problem(&self) -> &str {
        let command = self.command.as_deref();
        let problem = command.and_then(|command| self.message.strip_suffix(command));
        problem.map_or(&*self.message, |problem| {
            problem.trim_end_matches([' ', ':'])
        })
    }

    /// Adds the nodes where the problem was found.
    pub fn on(mut self, nodes: &str) -> Self {
        self.message
            .insert_str(self.problem().len(), &format!(" (on {nodes})"));
        self
    }
}

/// Quotes a word for a shell if it needs that. Names in files may be anything.
fn shell_word(word: &str) -> String {
    let is_plain = |char: char| char.is_ascii_alphanumeric() || "-_./:=,@%+".contains(char);
    if !word.is_empty() && word.chars().all(is_plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_ends_the_message_and_stands_alone() {
        let finding = Finding::new("Code", "Pod/a/b".to_owned(), "it waits: see its events");
        assert_eq!(finding.problem(), finding.message);
        let finding = finding.run("kubectl describe pod", &["b"]);
        assert_eq!(
            finding.message,
            "it waits: see its events: kubectl describe pod b"
        );
        assert_eq!(finding.problem(), "it waits: see its events");
        let finding = finding.run("kubectl patch -p", &[r#"{"a":1}"#]);
        let command = r#"kubectl describe pod b && kubectl patch -p '{"a":1}'"#;
        assert_eq!(finding.command.as_deref(), Some(command));
        assert!(finding.message.ends_with(command));
        let finding = finding.on("win-1, win-2");
        assert_eq!(
            finding.problem(),
            "it waits: see its events (on win-1, win-2)"
        );
        assert!(
            finding
                .message
                .ends_with(&format!("(on win-1, win-2): {command}"))
        );
    }

    #[test]
    fn a_name_in_a_command_stays_one_word() {
        for (name, word) in [
            ("web-0.shop_1", "web-0.shop_1"),
            ("", "''"),
            ("a b", "'a b'"),
            ("$(reboot)", "'$(reboot)'"),
            ("a;b", "'a;b'"),
            ("it's", r"'it'\''s'"),
            ("ü", "'ü'"),
        ] {
            let finding = Finding::new("Code", String::new(), "do").run("ls", &[name]);
            assert_eq!(finding.command, Some(format!("ls {word}")));
        }
    }
}
