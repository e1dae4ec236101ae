//! Errors of work on a node, with the next action for each.

use protocol::{Failure, FailureCategory};

use crate::visible::is_hidden;

readiness::names! {
    /// A reason from a fixed set, for metrics, conditions and events.
    #[derive(PartialOrd, Ord, Hash)]
    pub enum Reason {
        /// The Secret with the SSH key is missing, or lacks its key.
        CredentialsMissing,
        /// The Secret does not hold a usable private key.
        InvalidPrivateKey,
        /// The `windows-services` ConfigMap is invalid.
        InvalidServices,
        /// The payload's csi-proxy is too old to be trusted.
        VulnerableVersion,
        /// The payload's csi-proxy is not the version that the administrator wants.
        OtherVersion,
        /// The Node object has no address.
        NoAddress,
        /// No connection to the node.
        Unreachable,
        /// The host key is not the pinned one.
        HostKeyChanged,
        /// The host key is unknown, and first use is not trusted.
        HostKeyUnknown,
        /// A new host key could not be stored.
        HostKeyNotStored,
        /// The server refused the login.
        LoginRefused,
        /// The connection was lost, or files could not be sent.
        TransferFailed,
        /// The programs for nodes, which ship with the operator, were changed or damaged.
        PayloadUnusable,
        /// No space is left on the node.
        DiskFull,
        /// The agent could not be installed or does not answer.
        AgentFailed,
        /// The agent could not start csi-proxy.
        CSIProxyFailed,
        /// csi-proxy does not stay up.
        CrashLoop,
        /// Application control or a virus scanner on the node keeps a program from running.
        ProgramBlocked,
        /// A csi-proxy that is not this operator's runs on the node.
        ForeignCSIProxy,
        /// The new csi-proxy did not work, and the old one was restored.
        RolledBack,
        /// Work took longer than its deadline.
        TimedOut,
    }
}

/// A failure of work on a node.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct NodeError {
    /// The reason, from a fixed set.
    pub reason: Reason,
    /// What happened and what to do, without control characters.
    pub message: String,
    /// The phase of the reconcile in which it happened.
    pub phase: Option<&'static str>,
}

impl Reason {
    /// Creates an error with this reason. Replaces characters that a terminal would act on, so that it can be shown anywhere.
    #[must_use]
    pub fn error(self, message: impl AsRef<str>) -> NodeError {
        NodeError {
            reason: self,
            message: printable(message.as_ref()),
            phase: None,
        }
    }
}

impl NodeError {
    /// Sets the phase of the reconcile, unless a more specific one is set.
    #[must_use]
    pub fn in_phase(mut self, phase: &'static str) -> Self {
        self.phase.get_or_insert(phase);
        self
    }

    /// Creates an error from a failure that the agent reported.
    #[must_use]
    pub fn from_agent(failure: &Failure, rolled_back: bool) -> Self {
        let advice = advice(failure.category);
        let said = format!("{}{advice}", failure.message);
        match failure.category {
            _ if rolled_back => Reason::RolledBack.error(format!(
                "the update failed and was rolled back: {said}; it is retried after spec.rollout.resume of WindowsStorage changes"
            )),
            FailureCategory::DiskFull => Reason::DiskFull.error(format!(
                "no space left on the node: {said}; free some space on drive C:"
            )),
            FailureCategory::HashMismatch | FailureCategory::UploadMissing => {
                Reason::TransferFailed.error(format!(
                    "an upload was incomplete and was not used: {said}"
                ))
            }
            FailureCategory::InvalidRequest => {
                Reason::InvalidServices.error(format!(
                    "the agent refused the request: {said}"
                ))
            }
            FailureCategory::AgentUnavailable => {
                Reason::AgentFailed.error(format!("the agent's service does not answer: {said}"))
            }
            FailureCategory::AccessDenied => Reason::AgentFailed.error(format!(
                "access denied: {said}; check that the SSH user is an administrator of the node"
            )),
            FailureCategory::BlockedByPolicy | FailureCategory::BlockedByScanner => {
                Reason::ProgramBlocked.error(format!("a program is kept from running: {said}"))
            }
            FailureCategory::Foreign => Reason::ForeignCSIProxy.error(format!(
                "{said}; remove it, or set spec.csiProxy.foreignService of WindowsStorage to Replace if it is a service named csi-proxy, or spec.csiProxy.management to External if another owner manages csi-proxy"
            )),
            FailureCategory::ServiceStart
            | FailureCategory::ServiceStop
            | FailureCategory::FileInUse
            | FailureCategory::PipesMissing
            | FailureCategory::PipesHeld
            | FailureCategory::Interrupted
            | FailureCategory::Internal => Reason::CSIProxyFailed.error(format!(
                "{said}; see C:\\var\\log\\csi-proxy and C:\\var\\log\\windows-storage-agent on the node"
            )),
        }
    }
}

/// Returns how to unblock a blocked program, whether or not the change was rolled back.
fn advice(category: FailureCategory) -> &'static str {
    match category {
        FailureCategory::BlockedByPolicy => {
            "; application control on the node does this: allow that sha256 in its policy, or sign the program and allow the \
             signer"
        }
        FailureCategory::BlockedByScanner => {
            "; a virus scanner on the node does this: compare that sha256 with payload.json of the image, then let the scanner \
             allow it, or exclude C:\\k\\windows-storage and the program"
        }
        _ => "",
    }
}

/// Replaces invisible characters and those that a terminal would act on, and truncates the text to a length that
/// conditions and events can carry.
#[must_use]
pub fn printable(text: &str) -> String {
    const MOST: usize = 2500;
    let visible = |c: char| if is_hidden(c) { ' ' } else { c };
    let mut short: String = text.trim().chars().map(visible).take(MOST).collect();
    if text.trim().chars().count() > MOST {
        short.push('…');
    }
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_node_says_cannot_steer_a_terminal() {
        let error = Reason::AgentFailed.error("a\u{1b}[2Jb\r\nc\u{202e}d");
        assert_eq!(error.message, "a [2Jb  c d");
        assert!(printable(&"x".repeat(5000)).chars().count() <= 2501);
    }

    #[test]
    fn a_rollback_is_named_as_one_whatever_its_cause() {
        let failure = FailureCategory::PipesMissing.failure("pipe x");
        let reason = |rolled_back| NodeError::from_agent(&failure, rolled_back).reason;
        assert_eq!(reason(true), Reason::RolledBack);
        assert_eq!(reason(false), Reason::CSIProxyFailed);
    }

    #[test]
    fn what_is_blocked_says_how_to_let_it_through_also_where_it_was_undone() {
        for (category, words) in [
            (
                FailureCategory::BlockedByPolicy,
                "allow that sha256 in its policy",
            ),
            (FailureCategory::BlockedByScanner, "virus scanner"),
        ] {
            let failure = category.failure("starting x; blocked: y with sha256 abc");
            for (rolled_back, reason) in
                [(false, Reason::ProgramBlocked), (true, Reason::RolledBack)]
            {
                let error = NodeError::from_agent(&failure, rolled_back);
                assert_eq!(error.reason, reason);
                assert!(error.message.contains("y with sha256 abc"), "{error}");
                assert!(error.message.contains(words), "{error}");
            }
        }
    }
}
