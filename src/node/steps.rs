//! The steps of a rollout: which nodes wait because the nodes before them have to show first that what they got works.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};

use crate::api::RolloutStep;
use crate::node::{Candidate, Standing};

/// How far the steps are. It is kept in the status, so that a process after this one goes on from there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StepRecord {
    /// What is rolled out.
    pub revision: String,
    /// Steps that are finished, their soak time included.
    pub completed: usize,
    /// Since when the nodes of the next step are as desired, and csi-proxy answers on them.
    pub soaking_since: Option<Timestamp>,
}

/// What the first step that is not finished waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepState {
    /// Its nodes are updated.
    Updating,
    /// Its nodes have to go on answering until then, and to be looked at after that.
    Soaking(Timestamp),
    /// What is desired did not work on some of its nodes and was undone.
    Failed,
    /// It has no node on which anything could show.
    NoNodes,
    /// Not all of its nodes have been looked at.
    Unseen,
}

/// How far the steps are, and who waits for that.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Steps {
    /// To be kept.
    pub record: StepRecord,
    /// How many steps there are.
    pub of: usize,
    /// What the first step that is not finished waits for.
    pub state: Option<StepState>,
    /// The nodes that wait for another step than their own.
    pub held: BTreeSet<String>,
}

/// A node as steps see it.
pub struct Member {
    /// The node.
    pub candidate: Candidate,
    /// When it was last looked at.
    pub seen: Option<Timestamp>,
    /// The steps that name it, each by its place.
    pub steps: Vec<bool>,
}

/// How far the steps are now. Nodes from which csi-proxy is removed are not to be among the members.
#[must_use]
pub fn follow(
    steps: &[RolloutStep],
    members: &BTreeMap<String, Member>,
    before: StepRecord,
    revision: &str,
    now: Timestamp,
) -> Steps {
    let mut record = before;
    if record.revision != revision {
        record = StepRecord {
            revision: revision.to_owned(),
            ..StepRecord::default()
        };
    }
    record.completed = record.completed.min(steps.len());
    let mut state = None;
    while let Some(step) = steps.get(record.completed) {
        let part = Part::of(record.completed, step, members);
        let found = part.state(&mut record.soaking_since, step, now);
        state = found;
        if found.is_some() {
            break;
        }
        record.completed += 1;
        record.soaking_since = None;
    }
    let held = match steps.get(record.completed) {
        Some(step) => Part::of(record.completed, step, members).others(members),
        None => BTreeSet::new(),
    };
    Steps {
        record,
        of: steps.len(),
        state,
        held,
    }
}

/// The nodes of one step.
struct Part<'a> {
    members: BTreeMap<&'a str, &'a Member>,
    /// How many of them are to be updated, where not all are.
    number: Option<usize>,
}

impl<'a> Part<'a> {
    fn of(place: usize, step: &RolloutStep, members: &'a BTreeMap<String, Member>) -> Self {
        let number = step.number_of(members.len());
        let is_in = |member: &Member| number.is_some() || member.steps[place];
        let members = members.iter().filter(|(_, member)| is_in(member));
        Self {
            members: members.map(|(name, it)| (name.as_str(), it)).collect(),
            number,
        }
    }

    fn count(&self, is: impl Fn(&Candidate) -> bool) -> usize {
        let members = self.members.values();
        members.filter(|member| is(&member.candidate)).count()
    }

    /// What it waits for; `None` once it is finished.
    fn state(
        &self,
        soaking_since: &mut Option<Timestamp>,
        step: &RolloutStep,
        now: Timestamp,
    ) -> Option<StepState> {
        let current = self.count(is_current);
        let is_left = match self.number {
            Some(number) => current < number && self.count(is_to_be_updated) > 0,
            None => self.count(is_to_be_updated) > 0,
        };
        let is_away = |it: &Candidate| it.down || it.at_work;
        let has_failed = self.number.is_none() && self.count(is_failed) > 0;
        if is_left || has_failed || self.count(is_away) > 0 {
            *soaking_since = None;
            let is_failed = has_failed && !is_left;
            return Some(if is_failed {
                StepState::Failed
            } else {
                StepState::Updating
            });
        }
        if self.count(|it| it.standing == Standing::Unseen) > 0 {
            return Some(StepState::Unseen);
        }
        if current == 0 {
            *soaking_since = None;
            return Some(StepState::NoNodes);
        }
        let since = *soaking_since.get_or_insert(now);
        let soak = SignedDuration::from_secs(step.soak_seconds.into());
        let until = since.saturating_add(soak).unwrap_or(Timestamp::MAX);
        let is_confirmed = |member: &&Member| {
            !is_current(&member.candidate) || member.seen.is_some_and(|seen| seen >= until)
        };
        let is_over = now >= until && self.members.values().copied().all(|it| is_confirmed(&it));
        (step.soak_seconds > 0 && !is_over).then_some(StepState::Soaking(until))
    }

    /// The nodes that are not to be updated in this step.
    fn others(&self, all: &BTreeMap<String, Member>) -> BTreeSet<String> {
        let begun = self.count(|it| is_current(it) || it.at_work);
        let free = self.number.map(|number| number.saturating_sub(begun));
        let waiting = self.members.iter();
        let mut waiting: Vec<_> = waiting
            .filter(|(_, it)| is_to_be_updated(&it.candidate) && !it.candidate.at_work)
            .collect();
        waiting.sort_by_key(|(name, it)| it.candidate.order(name));
        let allowed = waiting.into_iter().take(free.unwrap_or(usize::MAX));
        let allowed: BTreeSet<&str> = allowed.map(|(name, _)| *name).collect();
        let names = all.iter().filter(|(name, it)| {
            is_to_be_updated(&it.candidate)
                && !it.candidate.at_work
                && !allowed.contains(name.as_str())
        });
        names.map(|(name, _)| name.clone()).collect()
    }
}

