//! What a judgement depends on that the last snapshot of the cluster cannot say.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use crate::assess::report::{Reason, Verdict};
use crate::assess::{BlockingVolumes, Departed, Report, only_fresh_data_opens};
use crate::gate::Turned;
use crate::index::{AnyTable, Cluster};
use crate::node::HOST_KEYS_CONFIG_MAP;
use crate::run::plan::Plan;

/// How long a verdict stands while something it depends on cannot be read. A restart of the API server is over by then.
const STALE: Duration = Duration::from_secs(120);

/// The shortest time between two messages of the same verdict.
const PAUSE: Duration = Duration::from_secs(10);

/// A verdict, and the volumes that hold upgrades because of it.
type Judged = (Verdict, BlockingVolumes);

/// The history. It sees every judgement, so the actors need not.
pub struct History {
    /// "True is written only from lists that began after the verdict turned True": when it did.
    pub turned: Turned,
    /// "60 s later where what held upgrades went from sight": when that last happened.
    gone: BTreeMap<Departed, Instant>,
    /// "A verdict stands for two minutes while something cannot be read": since when that is so.
    stale_since: Option<Instant>,
    /// Where pods come and go all the time, the message is not written each time: what is announced, and since when.
    announced: Option<(Judged, Instant)>,
    /// "A key that an administrator added is removed only with its node": Windows nodes that this process has seen disappear.
    pub departed: BTreeSet<String>,
    /// "A node is released from fresh data": since when it is to be released, or rid of the agent, by node.
    pub leaving_since: BTreeMap<String, Instant>,
    /// "Removed once this process has seen it unused for ten minutes": since when, from complete data, by node.
    pub unused_since: BTreeMap<String, Instant>,
}

impl History {
    /// Begins it, for a process that starts now.
    pub fn new(now: Instant) -> Self {
        Self {
            turned: Turned::new(now),
            gone: BTreeMap::new(),
            stale_since: None,
            announced: None,
            departed: BTreeSet::new(),
            leaving_since: BTreeMap::new(),
            unused_since: BTreeMap::new(),
        }
    }

    /// Notes a judgement of the cluster, and what has changed since the one before. Before the plan.
    pub fn note_report(
        &mut self,
        cluster: &Cluster,
        before: &Report,
        report: &Report,
        now: Instant,
    ) {
        for departed in report.departed(before) {
            self.gone.insert(departed, now);
        }
        let left = before.windows.difference(&report.windows);
        self.departed.extend(left.map(ToString::to_string));
        let pins = cluster.config_maps.get(HOST_KEYS_CONFIG_MAP);
        let may_be_pinned = |name: &str| match pins {
            Some(pins) => pins.data.contains_key(name),
            None => !cluster.config_maps.is_complete(),
        };
        self.departed.retain(|name| {
            let is_there = cluster.nodes.get(name.as_str()).is_some();
            !report.windows.contains(name.as_str()) && (is_there || may_be_pinned(name))
        });
        let stale = cluster.stale();
        let since = self.stale_since.unwrap_or(now);
        self.stale_since = (!stale.is_empty()).then_some(since);
        let is_stale_for_long = (self.stale_since).is_some_and(|since| now >= since + STALE);
        let last = self.announced().map(|(last, _)| last);
        let last = last.filter(|_| !is_stale_for_long);
        let verdict = only_fresh_data_opens(last, report.verdict.clone(), &stale);
        self.turned.note(&verdict, stale.is_empty(), now);
        self.announce((verdict, report.blocking.clone()), now);
    }

    /// Announces another verdict at once, another message of the same one not too often.
    fn announce(&mut self, judged: Judged, now: Instant) {
        let must_wait = self.announced.as_ref().is_some_and(|(before, since)| {
            *before == judged || is_alike(&before.0, &judged.0) && now < *since + PAUSE
        });
        if !must_wait {
            self.announced = Some((judged, now));
        }
    }

    /// Notes what was planned.
    pub fn note_plan(&mut self, plan: &Plan, now: Instant) {
        let leaving = plan.nodes.iter().filter(|(_, plan)| plan.takes_away());
        let leaving = leaving.map(|(name, _)| name);
        self.leaving_since = since(&self.leaving_since, leaving, now);
        let unused = plan.unused.iter().flatten();
        self.unused_since = since(&self.unused_since, unused, now);
    }

    /// Returns the announced verdict with the volumes that hold upgrades; nothing before the first judgement.
    pub fn announced(&self) -> Option<&Judged> {
        self.announced.as_ref().map(|(judged, _)| judged)
    }

    /// Returns the volumes that hold upgrades.
    pub fn blocking(&self) -> BlockingVolumes {
        let announced = self.announced();
        announced
            .map(|(_, blocking)| blocking.clone())
            .unwrap_or_default()
    }

    /// Returns when something last disappeared that would hold upgrades if it came back now.
    pub fn gone(&self, cluster: &Cluster, report: &Report) -> Option<Instant> {
        let gone = self.gone.iter();
        let held = gone.filter(|(departed, _)| report.would_hold(cluster, departed));
        held.map(|(_, at)| *at).max()
    }

    /// Returns when a judgement comes out differently by time alone.
    pub fn due(&self, now: Instant) -> Option<Instant> {
        let stale = self.stale_since.map(|since| since + STALE);
        let announced = (self.announced.as_ref()).map(|(_, since)| *since + PAUSE);
        let due = stale.into_iter().chain(announced);
        due.filter(|at| *at > now).min()
    }
}

/// Returns whether two verdicts differ only in their message, or in a reason that is a matter of wording.
fn is_alike(before: &Verdict, after: &Verdict) -> bool {
    let is_known = |verdict: &Verdict| verdict.reason != Reason::ReadinessUnknown;
    before.upgradeable == after.upgradeable && is_known(before) == is_known(after)
}

/// Returns since when these names are there.
fn since<'a>(
    before: &BTreeMap<String, Instant>,
    names: impl Iterator<Item = &'a String>,
    now: Instant,
) -> BTreeMap<String, Instant> {
    names
        .map(|name| (name.clone(), before.get(name).copied().unwrap_or(now)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::assess::report::Upgradeable;

    #[test]
    fn another_verdict_is_announced_at_once_and_another_message_after_a_pause() {
        let start = Instant::now();
        let mut history = History::new(start);
        for (second, reason, count, announced) in [
            (0, Reason::ReadinessUnknown, 0, 0),
            (0, Reason::DriversMissing, 1, 1),
            (0, Reason::DriversRegistered, 2, 2),
            (0, Reason::DriversMissing, 3, 3),
            (1, Reason::DriversMissing, 4, 3),
            (2, Reason::NoCSIMigration, 5, 3),
            (9, Reason::DriversMissing, 3, 3),
            (10, Reason::NoCSIMigration, 6, 6),
            (11, Reason::NoCSIMigration, 7, 6),
            (11, Reason::ReadinessUnknown, 8, 8),
            (99, Reason::ReadinessUnknown, 9, 9),
        ] {
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
            let now = start + Duration::from_secs(second);
            history.announce((verdict, blocking), now);
            let said = history.announced().map(|(_, blocking)| blocking.count);
            assert_eq!(said, Some(announced), "{count}");
        }
        let due = |second| history.due(start + Duration::from_secs(second));
        assert_eq!(due(99), Some(start + Duration::from_secs(109)));
        assert_eq!(due(109), None);
    }
}
