//! The targets, by what they read.

mod agent;
mod cluster;
mod nodes;
mod redaction;
mod services;
mod words;

pub use agent::{agent_request, journal, unpack};
pub use cluster::{files, report};
pub use nodes::{agent_answer, known_hosts, lease, private_key};
pub use redaction::redaction;
pub use services::services;
pub use words::words;

/// What separates the parts of an input that has several.
const SEPARATOR: &str = "\n===\n";

/// The parts of a text; those that are not there are empty.
fn parts<const N: usize>(bytes: &[u8]) -> [String; N] {
    let text = String::from_utf8_lossy(bytes);
    let mut parts = text.splitn(N, SEPARATOR).map(str::to_owned);
    std::array::from_fn(|_| parts.next().unwrap_or_default())
}
