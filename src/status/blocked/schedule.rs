//! When what is told. Pure.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::assess::{Blocked, BlockedKey};
use crate::backoff;

/// So many objects are told at one time. All volumes are named by `check`, and counted in the metrics.
pub const MOST_BLOCKED: usize = 200;
/// What lasts no longer than this is not told: the drivers of a node that joins take a while to register.
const SETTLED: Duration = Duration::from_secs(20);
/// How many are told in one go.
const BATCH: usize = 8;
const FIRST_PAUSE: Duration = Duration::from_secs(5);
const LONGEST_PAUSE: Duration = Duration::from_secs(300);

/// What is to be told.
#[derive(Debug, PartialEq, Eq)]
pub struct Due {
    pub key: BlockedKey,
    pub blocked: Blocked,
    /// How often this process has told it before; it was over meanwhile.
    pub times_before: i32,
}

/// What was told, and what is still to be.
#[derive(Debug, Default)]
pub struct Schedule(BTreeMap<BlockedKey, State>);

#[derive(Debug)]
struct State {
    /// What there is to tell; `None` where it is over.
    blocked: Option<Blocked>,
    is_told: bool,
    times: i32,
    failures: u32,
    due: Instant,
}

impl Schedule {
    /// Takes in what holds upgrades now. Gives some of what is due.
    pub fn update(&mut self, blocked: BTreeMap<BlockedKey, Blocked>, now: Instant) -> Vec<Due> {
        for (key, state) in &mut self.0 {
            if !blocked.contains_key(key) {
                state.blocked = None;
                state.is_told = false;
            }
        }
        for (key, blocked) in blocked {
            let state = self.0.entry(key).or_insert(State {
                blocked: None,
                is_told: false,
                times: 0,
                failures: 0,
                due: now,
            });
            if state.blocked.is_none() {
                state.due = now + SETTLED;
                state.failures = 0;
            }
            state.blocked = Some(blocked);
        }
        self.forget();
        let due = self.0.iter().filter(|(_, state)| state.is_due(now));
        let due = due.take(BATCH).filter_map(|(key, state)| {
            Some(Due {
                key: key.clone(),
                blocked: state.blocked.clone()?,
                times_before: state.times,
            })
        });
        due.collect()
    }

    /// It was told, or could not be.
    pub fn ended(&mut self, key: &BlockedKey, is_told: bool, now: Instant) {
        let Some(state) = self.0.get_mut(key) else {
            return;
        };
        if is_told {
            state.times = state.times.saturating_add(1);
            // Where it is over by now, what comes after it is told anew.
            state.is_told = state.blocked.is_some();
        } else {
            state.failures += 1;
            state.due = now + backoff::pause(state.failures, FIRST_PAUSE, LONGEST_PAUSE);
        }
    }

    /// When the next is due.
    pub fn due_in(&self, now: Instant) -> Option<Duration> {
        let open = self.0.values().filter(|state| state.is_open());
        open.map(|state| state.due.saturating_duration_since(now))
            .min()
    }

    /// Keeps of what is over only what was told, to count it if it comes again, and no more of that than fits.
    fn forget(&mut self) {
        self.0
            .retain(|_, state| state.blocked.is_some() || state.times > 0);
        while self.0.len() > 2 * MOST_BLOCKED {
            let over = self.0.iter().find(|(_, state)| state.blocked.is_none());
            let Some(key) = over.map(|(key, _)| key.clone()) else {
                return;
            };
            self.0.remove(&key);
        }
    }
}

impl State {
    fn is_open(&self) -> bool {
        self.blocked.is_some() && !self.is_told
    }

    fn is_due(&self, now: Instant) -> bool {
        self.is_open() && self.due <= now
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::assess::BlockedKind;
    use crate::assess::report::Reason;
    use crate::index::ObjectKey;

    fn blocked(names: &[&str]) -> BTreeMap<BlockedKey, Blocked> {
        let entry = |name: &&str| {
            let key = BlockedKey {
                kind: BlockedKind::Claim,
                object: ObjectKey::new("shop", *name),
                driver: None,
            };
            let blocked = Blocked {
                reason: Reason::NoCSIMigration,
                note: "Words.".to_owned(),
            };
            (key, blocked)
        };
        names.iter().map(entry).collect()
    }

    fn names(due: &[Due]) -> Vec<(&str, i32)> {
        let names = due
            .iter()
            .map(|due| (due.key.object.name.as_str(), due.times_before));
        names.collect()
    }

    #[test]
    fn what_lasts_is_told_once_and_counted_when_it_comes_again() {
        let mut schedule = Schedule::default();
        let start = Instant::now();
        assert!(schedule.update(blocked(&["a"]), start).is_empty());
        assert_eq!(schedule.due_in(start), Some(SETTLED));
        let later = start + SETTLED;
        let due = schedule.update(blocked(&["a", "b"]), later);
        assert_eq!(names(&due), [("a", 0)]);
        schedule.ended(&due[0].key, true, later);
        // b is over before it is worth telling.
        let later = later + SETTLED / 2;
        assert!(schedule.update(blocked(&["a"]), later).is_empty());
        assert_eq!(schedule.due_in(later), None);
        assert_eq!(schedule.0.len(), 1);

        assert!(schedule.update(blocked(&[]), later).is_empty());
        schedule.update(blocked(&["a"]), later);
        let due = schedule.update(blocked(&["a"]), later + SETTLED);
        assert_eq!(names(&due), [("a", 1)]);
    }

    #[test]
    fn what_could_not_be_told_is_tried_again_after_a_pause() {
        let mut schedule = Schedule::default();
        let start = Instant::now();
        schedule.update(blocked(&["a"]), start);
        let due = schedule.update(blocked(&["a"]), start + SETTLED);
        schedule.ended(&due[0].key, false, start + SETTLED);
        assert!(schedule.update(blocked(&["a"]), start + SETTLED).is_empty());
        let later = start + SETTLED + FIRST_PAUSE * 2;
        assert_eq!(names(&schedule.update(blocked(&["a"]), later)), [("a", 0)]);
    }

    #[test]
    fn no_more_is_remembered_than_fits() {
        let mut schedule = Schedule::default();
        let mut now = Instant::now();
        for round in 0..5 {
            let all: Vec<String> = (0..MOST_BLOCKED)
                .map(|number| format!("{round}-{number}"))
                .collect();
            let all = blocked(&all.iter().map(String::as_str).collect::<Vec<_>>());
            schedule.update(all.clone(), now);
            now += SETTLED;
            loop {
                let due = schedule.update(all.clone(), now);
                if due.is_empty() {
                    break;
                }
                assert!(due.len() <= BATCH);
                for due in due {
                    schedule.ended(&due.key, true, now);
                }
            }
            assert!(schedule.0.len() <= 2 * MOST_BLOCKED);
        }
    }
}
