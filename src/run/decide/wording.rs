//! What people are told of the verdict: whether upgrades may go on at once, why and in which words not at every change.
//! Pure, but for the moment that it is told.

use std::time::{Duration, Instant};

use crate::assess::report::{Reason, Verdict};

/// The least time between two wordings of the same verdict. It doubles with each one.
const PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// After this time without another wording the pauses begin anew.
const QUIET: Duration = Duration::from_secs(120);

/// A verdict that is told, and how many volumes hold upgrades by it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    /// The verdict.
    pub verdict: Verdict,
    /// Volumes that hold upgrades.
    pub blocking: usize,
}

/// The wording of the verdict over time: where pods come and go all the time, its message would be another one at each
/// look, and three objects would be written for it.
#[derive(Debug, Default)]
pub struct Wording {
    told: Option<Told>,
    /// Since when it is told in these words, and how often in others before.
    since: Option<Instant>,
    rewordings: u32,
    is_pending: bool,
}

impl Wording {
    /// What is told where that is the verdict now.
    pub fn tell(&mut self, now_true: Told, now: Instant) -> &Told {
        let is_same = |told: &Told| {
            let (told, new) = (&told.verdict, &now_true.verdict);
            // Whether anything is known is not a matter of words.
            let is_known = |verdict: &Verdict| verdict.reason != Reason::ReadinessUnknown;
            told.upgradeable == new.upgradeable && is_known(told) == is_known(new)
        };
        self.is_pending = false;
        match &self.told {
            Some(told) if *told == now_true => {}
            Some(told) if is_same(told) => {
                if self.next().is_some_and(|next| now < next) {
                    self.is_pending = true;
                } else {
                    let quiet = self.since.is_none_or(|since| now >= since + QUIET);
                    self.rewordings = if quiet { 1 } else { self.rewordings + 1 };
                    self.since = Some(now);
                    self.told = Some(now_true.clone());
                }
            }
            _ => {
                self.rewordings = 0;
                self.since = Some(now);
                self.told = Some(now_true.clone());
            }
        }
        self.told.get_or_insert(now_true)
    }

    /// What was told last.
    pub fn told(&self) -> Option<&Told> {
        self.told.as_ref()
    }

    /// When other words are due, where there are some.
    pub fn due(&self) -> Option<Instant> {
        self.next().filter(|_| self.is_pending)
    }

    fn next(&self) -> Option<Instant> {
        let earlier = self.rewordings.checked_sub(1)?;
        let pause = PAUSE.saturating_mul(1 << earlier.min(16));
        Some(self.since? + pause.min(LONGEST_PAUSE))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::assess::report::Upgradeable;

    fn told(reason: Reason, blocking: usize) -> Told {
        Told {
            verdict: Verdict {
                upgradeable: Upgradeable::False,
                reason,
                message: format!("{blocking} volumes"),
            },
            blocking,
        }
    }

    struct Rig {
        wording: Wording,
        start: Instant,
    }

    impl Rig {
        fn new() -> Self {
            Self {
                wording: Wording::default(),
                start: Instant::now(),
            }
        }

        /// How many blocking volumes are told of so many milliseconds after the start.
        fn at(&mut self, milliseconds: u64, blocking: usize) -> usize {
            let now = self.start + Duration::from_millis(milliseconds);
            let new = told(Reason::DriversMissing, blocking);
            self.wording.tell(new, now).blocking
        }
    }

    #[test]
    fn another_verdict_is_told_at_once_and_then_its_first_other_words() {
        let mut rig = Rig::new();
        assert_eq!(rig.at(0, 1), 1);
        let mut open = told(Reason::DriversRegistered, 0);
        open.verdict.upgradeable = Upgradeable::True;
        assert_eq!(*rig.wording.tell(open.clone(), rig.start), open);
        assert_eq!(rig.at(0, 3), 3);
        assert_eq!(rig.at(0, 4), 4, "the first other words");
        assert_eq!(*rig.wording.tell(open.clone(), rig.start), open);
        assert_eq!(rig.wording.due(), None);
    }

    #[test]
    fn what_is_known_at_last_is_told_at_once_however_often_it_was_unknown_before() {
        let mut rig = Rig::new();
        for step in 0..5 {
            let unknown = told(Reason::ReadinessUnknown, step);
            rig.wording.tell(unknown, rig.start);
        }
        let missing = told(Reason::DriversMissing, 5);
        assert_eq!(*rig.wording.tell(missing.clone(), rig.start), missing);
        let unknown = told(Reason::ReadinessUnknown, 6);
        assert_eq!(*rig.wording.tell(unknown.clone(), rig.start), unknown);
    }

    #[test]
    fn a_reason_that_alternates_is_told_less_and_less_often() {
        let mut rig = Rig::new();
        let mut tellings = 0;
        let mut last = None;
        for step in 0..1_000 {
            let reason = if step % 2 == 0 {
                Reason::DriversMissing
            } else {
                Reason::NoCSIMigration
            };
            let now = rig.start + Duration::from_millis(10 * step);
            let told = rig.wording.tell(told(reason, 1), now).verdict.reason;
            tellings += usize::from(last != Some(told));
            last = Some(told);
        }
        assert!((2..8).contains(&tellings), "{tellings}");
    }

    #[test]
    fn words_that_change_all_the_time_are_told_less_and_less_often_but_are_told() {
        let mut rig = Rig::new();
        let mut tellings = Vec::new();
        let mut last = 0;
        for step in 0..10_000 {
            let told = rig.at(step * 10, usize::try_from(step).unwrap() + 1);
            if told != last {
                tellings.push(step * 10);
                last = told;
            }
        }
        assert_eq!(tellings[..6], [0, 10, 1_010, 3_010, 7_010, 15_010]);
        assert_eq!(tellings[6..], [31_010, 61_010, 91_010]);
        let due = rig.wording.due().unwrap();
        assert_eq!(due, rig.start + Duration::from_millis(121_010));
        assert_eq!(rig.at(121_010, 7), 7);
        assert_eq!(rig.wording.due(), None, "all is told");
    }

    #[test]
    fn words_that_are_again_what_is_told_are_not_due() {
        let mut rig = Rig::new();
        rig.at(0, 1);
        rig.at(1, 2);
        assert_eq!(rig.at(2, 3), 2);
        assert!(rig.wording.due().is_some());
        assert_eq!(rig.at(3, 2), 2);
        assert_eq!(rig.wording.due(), None);
    }

    #[test]
    fn after_a_quiet_time_other_words_are_told_at_once() {
        let mut rig = Rig::new();
        for step in 0..100 {
            rig.at(step * 100, usize::try_from(step).unwrap());
        }
        assert_eq!(rig.at(300_000, 500), 500);
        assert_eq!(rig.at(300_999, 501), 500);
        assert_eq!(rig.at(301_000, 501), 501);
    }
}
