//! What a server holds against a client whose logins have failed: `PerSourcePenalties` of OpenSSH, as `servconf.c` has them
//! where nothing is configured. A simulated host has one client.

use std::time::{Duration, Instant};

/// For a login that failed, and for a connection that ended without any.
const FAILED: Duration = Duration::from_secs(5);
const NONE: Duration = Duration::from_secs(1);
/// From there on connections are refused, and more it does not become.
const FROM: Duration = Duration::from_secs(15);
const MOST: Duration = Duration::from_secs(600);
/// What is said in place of a greeting (`sshd.c`).
pub const REFUSAL: &[u8] = b"Not allowed at this time\r\n";

/// When all will be forgotten.
#[derive(Clone, Copy, Debug, Default)]
pub struct Penalty(Option<Instant>);

impl Penalty {
    /// A connection has ended in which nobody logged in.
    pub fn add(&mut self, has_tried: bool, now: Instant) {
        let more = if has_tried { FAILED } else { NONE };
        self.0 = Some(now + (self.left(now) + more).min(MOST));
    }

    /// Whether a connection is refused now.
    pub fn refuses(self, now: Instant) -> bool {
        self.left(now) > FROM
    }

    fn left(self, now: Instant) -> Duration {
        let until = self.0.unwrap_or(now);
        until.saturating_duration_since(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_failed_logins_close_the_door_for_a_while_and_not_for_ever() {
        let now = Instant::now();
        let mut penalty = Penalty::default();
        for _ in 0..3 {
            penalty.add(true, now);
            assert!(!penalty.refuses(now));
        }
        penalty.add(false, now);
        assert!(penalty.refuses(now));
        assert!(!penalty.refuses(now + NONE));
        for _ in 0..1000 {
            penalty.add(true, now);
        }
        assert!(penalty.refuses(now + Duration::from_secs(584)));
        assert!(!penalty.refuses(now + Duration::from_secs(585)));
    }
}
