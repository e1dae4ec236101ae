//! Whether the operator is ready, and what is wrong with it: the answer of `/readyz`, in the form that Kubernetes' own
//! servers give it.

use std::fmt::Write;
use std::sync::{Arc, PoisonError, RwLock};

use crate::gate::GateReport;

/// What the answer follows from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Health {
    /// What has not been read of the cluster yet.
    pub unread: Option<String>,
    /// What was read once and cannot be read at present.
    pub stale: Option<String>,
    /// How the gate stands, where there is one, and whether it says what it shall.
    pub gate: Option<(GateReport, bool)>,
    /// The last write that failed and is to be tried again. It makes nothing unready: all else goes on.
    pub unwritten: Option<String>,
}

/// The health as the controller told it last.
#[derive(Clone)]
pub struct Readiness(Arc<RwLock<Health>>);

impl Default for Readiness {
    fn default() -> Self {
        Self(Arc::new(RwLock::new(Health {
            unread: Some("nothing has been read yet".to_owned()),
            stale: None,
            gate: None,
            unwritten: None,
        })))
    }
}

impl Readiness {
    /// Tells how it stands now.
    pub fn tell(&self, health: Health) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = health;
    }

    /// Whether the operator is ready, and each check with what is wrong.
    #[must_use]
    pub fn answer(&self) -> (bool, String) {
        let health = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let mut text = String::new();
        let mut ready = check(&mut text, "cluster-read", health.unread.as_deref());
        if let Some(stale) = &health.stale {
            // Writing to a String does not fail.
            let _ = writeln!(text, "[!]cluster-read: cannot be read at present: {stale}");
        }
        if let Some((report, is_set)) = &health.gate {
            let problem = (!is_set).then_some(report.message.as_str());
            ready &= check(&mut text, "operatorcondition", problem);
            if *is_set && report.reason != "Confirmed" {
                let _ = writeln!(text, "[!]operatorcondition: {}", report.message);
            }
        }
        if let Some(problem) = &health.unwritten {
            let _ = writeln!(text, "[!]writes: {problem}");
        }
        let end = if ready { "passed" } else { "failed" };
        let _ = writeln!(text, "readyz check {end}");
        (ready, text)
    }
}

/// One line of the answer. Says whether all is well.
fn check(text: &mut String, name: &str, problem: Option<&str>) -> bool {
    // Writing to a String does not fail.
    let _ = match problem {
        None => writeln!(text, "[+]{name} ok"),
        Some(problem) => writeln!(text, "[-]{name} failed: {problem}"),
    };
    problem.is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(reason: &'static str, message: &str) -> GateReport {
        GateReport {
            status: "True",
            reason,
            message: message.to_owned(),
        }
    }

    #[test]
    fn a_process_is_ready_when_it_has_read_and_written_and_says_what_else_is_wrong() {
        let readiness = Readiness::default();
        assert_eq!(
            readiness.answer(),
            (
                false,
                "[-]cluster-read failed: nothing has been read yet\nreadyz check failed\n"
                    .to_owned()
            )
        );
        let healthy = Health {
            unread: None,
            stale: None,
            gate: Some((report("Confirmed", "all is well"), true)),
            unwritten: None,
        };
        readiness.tell(healthy.clone());
        assert_eq!(
            readiness.answer(),
            (
                true,
                "[+]cluster-read ok\n[+]operatorcondition ok\nreadyz check passed\n".to_owned()
            )
        );
        readiness.tell(Health {
            gate: Some((report("NotFound", "there is none"), false)),
            ..healthy.clone()
        });
        let (ready, text) = readiness.answer();
        assert!(!ready && text.contains("[-]operatorcondition failed: there is none\n"));
        readiness.tell(Health {
            gate: Some((report("Overridden", "OLM does not care"), true)),
            unwritten: Some("no".to_owned()),
            stale: Some("Pod (forbidden)".to_owned()),
            ..healthy
        });
        assert_eq!(
            readiness.answer(),
            (
                true,
                "[+]cluster-read ok\n[!]cluster-read: cannot be read at present: Pod (forbidden)\n\
                 [+]operatorcondition ok\n[!]operatorcondition: OLM does not care\n\
                 [!]writes: no\nreadyz check passed\n"
                    .to_owned()
            )
        );
        readiness.tell(Health {
            unread: None,
            stale: None,
            gate: None,
            unwritten: None,
        });
        assert!(
            readiness.answer().0,
            "without OLM there is nothing to write"
        );
    }
}
