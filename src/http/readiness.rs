//! Whether the operator is ready, and what is wrong with it: the answer of `/readyz`, in the format of Kubernetes' own
//! servers.

use std::fmt::Write;
use std::sync::{Arc, PoisonError, RwLock, RwLockWriteGuard};

use crate::gate::GateReport;
use crate::lease::Standby;

/// What the answer depends on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Health {
    /// What has not been read from the cluster yet.
    pub unread: Option<String>,
    /// What was read once but cannot be read at present.
    pub stale: Option<String>,
    /// The state of the gate, if there is one.
    pub gate: Option<GateReport>,
    /// The last failed write that will be retried. It does not affect readiness: all other work goes on.
    pub unwritten: Option<String>,
}

/// The health that the controller last published, and the role of this process.
#[derive(Clone, Default)]
pub struct Readiness(Arc<RwLock<State>>);

#[derive(Default)]
struct State {
    role: Role,
    /// Why a standby process is not ready although another process leads.
    unwritten_gate: Option<String>,
    /// Absent until the first pass.
    health: Option<Health>,
}

#[derive(Default)]
enum Role {
    /// The lease has not been read yet.
    #[default]
    Unknown,
    Standby(Standby),
    Leader,
}

impl Readiness {
    /// Publishes the current health.
    pub fn publish(&self, health: Health) {
        self.state().health = Some(health);
    }

    /// Records that this process leads.
    pub fn leads(&self) {
        self.state().role = Role::Leader;
    }

    /// Records that this process is a standby, ready to take over if it can read and write the lease.
    pub fn stands_by(&self, standby: Standby) {
        self.state().role = Role::Standby(standby);
    }

    /// Records what is wrong with the gate from the view of a standby process. A ready pod counts as installed, and OLM
    /// treats a gate that no leader has written yet as open.
    pub fn sees_gate(&self, problem: Option<String>) {
        self.state().unwritten_gate = problem;
    }

    fn state(&self) -> RwLockWriteGuard<'_, State> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether the operator is ready, and each check. Problems, which contain object names, are included only if
    /// requested, which only clients in the pod may.
    pub fn answer(&self, is_verbose: bool) -> (bool, String) {
        let state = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let mut answer = Answer {
            is_verbose,
            text: String::new(),
        };
        let ready = match &state.role {
            Role::Leader => {
                answer.check("leader-election", None);
                leader(&mut answer, state.health.as_ref())
            }
            Role::Standby(Standby::Behind { holder }) => {
                answer.check("leader-election", None);
                answer.note(
                    "leader-election",
                    &format!("standing by: {holder} is the leader"),
                );
                let problem = state.unwritten_gate.as_deref();
                problem.is_none() || answer.check("operatorcondition", problem)
            }
            Role::Standby(Standby::Unable { problem }) => {
                answer.check("leader-election", Some(problem))
            }
            Role::Unknown => {
                answer.check("leader-election", Some("the lease has not been read yet"))
            }
        };
        let end = if ready { "passed" } else { "failed" };
        // Writing to a String does not fail.
        let _ = writeln!(answer.text, "readyz check {end}");
        (ready, answer.text)
    }
}

/// Adds the checks of a leader; returns whether all is well.
fn leader(answer: &mut Answer, health: Option<&Health>) -> bool {
    let Some(health) = health else {
        return answer.check("cluster-read", Some("nothing has been read yet"));
    };
    let mut ready = answer.check("cluster-read", health.unread.as_deref());
    if let Some(stale) = &health.stale {
        let words = format!("cannot be read at present: {stale}");
        answer.note("cluster-read", &words);
    }
    if let Some(report) = &health.gate {
        let is_set = report.is_written;
        let problem = (!is_set).then_some(report.message.as_str());
        ready &= answer.check("operatorcondition", problem);
        if is_set && report.reason != "Confirmed" {
            answer.note("operatorcondition", &report.message);
        }
    }
    if let Some(problem) = &health.unwritten {
        answer.note("writes", problem);
    }
    ready
}

/// An answer under construction.
struct Answer {
    is_verbose: bool,
    text: String,
}

impl Answer {
    /// Adds one check; returns whether all is well.
    fn check(&mut self, name: &str, problem: Option<&str>) -> bool {
        // Writing to a String does not fail.
        let _ = match problem {
            None => writeln!(self.text, "[+]{name} ok"),
            Some(problem) if self.is_verbose => writeln!(self.text, "[-]{name} failed: {problem}"),
            // The wording of Kubernetes' own servers.
            Some(_) => writeln!(self.text, "[-]{name} failed: reason withheld"),
        };
        problem.is_none()
    }

    /// Adds information that does not affect readiness.
    fn note(&mut self, name: &str, words: &str) {
        if self.is_verbose {
            // Writing to a String does not fail.
            let _ = writeln!(self.text, "[!]{name}: {words}");
        }
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
        let healthy = Health {
            unread: None,
            stale: None,
            gate: Some(report("Confirmed", "all is well", true)),
            unwritten: None,
        };
        readiness.publish(healthy.clone());
        let read = "[+]leader-election ok\n[+]cluster-read ok";
        says(true, &format!("{read}\n[+]operatorcondition ok"));
        readiness.publish(Health {
            gate: Some(report("NotFound", "there is none", false)),
            ..healthy.clone()
        });
        let failed = format!("{read}\n[-]operatorcondition failed:");
        says(false, &format!("{failed} there is none"));
        let withheld = format!("{failed} reason withheld\nreadyz check failed\n");
        assert_eq!(readiness.answer(false), (false, withheld));
        readiness.publish(Health {
            gate: Some(report("Overridden", "OLM does not care", true)),
            unwritten: Some("no".to_owned()),
            stale: Some("Pod (forbidden)".to_owned()),
            ..healthy.clone()
        });
        let notes = "[!]cluster-read: cannot be read at present: Pod (forbidden)\n[+]operatorcondition ok\n\
                     [!]operatorcondition: OLM does not care\n[!]writes: no";
        says(true, &format!("{read}\n{notes}"));
        // Without OLM there is nothing to write.
        readiness.publish(Health {
            gate: None,
            ..healthy
        });
        says(true, read);
    }

    #[test]
    fn a_process_that_stands_by_is_ready_to_take_over() {
        let readiness = Readiness::default();
        readiness.stands_by(Standby::Unable {
            problem: "no right to it".to_owned(),
        });
        let (ready, text) = readiness.answer(true);
        assert!(!ready && text.contains("[-]leader-election failed: no right to it\n"));
        readiness.stands_by(Standby::Behind {
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
