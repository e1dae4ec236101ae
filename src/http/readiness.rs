//! Whether the operator is ready, and what is wrong with it: the answer of `/readyz`, in the format of Kubernetes' own
//! servers.

use std::fmt::Write;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::gate::GateReport;
use crate::lease::Standby;

const ELECTION: &str = "leader-election";
const READ: &str = "cluster-read";
const GATE: &str = "operatorcondition";

/// What is said of a check.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Outcome {
    /// All is well.
    Passed,
    /// Why the process is not ready.
    Failed(String),
    /// What does not affect readiness.
    Note(String),
}

impl From<Option<String>> for Outcome {
    fn from(problem: Option<String>) -> Self {
        problem.map_or(Self::Passed, Self::Failed)
    }
}

/// The lines of an answer, each with the name of its check.
type Lines = Vec<(&'static str, Outcome)>;

/// What this process last said of itself.
#[derive(Clone)]
pub struct Readiness(Arc<Mutex<Lines>>);

impl Default for Readiness {
    fn default() -> Self {
        let unread = Outcome::Failed("the lease has not been read yet".to_owned());
        Self(Arc::new(Mutex::new(vec![(ELECTION, unread)])))
    }
}

impl Readiness {
    /// Publishes the health of a leader. `unread`: what has not been read from the cluster yet; `stale`: what was read once but
    /// cannot be read at present; `unwritten`: the last failed write that will be retried, while all other work goes on.
    pub fn publish(
        &self,
        unread: Option<String>,
        stale: &str,
        gate: &GateReport,
        unwritten: Option<String>,
    ) {
        let mut lines = vec![(ELECTION, Outcome::Passed), (READ, unread.into())];
        if !stale.is_empty() {
            let words = format!("cannot be read at present: {stale}");
            lines.push((READ, Outcome::Note(words)));
        }
        if gate.is_of_olm {
            let message = || gate.message.clone();
            lines.push((GATE, (!gate.is_written).then(message).into()));
            if gate.is_written && gate.reason != "Confirmed" {
                lines.push((GATE, Outcome::Note(message())));
            }
        }
        lines.extend(unwritten.map(|problem| ("writes", Outcome::Note(problem))));
        *self.lines() = lines;
    }

    /// Records that this process leads.
    pub fn leads(&self) {
        let unread = Outcome::Failed("nothing has been read yet".to_owned());
        *self.lines() = vec![(ELECTION, Outcome::Passed), (READ, unread)];
    }

    /// Records that this process is a standby, ready to take over if it can read and write the lease.
    pub fn stands_by(&self, standby: &Standby) {
        let said = match standby {
            Standby::Unable { problem } => vec![Outcome::Failed(problem.clone())],
            Standby::Behind { holder } => {
                let words = format!("standing by: {holder} is the leader");
                vec![Outcome::Passed, Outcome::Note(words)]
            }
        };
        self.say(ELECTION, said);
    }

    /// Records what is wrong with the gate from the view of a standby process. A ready pod counts as installed, and OLM
    /// treats a gate that no leader has written yet as open.
    pub fn sees_gate(&self, problem: Option<String>) {
        self.say(GATE, problem.map(Outcome::Failed));
    }

    /// Replaces what is said of one check.
    fn say(&self, check: &'static str, said: impl IntoIterator<Item = Outcome>) {
        let mut lines = self.lines();
        lines.retain(|(name, _)| *name != check);
        lines.extend(said.into_iter().map(|outcome| (check, outcome)));
    }

    fn lines(&self) -> MutexGuard<'_, Lines> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether the operator is ready, and each check. Problems, which contain object names, are included only if
    /// requested, which only clients in the pod may.
    pub fn answer(&self, is_verbose: bool) -> (bool, String) {
        let lines = self.lines();
        let mut text = String::new();
        for (name, outcome) in lines.iter() {
            // Writing to a String does not fail.
            let _ = match outcome {
                Outcome::Passed => writeln!(text, "[+]{name} ok"),
                Outcome::Failed(problem) if is_verbose => {
                    writeln!(text, "[-]{name} failed: {problem}")
                }
                // The wording of Kubernetes' own servers.
                Outcome::Failed(_) => writeln!(text, "[-]{name} failed: reason withheld"),
                Outcome::Note(words) if is_verbose => writeln!(text, "[!]{name}: {words}"),
                Outcome::Note(_) => Ok(()),
            };
        }
        let is_ready = !(lines.iter()).any(|(_, it)| matches!(it, Outcome::Failed(_)));
        let end = if is_ready { "passed" } else { "failed" };
        let _ = writeln!(text, "readyz check {end}");
        (is_ready, text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(reason: &'static str, message: &str, is_written: bool) -> GateReport {
        GateReport {
            is_of_olm: true,
            status: "True",
            reason,
            message: message.to_owned(),
            is_written,
            ..GateReport::default()
        }
    }

    #[test]
    fn a_process_is_ready_when_it_has_read_and_written_and_says_what_else_is_wrong() {
        let readiness = Readiness::default();
        let says = |is_ready: bool, lines: &str| {
            let end = if is_ready { "passed" } else { "failed" };
            let text = format!("{lines}\nreadyz check {end}\n");
            assert_eq!(readiness.answer(true), (is_ready, text));
        };
        let unread = "[-]leader-election failed: the lease has not been read yet";
        says(false, unread);
        readiness.leads();
        let unread = "[-]cluster-read failed: nothing has been read yet";
        says(false, &format!("[+]leader-election ok\n{unread}"));
        readiness.publish(None, "", &report("Confirmed", "all is well", true), None);
        let read = "[+]leader-election ok\n[+]cluster-read ok";
        says(true, &format!("{read}\n[+]operatorcondition ok"));
        readiness.publish(None, "", &report("NotFound", "there is none", false), None);
        let failed = format!("{read}\n[-]operatorcondition failed:");
        says(false, &format!("{failed} there is none"));
        let withheld = format!("{failed} reason withheld\nreadyz check failed\n");
        assert_eq!(readiness.answer(false), (false, withheld));
        let overridden = report("Overridden", "OLM does not care", true);
        readiness.publish(None, "Pod (forbidden)", &overridden, Some("no".to_owned()));
        let notes = "[!]cluster-read: cannot be read at present: Pod (forbidden)\n[+]operatorcondition ok\n\
                     [!]operatorcondition: OLM does not care\n[!]writes: no";
        says(true, &format!("{read}\n{notes}"));
        // Without OLM there is nothing to write.
        readiness.publish(None, "", &GateReport::default(), None);
        says(true, read);
    }

    #[test]
    fn a_process_that_stands_by_is_ready_to_take_over() {
        let readiness = Readiness::default();
        readiness.stands_by(&Standby::Unable {
            problem: "no right to it".to_owned(),
        });
        let (ready, text) = readiness.answer(true);
        assert!(!ready && text.contains("[-]leader-election failed: no right to it\n"));
        readiness.stands_by(&Standby::Behind {
            holder: "pod-1".to_owned(),
        });
        let text = "[+]leader-election ok\n[!]leader-election: standing by: pod-1 is the leader\n\
                    readyz check passed\n";
        assert_eq!(readiness.answer(true), (true, text.to_owned()));
        readiness.sees_gate(Some("not written yet".to_owned()));
        let (ready, text) = readiness.answer(true);
        assert!(!ready && text.contains("[-]operatorcondition failed: not written yet\n"));
        let (_, text) = readiness.answer(false);
        assert!(!text.contains("pod-1") && !text.contains("not written yet"));
        readiness.sees_gate(None);
        assert!(readiness.answer(true).0);
        readiness.leads();
        assert!(!readiness.answer(true).0, "it has read nothing yet");
    }
}
