//! The custom resources of this operator, and the parts that it uses of others'.

mod definitions;
mod node_pool;
mod operator_condition;
mod pools;
mod rollout;
mod values;
mod windows_node_storage;
mod windows_storage;

pub use definitions::custom_resource_definitions;
pub use node_pool::{NodePool, PoolManagement, PoolRollout, PoolSsh};
pub use operator_condition::{
    Condition as GateCondition, OperatorCondition, OperatorConditionStatus, UPGRADEABLE,
};
pub use rollout::{PoolRolloutStatus, RolloutSpec, RolloutStatus};
pub use values::PrivateKeySecretRef;
pub use windows_node_storage::{
    CsiProxyStatus, EXTERNAL, FailedUpdate, WindowsNodeStorage, WindowsNodeStorageSpec,
    WindowsNodeStorageStatus,
};
pub use windows_storage::{
    BlockingVolume, Counts, CsiProxySpec, ForeignService, HostKeys, Install, Management, SshSpec,
    UpgradeGate, UpgradedWhileHeld, WindowsStorage, WindowsStorageSpec, WindowsStorageStatus,
};

/// The group of the operator's own kinds.
pub const GROUP: &str = "windowsstorage.dev";

/// The name of the one `WindowsStorage` object.
pub const SETTINGS_NAME: &str = "cluster";
