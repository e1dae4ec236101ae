//! Leader election: of several operators, only the one that holds the Lease acts, by client-go's protocol
//! (`k8s.io/client-go/tools/leaderelection`). All others stand by.
//!
//! Libraries for leader election report a lost lease with a delay. Here, every change in the cluster or on a node has
//! to pass a [`Fence`] that closes by the clock alone. A process that was stopped for longer than its lease changes
//! nothing after it wakes up, whichever of its tasks wakes up first.

mod election;
mod fence;
mod record;
mod timings;

pub use election::{Candidacy, Election, Lost, Standby};
pub use fence::{Closed, Fence};
pub use record::{Decision, Record};
pub use timings::{Timings, TimingsError};

/// Name of the Lease, in the operator's namespace.
pub const LEASE: &str = "windows-storage-operator";
