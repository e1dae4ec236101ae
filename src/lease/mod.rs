//! Who acts, where several operators run: the one that holds the Lease, by client-go's protocol
//! (`k8s.io/client-go/tools/leaderelection`). All others stand by.
//!
//! The libraries for this say after a while that the lease is lost. Here whatever changes something, in the cluster or on
//! a node, goes past a [`Fence`] that closes by the clock alone, so that a process that was stopped for longer than its
//! lease changes nothing more when it wakes up, whichever of its tasks wakes up first.

mod election;
mod fence;
mod record;
mod timings;

pub use election::{Candidacy, Election, Lost, Standby};
pub use fence::{Closed, Fence};
pub use record::{Decision, Record};
pub use timings::{Timings, TimingsError};

/// The name of the Lease, in the operator's namespace.
pub const LEASE: &str = "windows-storage-operator";
