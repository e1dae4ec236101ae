//! Computes the steps of a rollout: which nodes wait until the nodes before them have proven to work.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};

use crate::api::RolloutStep;
use crate::node::{Candidate, Standing};

/// Progress of the steps. It is stored in the status, so that the next process continues from there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StepRecord {
    /// The revision that is rolled out.
    pub revision: String,
    /// Number of finished steps, including their soak time.
    pub completed: usize,
    /// Since when the nodes of the next step are up to date and csi-proxy answers on them.
    pub soak_start_time: Option<Timestamp>,
}

/// What the first unfinished step waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepState {
    /// Its nodes are being updated.
    Updating,
    /// Its nodes must answer until this time, and be observed once after it.
    Soaking(Timestamp),
    /// The update failed on some of its nodes and was rolled back.
    Failed,
    /// It has no node that could show whether the update works.
    NoNodes,
    /// Not all of its nodes have been observed.
    Unseen,
}

/// Progress of the steps, and what the first unfinished one waits for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Steps {
    /// The record to store in the status.
    pub record: StepRecord,
    /// Total number of steps.
    pub of: usize,
    /// What the first unfinished step waits for.
    pub state: Option<StepState>,
}

/// A node, with the facts that steps depend on.
pub struct Member {
    /// The node.
    pub candidate: Candidate,
    /// Whether it was up to date when it was last reached.
    pub has_it: bool,
    /// When it was last observed.
    pub seen: Option<Timestamp>,
    /// For each step, whether the step selects it.
    pub steps: Vec<bool>,
}

/// Which nodes may be updated in the current step.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Allowed {
    /// Nodes that wait for a step other than the current one.
    pub held: BTreeSet<String>,
    /// How many more nodes may begin, if limited.
    pub free: Option<usize>,
}

/// Computes the progress of the steps, and which nodes may be updated. `members` must not contain nodes from which
/// csi-proxy is being removed.
#[must_use]
pub fn follow(
    steps: &[RolloutStep],
    members: &BTreeMap<String, Member>,
    before: StepRecord,
    revision: &str,
    now: Timestamp,
) -> (Steps, Allowed) {
    let mut record = before;
    if record.revision != revision {
        record = StepRecord {
            revision: revision.to_owned(),
            ..StepRecord::default()
        };
    }
    record.completed = record.completed.min(steps.len());
    let (mut state, mut allowed) = (None, Allowed::default());
    while let Some(step) = steps.get(record.completed) {
        let part = Part::of(record.completed, step, members);
        state = part.state(&mut record.soak_start_time, step, now);
        if let Some(state) = state {
            allowed = part.allowed(state, members);
            break;
        }
        record.completed += 1;
        record.soak_start_time = None;
    }
    let of = steps.len();
    (Steps { record, of, state }, allowed)
}

/// The nodes of one step.
struct Part<'a> {
    members: Vec<&'a Member>,
    /// The index of the step, if it selects nodes; `None` if it only counts them.
    place: Option<usize>,
    /// How many nodes must be updated at the end of the step.
    number: usize,
}

impl<'a> Part<'a> {
    fn of(place: usize, step: &RolloutStep, members: &'a BTreeMap<String, Member>) -> Self {
        let number = step.number_of(members.len());
        let is_in = |member: &&Member| number.is_some() || member.steps[place];
        let members: Vec<_> = members.values().filter(is_in).collect();
        Self {
            place: number.is_none().then_some(place),
            number: number.unwrap_or(members.len()),
            members,
        }
    }

    fn count(&self, is: impl Fn(&Member) -> bool) -> usize {
        self.members.iter().filter(|member| is(member)).count()
    }

    /// Returns what the step waits for; `None` once it is finished.
    fn state(
        &self,
        soak_start_time: &mut Option<Timestamp>,
        step: &RolloutStep,
        now: Timestamp,
    ) -> Option<StepState> {
        let waiting = self.count(is_waiting);
        let is_unseen = self.count(|it| it.candidate.standing == Standing::Unseen) > 0;
        if self.place.is_none() && is_unseen {
            // Unseen nodes may be updated already, so updating another one could exceed the number.
            return Some(StepState::Unseen);
        }
        let has_failed =
            self.place.is_some() && self.count(|it| it.candidate.standing == Standing::Failed) > 0;
        let is_left = waiting > 0 && (self.place.is_some() || self.count(has_it) < self.number);
        let is_away = |it: &Member| {
            let is_of_step = self.place.is_some() || has_it(it) || it.candidate.cut_short;
            it.candidate.at_work || (it.candidate.down && is_of_step)
        };
        if has_failed || is_left || self.count(is_away) > 0 {
            *soak_start_time = None;
            return Some(if has_failed {
                StepState::Failed
            } else {
                StepState::Updating
            });
        }
        if is_unseen {
            return Some(StepState::Unseen);
        }
        if self.count(is_current) == 0 {
            return Some(StepState::NoNodes);
        }
        // The clock may have gone back since.
        let since = soak_start_time.map_or(now, |since| since.min(now));
        *soak_start_time = Some(since);
        let soak = SignedDuration::from_secs(step.soak_seconds.into());
        let until = since.saturating_add(soak).unwrap_or(Timestamp::MAX);
        let is_confirmed =
            |it: &Member| !is_current(it) || it.seen.is_some_and(|seen| seen >= until);
        let is_over = now >= until && self.members.iter().all(|it| is_confirmed(it));
        (step.soak_seconds > 0 && !is_over).then_some(StepState::Soaking(until))
    }

