//! The custom resources of this operator, and the parts that it uses of others'.

mod operator_condition;
mod windows_node_storage;
mod windows_storage;

use kube::CustomResourceExt;

pub use operator_condition::{
    Condition as GateCondition, OperatorCondition, OperatorConditionStatus, UPGRADEABLE,
};
pub use windows_node_storage::{
    CsiProxyStatus, FailedUpdate, WindowsNodeStorage, WindowsNodeStorageSpec,
    WindowsNodeStorageStatus,
};
pub use windows_storage::{
    Counts, CsiProxyNeed, CsiProxySpec, ForeignService, HostKeys, LogLevel, Management,
    RolloutSpec, RolloutStatus, SshSpec, UpgradeGate, WindowsStorage, WindowsStorageSpec,
    WindowsStorageStatus,
};

/// The group of the operator's own kinds.
pub const GROUP: &str = "windowsstorage.dev";

/// The name of the one `WindowsStorage` object.
pub const SETTINGS_NAME: &str = "cluster";

/// The operator's custom resource definitions with the file name of each.
///
/// # Panics
/// Never: the definitions are data of this program that always serialize.
#[must_use]
pub fn custom_resource_definitions() -> [(String, String); 2] {
    [WindowsStorage::crd(), WindowsNodeStorage::crd()].map(|crd| {
        #[expect(
            clippy::expect_used,
            reason = "a definition made by the derive macro always serializes"
        )]
        let text = serde_yaml::to_string(&crd).expect("a CRD serializes");
        (format!("{GROUP}_{}.yaml", crd.spec.names.plural), text)
    })
}
