//! Penalties of a server for a client whose logins have failed: OpenSSH's `PerSourcePenalties` with the defaults from
//! `servconf.c`. A simulated host has only one client.

use std::time::{Duration, Instant};

/// Penalties for a failed login, and for a connection without any login attempt.
const FAILED: Duration = Duration::from_secs(5);
const NONE: Duration = Duration::from_secs(1);
/// Connections are refused above this penalty; the second value is the maximum penalty.
const FROM: Duration = Duration::from_secs(15);
const MOST: Duration = Duration::from_secs(600);
/// Sent in place of a greeting (`sshd.c`).
pub const REFUSAL: &[u8] = b"Not allowed at this time\r\n";

/// The time at which the penalty ends.
#[derive(Clone, Copy, Debug, Default)]
pub struct Penalty(Option<Instant>);

impl Penalty {
    /// Adds the penalty for a connection that ended without a successful login.
    pub fn add(&mut self, has_tried: bool, now: Instant) {
        let more = if has_tried { FAILED } else { NONE };
        self.0 = Some(now + (self.left(now) + more).min(MOST));
    }

    /// Returns whether connections are currently refused.
    pub fn refuses(self, now: Instant) -> bool {
        self.left(now) > FROM
    }

    fn left(self, now: Instant) -> Duration {
        let until = self.0.unwrap_or(now);
        until.saturating_duration_since(now)
    }
}
