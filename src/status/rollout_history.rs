//! Records the last rollouts in the status of `WindowsStorage`.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::api::PastRollout;
use crate::node::Rollout;
use crate::status::conditions::whole_seconds;

const KEPT: usize = 10;

/// Returns the last rollouts, including the current one, which is complete only after all managed nodes have been checked.
pub fn history(
    known: &[PastRollout],
    rollout: &Rollout,
    version: &str,
    now: Timestamp,
) -> Vec<PastRollout> {
    let mut history = known.to_vec();
    let Some(revision) = &rollout.revision else {
        return history;
    };
    if history.last().map(|last| &last.revision) != Some(revision) {
        history.push(PastRollout {
            revision: revision.clone(),
            version: version.to_owned(),
            start_time: Some(Time(whole_seconds(now))),
            completion_time: None,
        });
    }
    let is_complete = rollout.nodes > 0 && rollout.current == rollout.nodes;
    if let Some(last) = history.last_mut().filter(|_| is_complete) {
        last.completion_time
            .get_or_insert_with(|| Time(whole_seconds(now)));
    }
    history.drain(..history.len().saturating_sub(KEPT));
    history
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rollout_is_kept_with_its_times_and_the_oldest_of_many_is_not() {
        let mut known = Vec::new();
        let mut at = 0;
        let mut step = |revision: Option<&str>, current: usize| {
            at += 1;
            let rollout = Rollout {
                nodes: 3,
                current,
                revision: revision.map(str::to_owned),
                ..Rollout::default()
            };
            let now = Timestamp::from_millisecond(at * 1_000 + 300).unwrap();
            known = history(&known, &rollout, "v1.3.0", now);
            let time = |time: &Option<Time>| {
                let time = time.as_ref();
                time.map_or_else(|| "-".to_owned(), |time| time.0.as_second().to_string())
            };
            let line = |it: &PastRollout| {
                format!(
                    "{} {} {}",
                    it.revision,
                    time(&it.start_time),
                    time(&it.completion_time)
                )
            };
            known.iter().map(line).collect::<Vec<_>>()
        };
        assert!(step(None, 0).is_empty());
        assert_eq!(step(Some("a"), 2), ["a 2 -"]);
        assert_eq!(step(Some("a"), 3), ["a 2 3"]);
        // An added node does not start a new rollout.
        assert_eq!(step(Some("a"), 2), ["a 2 3"]);
        assert_eq!(step(Some("b"), 0), ["a 2 3", "b 5 -"]);
        assert_eq!(step(None, 0), ["a 2 3", "b 5 -"]);
        // The rollout was abandoned for the previous revision.
        assert_eq!(step(Some("a"), 3), ["a 2 3", "b 5 -", "a 7 7"]);
        for number in 0..20 {
            step(Some(&number.to_string()), 0);
        }
        let last = step(Some("z"), 0);
        assert_eq!(last.len(), KEPT);
        assert_eq!(last.last().unwrap(), "z 28 -");
    }
}