fn is_current(candidate: &Candidate) -> bool {
    candidate.standing == Standing::Current && !candidate.at_work
}

fn is_to_be_updated(candidate: &Candidate) -> bool {
    candidate.standing == Standing::Waiting
}

fn is_failed(candidate: &Candidate) -> bool {
    candidate.standing == Standing::Failed
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// Minutes after some moment.
    fn at(minutes: i64) -> Timestamp {
        Timestamp::from_second(1_000_000 + 60 * minutes).unwrap()
    }

    /// Nodes, each with its name, its standing, and what else is true of it: `c` as a member of the first step, `3` as one that
    /// was looked at in that minute.
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
                ..Candidate::default()
            };
            let seen = words.iter().find_map(|word| word.parse().ok());
            let member = Member {
                candidate,
                seen: seen.map(at),
                steps: vec![words.contains(&"c"), false],
            };
            (words[0].to_owned(), member)
        };
        text.split(", ").map(member).collect()
    }

    /// A canary that is watched for 30 minutes, then half of the nodes for ten, then the others.
    fn steps() -> Vec<RolloutStep> {
        serde_json::from_value(json!([
            {"nodeSelector": {"canary": "yes"}, "soakSeconds": 1800},
            {"nodes": "50%", "soakSeconds": 600},
        ]))
        .unwrap()
    }

    fn record(completed: usize, soaking_since: Option<i64>) -> StepRecord {
        StepRecord {
            revision: "new".to_owned(),
            completed,
            soaking_since: soaking_since.map(at),
        }
    }

    /// Steps completed and the minute since when the next one soaks, now, and the nodes; then the same, what the step waits for, and who
    /// waits for it.
    const LIFE: &str = "
        # Only the canary begins.
        0 - at 0: a waiting c, b waiting, d waiting -> 0 - Updating: b d
        0 - at 0: a waiting c at-work, b waiting -> 0 - Updating: b
        0 - at 5: a current c 5, b waiting -> 0 5 Soaking 35: b
        0 5 at 34: a current c 34, b waiting -> 0 5 Soaking 35: b
        # The time is over, and the look at it was before.
        0 5 at 36: a current c 34, b waiting -> 0 5 Soaking 35: b
        # Half of the nodes: one of two has it already, two of four have not.
        0 5 at 36: a current c 36, b waiting -> 1 36 Soaking 46: b
        0 5 at 36: a current c 36, b waiting, d waiting, e waiting -> 1 - Updating: d e
        1 - at 40: a current c, b waiting at-work, d waiting, e waiting -> 1 - Updating: d e
        1 40 at 51: a current c 51, b current 51, d waiting, e waiting -> 2 - -:
        # Something is wrong in the meantime: the time begins again.
        0 5 at 20: a current c down, b waiting -> 0 - Updating: b
        1 40 at 51: a current c, b current down, d waiting, e waiting -> 1 - Updating: d e
        # After a start nothing has been looked at yet: the time goes on.
        0 5 at 50: a unseen c, b unseen -> 0 5 Unseen:
        0 5 at 50: a unseen c, b waiting -> 0 5 Unseen: b
        # Nothing shows whether it works.
        0 5 at 50: a unreachable c, b waiting -> 0 - NoNodes: b
        0 - at 50: a waiting, b waiting -> 0 - NoNodes: a b
        # One of several that is dead holds nobody up.
        0 5 at 36: a current c 36, b unreachable c, d current -> 1 36 Soaking 46:
        0 - at 50: a failed c, b waiting -> 0 - Failed: b
        # A canary that comes when its step is over waits like all others.
        1 - at 50: a waiting c, b waiting, d waiting -> 1 - Updating: d
        # Steps were taken away.
        9 - at 50: a waiting c, b waiting -> 2 - -:
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
            let found = follow(&steps(), &members(nodes), before, "new", now);
            let state = match found.state {
                None => "-".to_owned(),
                Some(StepState::Soaking(until)) => format!("Soaking {}", minute(Some(until))),
                Some(state) => format!("{state:?}"),
            };
            let held: Vec<_> = found.held.into_iter().collect();
            let StepRecord {
                completed,
                soaking_since,
                ..
            } = found.record;
            let since = minute(soaking_since);
            let found = format!("{completed} {since} {state}: {}", held.join(" "));
            assert_eq!(found.trim_end(), expected, "{line}");
        }
    }

    #[test]
    fn something_else_begins_with_the_first_step() {
        let nodes = members("a waiting c, b waiting");
        let found = follow(&steps(), &nodes, record(2, None), "newer", at(0));
        assert_eq!(found.record.completed, 0);
        assert_eq!(found.record.revision, "newer");
        assert_eq!(found.held, BTreeSet::from(["b".to_owned()]));
    }

    #[test]
    fn a_step_without_a_time_ends_with_its_nodes() {
        let steps: Vec<RolloutStep> =
            serde_json::from_value(json!([{"nodes": 1}, {"nodes": 2}])).unwrap();
        let held = |nodes| {
            let found = follow(&steps, &members(nodes), record(0, None), "new", at(0));
            found.held.into_iter().collect::<Vec<_>>().join(" ")
        };
        assert_eq!(held("a waiting, b waiting, d waiting"), "b d");
        assert_eq!(held("a current, b waiting, d waiting"), "d");
        assert_eq!(held("a current, b current, d waiting"), "");
        // In place of one on which it did not work there is another one.
        assert_eq!(held("a failed, b waiting, d waiting"), "d");
        assert_eq!(held("a unreachable, b waiting, d waiting"), "d");
    }
}
