//! Manages Windows nodes over SSH: identification, connection, planning and the work itself.

mod acceptance;
mod algorithms;
mod answer;
mod connect;
mod desired;
mod error;
mod host;
mod host_key;
mod inspect;
mod known_hosts;
mod left_alone;
mod look;
mod management;
mod observation;
pub mod payload;
mod pins;
mod plan;
mod planner;
mod preflight;
mod private_key;
mod reconcile;
mod removal;
mod rollout;
mod session;
mod slots;
mod socket;
mod transfer;
mod worker;

#[cfg(test)]
mod tests;

pub use acceptance::{Way, judge_offer, shown_key};
pub use answer::{brief, parse as parse_answer};
pub use connect::{Connected, Cutter, HANDSHAKE, connect};
pub use error::{NodeError, Reason, printable};
pub use host::Host;
pub use host_key::{
    ACCEPTED, FIRST_CONTACT, HOST_KEYS_CONFIG_MAP, HostKey, HostKeyPolicy, Judgement,
    goes_with_node,
};
pub use inspect::{Trust, inspect, state};
pub use known_hosts::{KNOWN_HOSTS, Known, KnownHosts};
pub use left_alone::describe_foreign;
pub use look::{Look, UNKNOWN_OWNER};
pub use management::{
    Awaited, EXTERNAL, MANAGED, ManagedBy, Managers, NOT_NEEDED, OPERATOR, RELEASING, REMOVED,
    REMOVING,
};
pub use observation::{Observation, Observations, found_owner, restarts_since};
pub use pins::Pins;
pub use plan::{Desired, is_working};
pub use planner::{NodePlan, Planner, Purpose, Target, known_hosts};
pub use preflight::Preflight;
pub use private_key::{PrivateKey, check as check_private_key};
pub use reconcile::{Context, Reconciled, reconcile_node};
pub use removal::{Absence, Hold, Present, Removal, SSH_KEY_ACCEPTED, UNUSED_FOR, may_have_agent};
pub use rollout::{Candidate, Halt, PoolProgress, Rollout, RolloutLimits, Standing, grant};
pub use session::{Output, Session};
pub use slots::{RolloutSlots, Slot, State as SlotState};
pub use transfer::{Found, Part, ReadFailure};
pub use worker::Workers;
