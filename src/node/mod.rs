//! One Windows node over SSH: who it is, how to get there, what to do next, and doing it.

mod actions;
mod algorithms;
mod desired;
mod error;
mod host_key;
mod instances;
mod known_hosts;
mod line;
mod pins;
mod plan;
mod private_key;
mod session;
mod transfer;
mod visit;
mod worker;

pub use desired::{Desired, NodePlan, Planner, Target};
pub use error::{NodeError, Reason, printable};
pub use host_key::{HOST_KEYS_CONFIG_MAP, HostKey, HostKeyPolicy, Judgement};
pub use instances::{INSTANCES_CONFIG_MAP, Instances, parse as parse_instances};
pub use known_hosts::{KNOWN_HOSTS, Known, KnownHosts};
pub use pins::Pins;
pub use private_key::{
    PASSPHRASE, PRIVATE_KEY, PrivateKey, SSH_SECRET, check as check_private_key,
};
pub use worker::{Observation, Observations, Workers};
