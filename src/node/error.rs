//! Errors of work on a node, with the next action for each.

use protocol::{Failure, FailureCategory};

use crate::visible::is_hidden;

/// Where the logs are that say more.
pub const LOGS: &str = r"see C:\var\log\csi-proxy and C:\var\log\windows-storage-agent on the node";
/// How to let a blocked program run, whether or not the change was rolled back.
const BLOCKED: &str = r"; application control or a virus scanner on the node does this: compare that sha256 with payload.json of the image, then allow it there, or exclude C:\k\windows-storage and the program from the scans";

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
        /// The connection was lost, files could not be sent, or the work took longer than its time limit.
        TransferFailed,
        /// The programs for nodes, which ship with the operator, were changed or damaged.
        PayloadUnusable,
        /// No space is left on the node.
        DiskFull,
        /// The agent could not be installed or removed, or does not answer.
        AgentFailed,
        /// csi-proxy does not run, or does not answer on all of its pipes.
        CSIProxyFailed,
        /// csi-proxy does not stay up.
        CrashLoop,
        /// Application control or a virus scanner on the node keeps a program from running.
        ProgramBlocked,
        /// A csi-proxy that is not this operator's runs on the node.
        ForeignCSIProxy,
        /// The new csi-proxy did not work, and the old one was restored.
        RolledBack,
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
}

impl Reason {
    /// Creates an error with this reason. Replaces characters that a terminal would act on, so that it can be shown anywhere.
    pub fn error(self, message: impl AsRef<str>) -> NodeError {
        NodeError {
            reason: self,
            message: printable(message.as_ref()),
        }
    }
}

impl NodeError {
    /// Creates an error from a failure that the agent reported. What has no remedy of its own gets the reason `otherwise`;
    /// whatever was rolled back is told as that.
    pub fn from_agent(failure: &Failure, otherwise: Reason) -> Self {
        let blocked = match failure.category {
            FailureCategory::Blocked => BLOCKED,
            _ => "",
        };
        let said = format!("{}{blocked}", failure.message);
        match failure.category {
            _ if otherwise == Reason::RolledBack => Reason::RolledBack.error(format!(
                "the update failed and was rolled back: {said}; it is retried after spec.rollout.resume of WindowsStorage changes"
            )),
            FailureCategory::DiskFull => Reason::DiskFull.error(format!(
                "no space left on the node: {said}; free some space on drive C:"
            )),
            FailureCategory::BadUpload => Reason::TransferFailed.error(format!(
                "an upload was incomplete and was not used: {said}"
            )),
            FailureCategory::InvalidRequest => Reason::InvalidServices
                .error(format!("the agent refused the request: {said}")),
            FailureCategory::AccessDenied => Reason::AgentFailed.error(format!(
                "access denied: {said}; check that the SSH user is an administrator of the node"
            )),
            FailureCategory::Untrusted => Reason::AgentFailed.error(said),
            FailureCategory::Blocked => {
                Reason::ProgramBlocked.error(format!("a program is kept from running: {said}"))
            }
            FailureCategory::Foreign => Reason::ForeignCSIProxy.error(format!(
                "{said}; remove it, or set spec.csiProxy.foreignService of WindowsStorage to Replace if it is a service named csi-proxy, or spec.csiProxy.management to External if another owner manages csi-proxy"
            )),
            FailureCategory::Interrupted | FailureCategory::Other => {
                otherwise.error(format!("{said}; {LOGS}"))
            }
        }
    }
}

/// Replaces invisible characters and those that a terminal would act on, and truncates the text to a length that
/// conditions and events can carry.
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
    fn a_failure_has_the_reason_of_its_remedy_and_otherwise_that_of_the_work() {
        use Reason::{AgentFailed, CSIProxyFailed, RolledBack};
        for (category, reasons) in [
            (FailureCategory::Other, [AgentFailed, CSIProxyFailed]),
            (FailureCategory::Interrupted, [AgentFailed, CSIProxyFailed]),
            (FailureCategory::AccessDenied, [AgentFailed, AgentFailed]),
            (FailureCategory::DiskFull, [Reason::DiskFull; 2]),
            (FailureCategory::BadUpload, [Reason::TransferFailed; 2]),
        ] {
            let failure = category.failure("pipe x");
            let reason = |otherwise| NodeError::from_agent(&failure, otherwise).reason;
            assert_eq!([AgentFailed, CSIProxyFailed].map(reason), reasons);
            assert_eq!(reason(RolledBack), RolledBack, "{category:?}");
        }
    }

    #[test]
    fn what_others_may_change_is_told_with_its_own_remedy_alone() {
        let told = |category: FailureCategory| {
            let failure = category.failure("x belongs to y; take it back");
            NodeError::from_agent(&failure, Reason::AgentFailed)
        };
        let untrusted = told(FailureCategory::Untrusted);
        assert_eq!(untrusted.message, "x belongs to y; take it back");
        assert_eq!(untrusted.reason, Reason::AgentFailed);
        let denied = told(FailureCategory::AccessDenied).message;
        assert!(denied.contains("SSH user is an administrator"), "{denied}");
    }

    #[test]
    fn what_is_blocked_says_how_to_let_it_through_also_where_it_was_undone() {
        let failure = FailureCategory::Blocked.failure("starting x; blocked: y with sha256 abc");
        for (otherwise, reason) in [
            (Reason::CSIProxyFailed, Reason::ProgramBlocked),
            (Reason::RolledBack, Reason::RolledBack),
        ] {
            let error = NodeError::from_agent(&failure, otherwise);
            assert_eq!(error.reason, reason);
            for words in ["y with sha256 abc", "compare that sha256", "virus scanner"] {
                assert!(error.message.contains(words), "{error}");
            }
        }
    }
}
