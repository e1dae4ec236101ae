//! One Windows node over SSH: who it is, how to get there, what to do next, and doing it.

mod acceptance;
mod actions;
mod algorithms;
mod answer;
mod desired;
mod error;
mod host_key;
mod instances;
mod known_hosts;
mod line;
mod look;
mod observation;
mod phases;
mod pins;
mod plan;
mod private_key;
mod rollout;
mod session;
mod spans;
mod transfer;
mod turns;
mod variables;
mod visit;
mod worker;

pub use acceptance::{NoWay, Offer, Way, judge_offer, shown_key};
pub use actions::Actions;
pub use answer::{answer, brief};
pub use desired::{NodePlan, Planner, Target};
pub use error::{NodeError, Reason, printable};
pub use host_key::{
    HOST_KEYS_CONFIG_MAP, HostKey, HostKeyPolicy, Judgement, first_contact, goes_with_node,
};
pub use instances::{INSTANCES_CONFIG_MAP, Instances, parse as parse_instances};
pub use known_hosts::{KNOWN_HOSTS, Known, KnownHosts};
pub use look::{look, state};
pub use observation::{Observation, Observations, restarts_since};
pub use phases::Phases;
pub use pins::Pins;
pub use plan::{Desired, is_working};
pub use private_key::{
    PASSPHRASE, PRIVATE_KEY, PrivateKey, SSH_SECRET, check as check_private_key,
};
pub use rollout::{Candidate, Halt, Limits, Rollout, Standing, rollout};
pub use session::{Cutter, Line, Output, Session};
pub use transfer::{Found, Part, ReadFailure, Sent};
pub use turns::Turns;
pub use visit::{Tools, Visited, describe_foreign, visit};
pub use worker::Workers;
