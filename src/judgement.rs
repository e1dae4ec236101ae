//! The root of the crate `judgement` (`tests/judgement`): the rooms that judge, without a client, a runtime or a session.
//!
//! Mutation testing builds and tests a crate once for each mutant. This one takes seconds where the operator takes
//! minutes, and what is here cannot begin to ask a cluster or a node without its build failing. The operator's own root
//! is `lib.rs`; neither file knows of the other.
#![cfg(feature = "rooms")]
#![allow(
    dead_code,
    unused_imports,
    reason = "what these rooms offer to the others is not asked for here"
)]

pub mod api;
pub mod assess;
pub mod backoff;
pub mod index;
pub mod objects;
pub mod services;
pub mod visible;

/// What the condition shall say. Who writes it is left out.
pub mod gate {
    mod condition;
    mod operations;
    mod track;
    mod wanted;
}

/// Who may hold the lease. The election is left out.
pub mod lease {
    mod fence;
    mod record;
    mod timings;

    pub use timings::{Timings, TimingsError};
}

/// What to do next on a node, and whose turn it is. Who goes there is left out.
pub mod node {
    mod plan;
    mod rollout;
    mod turns;

    pub use plan::Desired;
}

// The oracle and its clusters, by the names that they have in `tests/readiness/main.rs`.
#[cfg(test)]
extern crate self as windows_storage_operator;
#[cfg(test)]
#[path = "../tests/readiness"]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod readiness {
    pub(crate) mod cases;
    pub(crate) mod engine;
    pub(crate) mod generate;
    pub(crate) mod oracle;
    pub(crate) mod run;
    pub(crate) mod trust;
}
#[cfg(test)]
use readiness::{cases, engine, generate, oracle, run};
