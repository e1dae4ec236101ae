//! Limits how often the verdict's message changes. Whether upgrades may proceed is announced at once; the reason and
//! the wording are rate-limited. Pure, except for the time passed in.

use std::time::{Duration, Instant};

use crate::assess::BlockingVolumes;
use crate::assess::report::{Reason, Verdict};

/// The shortest time between two messages of the same verdict. It doubles with each message.
const PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// After this time without a new message, the pauses start over.
const QUIET: Duration = Duration::from_secs(120);

/// A verdict, and the volumes that hold upgrades because of it.
type Announced = (Verdict, BlockingVolumes);

/// Rate-limits the announced verdict: if pods come and go all the time, its message would change at each pass, and
/// three objects would be written for it.
#[derive(Debug, Default)]
pub struct MessageThrottle {
    /// The announced verdict.
    pub announced: Option<Announced>,
    /// Since when it is announced, and how often its message changed before.
    since: Option<Instant>,
    changes: u32,
    /// When a new message is due, if there is one.
    pub due: Option<Instant>,
}

impl MessageThrottle {
    /// Returns what to announce if `now_true` is the current verdict.
    pub fn update(&mut self, now_true: Announced, now: Instant) -> &Announced {
        self.due = None;
        let changes = match &self.announced {
            Some(before) if *before == now_true => None,
            Some(before) if is_alike(&before.0, &now_true.0) => {
                self.due = self.next().filter(|next| now < *next);
                let was_quiet = self.since.is_none_or(|since| now >= since + QUIET);
                let changes = if was_quiet { 1 } else { self.changes + 1 };
                self.due.is_none().then_some(changes)
            }
            _ => Some(0),
        };
        if let Some(changes) = changes {
            self.changes = changes;
            self.since = Some(now);
            self.announced = Some(now_true.clone());
        }
        self.announced.get_or_insert(now_true)
    }

    fn next(&self) -> Option<Instant> {
        let earlier = self.changes.checked_sub(1)?;
        let pause = PAUSE.saturating_mul(1 << earlier.min(16));
        Some(self.since? + pause.min(LONGEST_PAUSE))
    }
}

/// Returns whether two verdicts differ only in their message, or in a reason that is a matter of wording.
fn is_alike(before: &Verdict, after: &Verdict) -> bool {
    let is_known = |verdict: &Verdict| verdict.reason != Reason::ReadinessUnknown;
    before.upgradeable == after.upgradeable && is_known(before) == is_known(after)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::assess::report::Upgradeable;

    fn announced(reason: Reason, count: usize) -> Announced {
        let verdict = Verdict {
            upgradeable: match reason {
                Reason::DriversRegistered => Upgradeable::True,
                _ => Upgradeable::False,
            },
            reason,
            message: format!("{count} volumes"),
        };
        let blocking = BlockingVolumes {
            count,
            ..BlockingVolumes::default()
        };
        (verdict, blocking)
    }

    struct Rig {
        throttle: MessageThrottle,
        start: Instant,
    }

    impl Rig {
        fn new() -> Self {
            let throttle = MessageThrottle::default();
            let start = Instant::now();
            Self { throttle, start }
        }

        /// Returns whether this is announced at once, that many milliseconds after the start.
        fn says(&mut self, milliseconds: u64, reason: Reason, blocking: usize) -> bool {
            let now = self.start + Duration::from_millis(milliseconds);
            let new = announced(reason, blocking);
            *self.throttle.update(new.clone(), now) == new
        }

        /// Returns how many blocking volumes are announced.
        fn at(&mut self, milliseconds: u64, blocking: usize) -> usize {
            self.says(milliseconds, Reason::DriversMissing, blocking);
            self.throttle.announced.as_ref().unwrap().1.count
        }
    }

    #[test]
    fn another_verdict_is_announced_at_once_and_so_is_its_first_other_message() {
        let mut rig = Rig::new();
        assert_eq!(rig.at(0, 1), 1);
        assert!(rig.says(0, Reason::DriversRegistered, 0));
        assert_eq!(rig.at(0, 3), 3);
        assert_eq!(rig.at(0, 4), 4, "the first other message");
        assert!(rig.says(0, Reason::DriversRegistered, 0));
        assert_eq!(rig.throttle.due, None);
    }

    #[test]
    fn what_is_known_at_last_is_announced_at_once_however_often_it_was_unknown_before() {
        let mut rig = Rig::new();
        for step in 0..5 {
            rig.says(0, Reason::ReadinessUnknown, step);
        }
        assert!(rig.says(0, Reason::DriversMissing, 5));
        assert!(rig.says(0, Reason::ReadinessUnknown, 6));
    }

    #[test]
    fn a_reason_that_alternates_is_announced_less_and_less_often() {
        let mut rig = Rig::new();
        let reasons = [Reason::DriversMissing, Reason::NoCSIMigration];
        let mut changes = 0;
        for (step, reason) in (0..1_000).zip(reasons.into_iter().cycle()) {
            let before = rig.throttle.announced.clone();
            rig.says(10 * step, reason, 1);
            changes += usize::from(before != rig.throttle.announced);
        }
        assert!((2..8).contains(&changes), "{changes}");
    }

    #[test]
    fn messages_that_change_all_the_time_are_announced_less_and_less_often_but_are_announced() {
        let mut rig = Rig::new();
        let mut changes = Vec::new();
        for step in 0..10_000 {
            if rig.says(
                step * 10,
                Reason::DriversMissing,
                usize::try_from(step).unwrap() + 1,
            ) {
                changes.push(step * 10);
            }
        }
        assert_eq!(changes[..6], [0, 10, 1_010, 3_010, 7_010, 15_010]);
        assert_eq!(changes[6..], [31_010, 61_010, 91_010]);
        let due = rig.throttle.due.unwrap();
        assert_eq!(due, rig.start + Duration::from_millis(121_010));
        assert_eq!(rig.at(121_010, 7), 7);
        assert_eq!(rig.throttle.due, None, "all is announced");
    }

    #[test]
    fn a_message_that_is_again_what_is_announced_is_not_due() {
        let mut rig = Rig::new();
        rig.at(0, 1);
        rig.at(1, 2);
        assert_eq!(rig.at(2, 3), 2);
        assert!(rig.throttle.due.is_some());
        assert_eq!(rig.at(3, 2), 2);
        assert_eq!(rig.throttle.due, None);
    }

    #[test]
    fn after_a_quiet_time_another_message_is_announced_at_once() {
        let mut rig = Rig::new();
        for step in 0..100 {
            rig.at(step * 100, usize::try_from(step).unwrap());
        }
        assert_eq!(rig.at(300_000, 500), 500);
        assert_eq!(rig.at(300_999, 501), 500);
        assert_eq!(rig.at(301_000, 501), 501);
    }
}
