//! How the condition stands: when to look at it again, and what people are told of it. Pure, but for the moment that it
//! is told.

use std::time::{Duration, Instant};

use crate::backoff;
use crate::gate::condition::Change;
use crate::gate::wanted::Wanted;

/// How often the condition is looked at though nothing has changed: a client of an old API version can wipe it without
/// a trace.
pub const REASSERT: Duration = Duration::from_secs(15);
/// The first pause between two looks, while OLM has not taken it over or somebody else has changed it.
const FIRST_LOOK: Duration = Duration::from_millis(500);
/// OLM takes a condition over in less than a second; after this it is said that it has not.
const CONFIRMED_WITHIN: Duration = Duration::from_secs(15);
/// So many changes by others within [`CONTEST`] are no accident.
const CONTESTED: usize = 3;
const CONTEST: Duration = Duration::from_secs(600);
const PENDING: &str = "Pending";

/// What was seen of the condition when it was made to say what it shall.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Look {
    /// What had to be written.
    pub change: Change,
    /// OLM has taken it over.
    pub confirmed: bool,
    /// The status that an administrator makes OLM take instead.
    pub overridden: Option<String>,
}

/// What people are told: the contents of a condition of ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GateReport {
    /// `True`, `False` or `Unknown`: whether what the gate shall say has been written.
    pub status: &'static str,
    /// A word for machines.
    pub reason: &'static str,
    /// A sentence for people.
    pub message: String,
}

impl GateReport {
    /// Whether it is not known yet how the gate stands.
    #[must_use]
    pub fn is_pending(&self) -> bool {
        self.reason == PENDING
    }
}

/// How the condition stands, as of the last look.
#[derive(Debug, Default)]
pub struct Track {
    name: String,
    written: Option<Wanted>,
    look: Option<Look>,
    next_look: Option<Instant>,
    /// Looks in a row at which all was as it should be.
    quiet: u32,
    /// Since when OLM has not taken over what was written.
    unconfirmed_since: Option<Instant>,
    /// OLM has taken it over once, and not been late since.
    trusted: bool,
    /// When others had changed it.
    changes: Vec<Instant>,
    failure: Option<(&'static str, String)>,
}

impl Track {
    /// Nothing seen yet of the object of that name.
    pub fn new(name: String) -> Self {
        Self {
            name,
            ..Self::default()
        }
    }

    /// Whether the object said that at the last look, which was no failure.
    pub fn stands(&self, wanted: &Wanted) -> bool {
        self.failure.is_none() && self.written.as_ref() == Some(wanted)
    }

    /// Whether something has been written, and nothing has failed since.
    pub fn is_set(&self) -> bool {
        self.failure.is_none() && self.written.is_some()
    }

    /// What was written last, in short.
    pub fn told(&self) -> String {
        self.written.as_ref().map_or_else(
            || "says nothing".to_owned(),
            |written| {
                let status = written.upgradeable.as_str();
                format!("says Upgradeable {status} ({})", written.reason)
            },
        )
    }

    /// When to look again though nothing is new; `None` where nothing stands.
    pub fn next_look(&self) -> Option<Instant> {
        self.next_look.filter(|_| self.is_set())
    }

    /// The object says now what it shall. Says whether somebody else had changed it.
    pub fn saw(&mut self, wanted: Wanted, look: Look, now: Instant) -> bool {
        let same = self.written.as_ref() == Some(&wanted);
        let disturbed = same && self.failure.is_none() && look.change != Change::Unchanged;
        if disturbed {
            self.changes.push(now);
        }
        self.forget_old_changes(now);
        self.quiet = if same && look.change == Change::Unchanged {
            self.quiet.saturating_add(1)
        } else {
            0
        };
        let mut pause = REASSERT;
        if look.confirmed {
            self.unconfirmed_since = None;
            self.trusted = true;
        } else {
            let since = *self.unconfirmed_since.get_or_insert(now);
            let late = since + CONFIRMED_WITHIN;
            self.trusted &= now < late;
            pause = backoff::pause(self.quiet + 1, FIRST_LOOK, REASSERT);
            if now < late {
                pause = pause.min(late - now);
            }
        }
        if !self.changes.is_empty() {
            pause = pause.min(backoff::pause(self.quiet + 1, FIRST_LOOK, REASSERT));
        }
        self.next_look = Some(now + pause);
        self.written = Some(wanted);
        self.look = Some(look);
        self.failure = None;
        disturbed
    }

    /// It could not be made to say it.
    pub fn failed(&mut self, reason: &'static str, message: String) {
        self.failure = Some((reason, message));
        self.quiet = 0;
    }