    fn allowed(&self, state: StepState, all: &BTreeMap<String, Member>) -> Allowed {
        let begun = |it: &Member| {
            let is_lost = it.candidate.cut_short && !is_waiting(it);
            has_it(it) || it.candidate.at_work || is_lost
        };
        let free = match (self.place, state) {
            (Some(_), _) => None,
            (None, StepState::Unseen) => Some(0),
            (None, _) => Some(self.number.saturating_sub(self.count(begun))),
        };
        let may = |it: &Member| match self.place {
            Some(place) => it.steps[place] && state != StepState::Failed,
            None => free != Some(0),
        };
        let held = all.iter().filter(|(_, it)| is_waiting(it) && !may(it));
        Allowed {
            held: held.map(|(name, _)| name.clone()).collect(),
            free,
        }
    }
}

fn is_current(member: &Member) -> bool {
    member.candidate.standing == Standing::Current && !member.candidate.at_work
}

/// Returns whether the node is up to date, as far as known: a node that became unreachable still counts.
fn has_it(member: &Member) -> bool {
    is_current(member) || (member.has_it && member.candidate.standing == Standing::Unreachable)
}

fn is_waiting(member: &Member) -> bool {
    member.candidate.standing == Standing::Waiting && !member.candidate.at_work
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// Minutes after a fixed time.
    fn at(minutes: i64) -> Timestamp {
        Timestamp::from_second(1_000_000 + 60 * minutes).unwrap()
    }

    /// Parses nodes, each with its name, standing and flags: `c` if the first step selects it, `3` if it was observed
    /// in that minute.
    fn members(text: &str) -> BTreeMap<String, Member> {
        let member = |node: &str| {
            let words: Vec<&str> = node.split(' ').collect();
            let standing = match words[1] {
                "current" => Standing::Current,
                "waiting" => Standing::Waiting,
                "failed" => Standing::Failed,
                "unreachable" => Standing::Unreachable,
                "unseen" => Standing::Unseen,
                other => panic!("{other}"),
            };
            let candidate = Candidate {
                standing,
                down: words.contains(&"down"),
                at_work: words.contains(&"at-work"),
                cut_short: words.contains(&"cut-short"),
                ..Candidate::default()
            };
            let seen = words.iter().find_map(|word| word.parse().ok());
            let member = Member {
                candidate,
                has_it: words.contains(&"had"),
                seen: seen.map(at),
                steps: vec![words.contains(&"c"), false],
            };
            (words[0].to_owned(), member)
        };
        text.split(", ").map(member).collect()
    }

    /// A canary that soaks for 30 minutes, then half of the nodes for ten, then the others.
    fn steps() -> Vec<RolloutStep> {
        serde_json::from_value(json!([
            {"nodeSelector": {"canary": "yes"}, "soakSeconds": 1800},
            {"nodes": "50%", "soakSeconds": 600},
        ]))
        .unwrap()
    }

    fn record(completed: usize, soak_start_time: Option<i64>) -> StepRecord {
        StepRecord {
            revision: "new".to_owned(),
            completed,
            soak_start_time: soak_start_time.map(at),
        }
    }

    /// Completed steps, the minute in which the soak time began, the current minute, and the nodes; then the expected
    /// completed steps, minute, what the step waits for, how many nodes may begin, and which wait for another step.
    const LIFE: &str = "
        # Only the canary begins.
        0 - at 0: a waiting c, b waiting, d waiting -> 0 - Updating all: b d
        0 - at 0: a waiting c at-work, b waiting -> 0 - Updating all: b
        0 - at 5: a current c 5, b waiting -> 0 5 Soaking 35 all: b
        0 5 at 34: a current c 34, b waiting -> 0 5 Soaking 35 all: b
        # The time is over, and the look at it was before.
        0 5 at 36: a current c 34, b waiting -> 0 5 Soaking 35 all: b
        # Half of the nodes: one of two has it already, two of four have not.
        0 5 at 36: a current c 36, b waiting -> 1 36 Soaking 46 0: b
        0 5 at 36: a current c 36, b waiting, d waiting, e waiting -> 1 - Updating 1:
        1 - at 40: a current c, b waiting at-work, d waiting, e waiting -> 1 - Updating 0: d e
        1 40 at 51: a current c 51, b current 51, d waiting, e waiting -> 2 - - all:
        # Something is wrong in the meantime: the time begins again.
        0 5 at 20: a current c down, b waiting -> 0 - Updating all: b
        1 40 at 51: a current c, b current down, d waiting, e waiting -> 1 - Updating 0: d e
        # What is broken elsewhere is not of this step.
        1 40 at 45: a current c, b current, d waiting down, e waiting -> 1 40 Soaking 50 0: d e
        # After a start nothing has been looked at yet: the time goes on, and nobody takes the place of who may have it.
        0 5 at 50: a unseen c, b unseen -> 0 5 Unseen all:
        0 5 at 50: a unseen c, b waiting -> 0 5 Unseen all: b
        1 40 at 45: a unseen c, b unseen, d waiting, e waiting -> 1 40 Unseen 0: d e
        # Nothing shows whether it works.
        0 5 at 50: a unreachable c, b waiting -> 0 5 NoNodes all: b
        0 - at 50: a waiting, b waiting -> 0 - NoNodes all: a b
        # One of several that is dead holds nobody up, and nobody takes its place.
        0 5 at 36: a current c 36, b unreachable c, d current -> 1 36 Soaking 46 0:
        1 40 at 45: a current c, b unreachable had, d waiting, e waiting -> 1 40 Soaking 50 0: d e
        1 40 at 45: a unreachable c had, b unreachable had, d waiting, e waiting -> 1 40 NoNodes 0: d e
        1 - at 45: a current c, b unreachable down cut-short, d waiting, e waiting -> 1 - Updating 0: d e
        1 - at 45: a current c, b unreachable, d waiting, e waiting -> 1 - Updating 1:
        # It did not work on a node that the step names; in a step by number another one takes its place.
        0 - at 50: a failed c, b waiting -> 0 - Failed all: b
        0 - at 50: a failed c, b waiting c, d waiting -> 0 - Failed all: b d
        1 - at 50: a current c, b failed, d waiting, e waiting -> 1 - Updating 1:
        # A canary that comes when its step is over waits like all others.
        1 - at 50: a waiting c, b waiting, d waiting -> 1 - Updating 2:
        # Steps were taken away. The clock went back.
        9 - at 50: a waiting c, b waiting -> 2 - - all:
        0 50 at 20: a current c, b waiting -> 0 20 Soaking 50 all: b
        ";

    #[test]
    fn a_step_ends_when_its_nodes_have_answered_for_its_time() {
        let minute = |time: Option<Timestamp>| {
            let minutes = time.map(|time| (time.as_second() - at(0).as_second()) / 60);
            minutes.map_or_else(|| "-".to_owned(), |minutes| minutes.to_string())
        };
        let lines = LIFE.lines().map(str::trim);
        for line in lines.filter(|line| !line.is_empty() && !line.starts_with('#')) {
            let (given, expected) = line.split_once(" -> ").unwrap();
            let (before, nodes) = given.split_once(": ").unwrap();
            let before: Vec<&str> = before.split(' ').collect();
            let now = at(before[3].parse().unwrap());
            let before = record(before[0].parse().unwrap(), before[1].parse().ok());
            let (found, allowed) = follow(&steps(), &members(nodes), before, "new", now);
            let state = match found.state {
                None => "-".to_owned(),
                Some(StepState::Soaking(until)) => format!("Soaking {}", minute(Some(until))),
                Some(state) => format!("{state:?}"),
            };
            let free = allowed
                .free
                .map_or("all".to_owned(), |free| free.to_string());
            let held: Vec<_> = allowed.held.into_iter().collect();
            let StepRecord {
                completed,
                soak_start_time,
                ..
            } = found.record;
            let since = minute(soak_start_time);
            let found = format!("{completed} {since} {state} {free}: {}", held.join(" "));
            assert_eq!(found.trim_end(), expected, "{line}");
        }
    }

    #[test]
    fn something_else_begins_with_the_first_step() {
        let nodes = members("a waiting c, b waiting");
        let (found, allowed) = follow(&steps(), &nodes, record(2, None), "newer", at(0));
        assert_eq!(found.record.completed, 0);
        assert_eq!(found.record.revision, "newer");
        assert_eq!(allowed.held, BTreeSet::from(["b".to_owned()]));
    }

    #[test]
    fn a_step_without_a_time_ends_with_its_nodes() {
        let steps: Vec<RolloutStep> =
            serde_json::from_value(json!([{"nodes": 1}, {"nodes": 2}])).unwrap();
        let free = |nodes| {
            let (_, allowed) = follow(&steps, &members(nodes), record(0, None), "new", at(0));
            allowed.free
        };
        assert_eq!(free("a waiting, b waiting, d waiting"), Some(1));
        assert_eq!(free("a current, b waiting, d waiting"), Some(1));
        assert_eq!(free("a current, b current, d waiting"), None);
    }
}
