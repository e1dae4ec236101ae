//! Decides which claims and pods get an event because their volumes hold upgrades: once for as long as they do. No I/O.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::api::UPGRADEABLE;
use crate::assess::{Blocked, BlockedKey};
use crate::status::events::{EventSink, Subject, csi_driver, warning};
use kube::runtime::events::Event;

/// The maximum number of objects with an event. `check` names all volumes, and the metrics count them.
pub const MOST_BLOCKED: usize = 200;
/// How long a volume must hold upgrades before it gets an event. Drivers of a joining node take a while to register.
const SETTLED: Duration = Duration::from_secs(20);

/// The objects that hold upgrades: since when, and whether their event is published.
#[derive(Debug, Default)]
pub struct BlockedEvents(BTreeMap<BlockedKey, (Instant, bool)>);

impl BlockedEvents {
    /// Updates what holds upgrades, and publishes events for what has lasted long enough.
    pub fn publish(
        &mut self,
        events: &EventSink,
        blocked: &BTreeMap<BlockedKey, Blocked>,
        now: Instant,
    ) {
        for (key, blocked) in self.update(blocked, now) {
            let event = Event {
                secondary: key.driver.as_deref().map(csi_driver),
                ..warning(UPGRADEABLE, blocked.reason.as_str(), &blocked.note)
            };
            events.publish(Subject::Named(key.kind, key.object.clone()), event);
        }
    }

    /// Returns when the next event is due if nothing changes.
    pub fn due(&self) -> Option<Instant> {
        let waiting = self.0.values().filter(|(_, is_published)| !is_published);
        waiting.map(|(since, _)| *since + SETTLED).min()
    }

    fn update<'a>(
        &mut self,
        blocked: &'a BTreeMap<BlockedKey, Blocked>,
        now: Instant,
    ) -> Vec<(&'a BlockedKey, &'a Blocked)> {
        self.0.retain(|key, _| blocked.contains_key(key));
        let mut due = Vec::new();
        for (key, blocked) in blocked {
            let (since, is_published) = self.0.entry(key.clone()).or_insert((now, false));
            if !*is_published && now >= *since + SETTLED {
                *is_published = true;
                due.push((key, blocked));
            }
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::assess::BlockedKind;
    use crate::assess::report::Reason;
    use crate::index::ObjectKey;

    #[test]
    fn what_lasts_is_published_once_and_again_after_it_was_over() {
        let mut events = BlockedEvents::default();
        let start = Instant::now();
        let mut due = |names: &[&str], seconds| {
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
            let blocked: BTreeMap<_, _> = names.iter().map(entry).collect();
            let due = events.update(&blocked, start + Duration::from_secs(seconds));
            let names = due.iter().map(|(key, _)| key.object.name.to_string());
            names.collect::<Vec<_>>()
        };
        assert!(due(&["a"], 0).is_empty());
        assert_eq!(due(&["a", "b"], 20), ["a"]);
        assert!(due(&["a"], 30).is_empty(), "b ended before it was due");
        assert!(due(&["a", "b"], 45).is_empty(), "b began again");
        assert!(due(&["b"], 50).is_empty());
        assert_eq!(due(&["a", "b"], 65), ["b"]);
        assert_eq!(due(&["a", "b"], 85), ["a"]);
        assert_eq!(events.0.len(), 2);
    }
}
