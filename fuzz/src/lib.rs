//! What holds of every input from outside. Each target takes any bytes and panics where something does not hold.
//!
//! `cargo test -p fuzz` gives every target its corpus, `make fuzz` lets libFuzzer look for inputs that nobody thought of.
//! One that fails goes into the corpus when the fault is mended.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a panic is how a target says that something does not hold"
)]

mod compare;
mod html;
mod targets;
mod yaml;

/// What is done with the bytes of an input.
pub type Target = fn(&[u8]);

/// All targets by name, each with a folder of that name in `corpus/`.
pub const TARGETS: [(&str, Target); 12] = [
    ("agent_answer", targets::agent_answer),
    ("agent_request", targets::agent_request),
    ("files", targets::files),
    ("journal", targets::journal),
    ("known_hosts", targets::known_hosts),
    ("lease", targets::lease),
    ("private_key", targets::private_key),
    ("redaction", targets::redaction),
    ("report", targets::report),
    ("services", targets::services),
    ("unpack", targets::unpack),
    ("words", targets::words),
];

/// The target of that name.
pub fn target(name: &str) -> Option<Target> {
    let found = TARGETS.iter().find(|(known, _)| *known == name);
    found.map(|(_, target)| *target)
}
