//! The errors of reading and writing the gate.

use crate::client::deadline::CallError;

/// Why the gate could not be set. It keeps its last state, which is never `True` by mistake.
#[derive(Debug, thiserror::Error)]
pub enum GateError {
    /// OLM has not created the object yet, or the name is wrong.
    #[error(
        "there is no OperatorCondition {0}: OLM makes it together with the CSV; check OPERATOR_CONDITION_NAME or --operator-condition and the namespace"
    )]
    NotFound(String),
    /// The cluster does not serve the kind.
    #[error(
        "the cluster does not serve OperatorCondition in operators.coreos.com/v2: OLM is not installed, or too old for it. Without OLM run the operator without OPERATOR_CONDITION_NAME and --operator-condition: the verdict is in WindowsStorage as well"
    )]
    NotServed,
    /// The permission is missing.
    #[error(
        "OperatorCondition {0} may not be read or written ({1}): OLM gives get, update and patch on it to the ServiceAccount of the CSV; is the operator running as that?"
    )]
    Forbidden(String, String),
    /// It belongs to the CSV of another operator, whose upgrades it would hold.
    #[error(
        "OperatorCondition {0} belongs to ClusterServiceVersion {1}, which is another operator's, so it is not written: OLM sets OPERATOR_CONDITION_NAME for this operator; leave --operator-condition out"
    )]
    NotOurs(String, String),
    /// A call failed, or other clients changed it at every attempt.
    #[error(transparent)]
    Call(CallError),
}

impl GateError {
    /// Returns the machine-readable reason.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::NotFound(_) => "NotFound",
            Self::NotServed => "NotServed",
            Self::Forbidden(..) => "Forbidden",
            Self::NotOurs(..) => "NotOurs",
            Self::Call(_) => "WriteFailed",
        }
    }
}
