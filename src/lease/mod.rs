//! Leader election: of several operators, only the one that holds the Lease acts, by client-go's protocol
//! (`k8s.io/client-go/tools/leaderelection`). All others stand by.
//!
//! Libraries for leader election report a lost lease with a delay. Here, every change in the cluster or on a node has
//! to pass a [`Fence`] that closes by the clock alone. A process that was stopped for longer than its lease changes
//! nothing after it wakes up, whichever of its tasks wakes up first.

mod election;
mod fence;
mod record;

use std::time::Duration;

pub use election::{Election, Lost, Standby};
pub use fence::{Closed, Fence};
pub use record::{Decision, Record};

/// How long other candidates wait after the last observed renewal. This and the next two are client-go's defaults.
pub const LEASE_SECONDS: u16 = 15;
/// How long a leader acts after the start of its last successful renewal.
const RENEW_DEADLINE: Duration = Duration::from_secs(10);
/// The pause between two checks of the lease, and between two renewals.
const RETRY_PERIOD: Duration = Duration::from_secs(2);

/// Name of the Lease, in the operator's namespace.
pub const LEASE: &str = "windows-storage-operator";