    fn forget_old_changes(&mut self, now: Instant) {
        self.changes
            .retain(|change| now.duration_since(*change) < CONTEST);
    }

    /// What people are told.
    pub fn report(&self, now: Instant) -> GateReport {
        let name = &self.name;
        if let Some((reason, message)) = &self.failure {
            return GateReport {
                status: "False",
                reason,
                message: message.clone(),
            };
        }
        let report = |status, reason, message| GateReport {
            status,
            reason,
            message,
        };
        let Some(look) = &self.look else {
            return report(
                "Unknown",
                PENDING,
                format!("OperatorCondition {name} has not been looked at yet"),
            );
        };
        let recent = |change: &&Instant| now.duration_since(**change) < CONTEST;
        if self.changes.iter().filter(recent).count() >= CONTESTED {
            return report(
                "False",
                "Contested",
                format!(
                    "somebody else changes the condition Upgradeable of OperatorCondition {name} again and again; it is \
                     written anew each time. Only this operator may write it: is it running twice, or is there a client \
                     that writes the object whole, or in version v1?"
                ),
            );
        }
        match look.overridden.as_deref() {
            Some("True") => {
                return report(
                    "True",
                    "Overridden",
                    format!(
                        "OLM lets upgrades go on whatever the verdict is, because spec.overrides of OperatorCondition {name} \
                         says Upgradeable True; remove that to have the verdict count again"
                    ),
                );
            }
            Some(_) => {
                return report(
                    "True",
                    "Overridden",
                    format!(
                        "OLM holds upgrades whatever the verdict is, because spec.overrides of OperatorCondition {name} \
                         overrides Upgradeable; remove that to have the verdict count again"
                    ),
                );
            }
            None => {}
        }
        if self.trusted {
            return report(
                "True",
                "Confirmed",
                format!(
                    "OperatorCondition {name} says what the verdict is, and OLM has taken it over"
                ),
            );
        }
        let late = self
            .unconfirmed_since
            .is_some_and(|since| now >= since + CONFIRMED_WITHIN);
        if late {
            report(
                "False",
                "NotConfirmed",
                format!(
                    "the verdict is written to OperatorCondition {name}, and OLM has not taken it over: is its olm-operator \
                     running? Until then no upgrade goes on that depends on it"
                ),
            )
        } else {
            report(
                "Unknown",
                PENDING,
                format!(
                    "the verdict is written to OperatorCondition {name}; OLM has not taken it over yet"
                ),
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::assess::report::Upgradeable;

    fn wanted(message: &str) -> Wanted {
        Wanted {
            upgradeable: Upgradeable::False,
            reason: "DriversMissing",
            message: message.to_owned(),
            yields: false,
        }
    }

    fn look(change: Change, confirmed: bool) -> Look {
        Look {
            change,
            confirmed,
            overridden: None,
        }
    }

    fn reason(track: &Track, now: Instant) -> (&'static str, &'static str) {
        let report = track.report(now);
        assert_eq!(report.is_pending(), report.reason == "Pending");
        (report.status, report.reason)
    }

    #[test]
    fn a_condition_is_looked_at_until_olm_has_taken_it_over_and_then_now_and_again() {
        let start = Instant::now();
        let mut track = Track::new("x".to_owned());
        assert_eq!(reason(&track, start), ("Unknown", "Pending"));
        assert!(!track.is_set() && track.next_look().is_none());
        track.saw(wanted("m"), look(Change::Transitioned, false), start);
        assert!(track.is_set() && track.stands(&wanted("m")) && !track.stands(&wanted("n")));
        assert_eq!(reason(&track, start), ("Unknown", "Pending"));
        assert!(track.next_look().unwrap() < start + FIRST_LOOK * 2);
        track.saw(wanted("m"), look(Change::Unchanged, true), start);
        assert_eq!(reason(&track, start), ("True", "Confirmed"));
        assert_eq!(track.next_look(), Some(start + REASSERT));
    }

    #[test]
    fn an_olm_that_does_not_answer_is_called_so_once_it_is_late() {
        let start = Instant::now();
        let mut track = Track::new("x".to_owned());
        track.saw(wanted("m"), look(Change::Transitioned, true), start);
        // It was trusted before, so news of the verdict are no news of OLM.
        track.saw(wanted("n"), look(Change::Updated, false), start);
        assert_eq!(reason(&track, start), ("True", "Confirmed"));
        let mut now = start;
        for _ in 0..20 {
            now = track.next_look().unwrap();
            if now >= start + CONFIRMED_WITHIN {
                break;
            }
            track.saw(wanted("n"), look(Change::Unchanged, false), now);
        }
        assert_eq!(now, start + CONFIRMED_WITHIN, "it is looked at just then");
        track.saw(wanted("n"), look(Change::Unchanged, false), now);
        assert_eq!(reason(&track, now), ("False", "NotConfirmed"));
        track.saw(wanted("o"), look(Change::Updated, false), now);
        assert_eq!(
            reason(&track, now),
            ("False", "NotConfirmed"),
            "a further write is no excuse"
        );
        for _ in 0..20 {
            track.saw(wanted("o"), look(Change::Unchanged, false), now);
        }
        assert!(
            track.next_look().unwrap() > now + REASSERT / 2,
            "less and less often"
        );
        track.saw(wanted("o"), look(Change::Unchanged, true), now);
        assert_eq!(reason(&track, now), ("True", "Confirmed"));
    }

    #[test]
    fn somebody_who_writes_it_too_is_named_and_not_fought_in_a_hot_loop() {
        let start = Instant::now();
        let mut track = Track::new("x".to_owned());
        assert!(!track.saw(wanted("m"), look(Change::Transitioned, true), start));
        assert!(
            !track.saw(wanted("n"), look(Change::Updated, true), start),
            "our own news"
        );
        for _ in 0..CONTESTED {
            assert_eq!(reason(&track, start), ("True", "Confirmed"));
            assert!(track.saw(wanted("n"), look(Change::Transitioned, true), start));
        }
        assert_eq!(reason(&track, start), ("False", "Contested"));
        let next = track.next_look().unwrap();
        assert!(next > start + FIRST_LOOK / 2 && next < start + FIRST_LOOK * 2);
        for _ in 0..20 {
            track.saw(wanted("n"), look(Change::Unchanged, true), start);
        }
        assert!(track.next_look().unwrap() > start + REASSERT / 2);
        let later = start + CONTEST;
        assert_eq!(reason(&track, later), ("True", "Confirmed"));
        track.saw(wanted("o"), look(Change::Updated, true), later);
        assert_eq!(
            track.next_look(),
            Some(later + REASSERT),
            "what was long ago hurries nobody"
        );
    }

    #[test]
    fn each_look_that_finds_nothing_new_makes_the_pause_longer() {
        let start = Instant::now();
        let pause = |track: &Track| track.next_look().unwrap() - start;
        let mut late = Track::new("x".to_owned());
        late.saw(wanted("m"), look(Change::Transitioned, false), start);
        assert!(pause(&late) < FIRST_LOOK.mul_f64(1.3));
        late.saw(wanted("m"), look(Change::Unchanged, false), start);
        assert!(pause(&late) > FIRST_LOOK.mul_f64(1.5));
        let mut disturbed = Track::new("x".to_owned());
        disturbed.saw(wanted("m"), look(Change::Transitioned, true), start);
        disturbed.saw(wanted("m"), look(Change::Updated, true), start);
        assert!(pause(&disturbed) < FIRST_LOOK.mul_f64(1.3));
        disturbed.saw(wanted("m"), look(Change::Unchanged, true), start);
        assert!(pause(&disturbed) > FIRST_LOOK.mul_f64(1.5));
    }

    #[test]
    fn what_was_written_is_told_in_short() {
        let mut track = Track::new("x".to_owned());
        assert_eq!(track.told(), "says nothing");
        track.saw(
            wanted("m"),
            look(Change::Transitioned, true),
            Instant::now(),
        );
        assert_eq!(track.told(), "says Upgradeable False (DriversMissing)");
    }

    #[test]
    fn an_override_is_told_and_a_failure_before_all() {
        let start = Instant::now();
        let mut track = Track::new("x".to_owned());
        for (status, words) in [("True", "go on"), ("False", "holds"), ("Unknown", "holds")] {
            let look = Look {
                overridden: Some(status.to_owned()),
                ..look(Change::Unchanged, true)
            };
            track.saw(wanted("m"), look, start);
            let report = track.report(start);
            assert_eq!((report.status, report.reason), ("True", "Overridden"));
            assert!(report.message.contains(words), "{}", report.message);
        }
        track.failed("Forbidden", "no right".to_owned());
        assert_eq!(reason(&track, start), ("False", "Forbidden"));
        assert!(!track.is_set() && !track.stands(&wanted("m")) && track.next_look().is_none());
        assert!(
            !track.saw(wanted("m"), look(Change::Transitioned, true), start),
            "made anew after it was gone: nobody's doing"
        );
        assert_eq!(reason(&track, start), ("True", "Confirmed"));
    }
}
