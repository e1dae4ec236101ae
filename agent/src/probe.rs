//! What a named pipe shows about the service behind it. An existing name proves nothing: another process may have taken it,
//! a program with an open connection may keep it, and a server may be stuck.

use std::collections::BTreeMap;

use protocol::seen::{SeenProcess, belongs_to};
use protocol::{Failure, FailureCategory};

/// The result of probing a pipe's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Probe {
    /// The name does not exist.
    Closed,
    /// The server is gone, but a program with an open connection keeps the name. No server can create the pipe again until
    /// that connection is closed.
    Kept,
    /// A server exists, but accepts no connection.
    Busy,
    /// A server accepts a connection but does not greet. Contains its process, if Windows reports it.
    Silent(Option<u32>),
    /// A server greets like a gRPC server. Contains its process, if Windows reports it.
    Greets(Option<u32>),
}

impl Probe {
    /// Returns the process that serves the pipe.
    pub fn server(self) -> Option<u32> {
        match self {
            Self::Closed | Self::Kept | Self::Busy => None,
            Self::Silent(server) | Self::Greets(server) => server,
        }
    }

    /// Returns why the service with the process `own` cannot be used on the pipe; `None` if it can.
    pub fn problem(self, own: Option<u32>, processes: &[SeenProcess]) -> Option<Problem> {
        let is_served = !matches!(self, Self::Closed | Self::Kept);
        if is_served && (own.is_none() || self.server().is_some_and(|id| own != Some(id))) {
            let id = self.server();
            let process = processes.iter().find(|process| Some(process.id) == id);
            // A wrapper may have started the serving process.
            if !process.is_some_and(|process| belongs_to(process, own)) {
                let who =
                    process.map(|process| format!("process {}, {}", process.id, process.program));
                let who = who.unwrap_or_else(|| "an unknown process".to_owned());
                return Some(Problem::Intruder(who));
            }
        }
        match self {
            Self::Closed => Some(Problem::Closed),
            Self::Kept => Some(Problem::Held),
            Self::Busy | Self::Silent(_) => Some(Problem::Silent),
            Self::Greets(_) => None,
        }
    }
}

/// Why a service cannot be used on a pipe.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// The name does not exist.
    #[error("it is closed")]
    Closed,
    /// The name exists, but no process serves it.
    #[error(
        "no process serves it, but its name is in use: a program with an open connection keeps it; end that program"
    )]
    Held,
    /// Its server does not greet.
    #[error("its server does not answer")]
    Silent,
    /// Another process serves it.
    #[error("it is served by {0}, which is not that service's; stop it, or remove what starts it")]
    Intruder(String),
}

impl Problem {
    /// Converts the problem to a failure of csi-proxy on that pipe.
    pub fn failure(&self, pipe: &str) -> Failure {
        let category = match self {
            Self::Closed | Self::Silent => FailureCategory::Other,
            Self::Held => FailureCategory::Interrupted,
            Self::Intruder(_) => FailureCategory::Foreign,
        };
        category.failure(format!("pipe {pipe} of csi-proxy: {self}"))
    }
}

/// Returns the first pipe on which a service cannot be used. Pipes that others hold come before those that are only missing.
pub fn first_problem(
    probes: &BTreeMap<String, Probe>,
    own: Option<u32>,
    processes: &[SeenProcess],
) -> Option<(String, Problem)> {
    let problems = probes.iter().filter_map(|(pipe, probe)| {
        let problem = probe.problem(own, processes)?;
        Some((pipe.clone(), problem))
    });
    problems.min_by_key(|(_, problem)| match problem {
        Problem::Intruder(_) => 0,
        Problem::Held => 1,
        Problem::Silent => 2,
        Problem::Closed => 3,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(id: u32, parent: u32) -> SeenProcess {
        SeenProcess {
            id,
            parent,
            program: format!(r"C:\{id}.exe"),
        }
    }

    #[test]
    fn only_the_services_own_process_that_greets_is_the_service() {
        let processes = [process(7, 1), process(8, 7), process(9, 1)];
        let intruder = |id| Some(Problem::Intruder(format!(r"process {id}, C:\{id}.exe")));
        for (probe, own, expected) in [
            (Probe::Closed, Some(7), Some(Problem::Closed)),
            (Probe::Busy, Some(7), Some(Problem::Silent)),
            (Probe::Kept, Some(7), Some(Problem::Held)),
            (Probe::Kept, None, Some(Problem::Held)),
            (
                Probe::Busy,
                None,
                Some(Problem::Intruder("an unknown process".to_owned())),
            ),
            (Probe::Silent(Some(7)), Some(7), Some(Problem::Silent)),
            (Probe::Greets(Some(7)), Some(7), None),
            // The serving process is unknown, but the server greets.
            (Probe::Greets(None), Some(7), None),
            // The child process of a wrapper.
            (Probe::Greets(Some(8)), Some(7), None),
            (Probe::Greets(Some(9)), Some(7), intruder(9)),
            (Probe::Silent(Some(9)), Some(7), intruder(9)),
            (Probe::Greets(Some(9)), None, intruder(9)),
            (
                Probe::Greets(None),
                None,
                Some(Problem::Intruder("an unknown process".to_owned())),
            ),
        ] {
            assert_eq!(
                probe.problem(own, &processes),
                expected,
                "{probe:?} {own:?}"
            );
        }
    }

    #[test]
    fn who_is_in_the_way_is_named_first() {
        let probes = BTreeMap::from([
            ("a".to_owned(), Probe::Closed),
            ("b".to_owned(), Probe::Greets(Some(7))),
            ("c".to_owned(), Probe::Silent(Some(9))),
        ]);
        let (pipe, problem) = first_problem(&probes, Some(7), &[process(9, 1)]).unwrap();
        assert_eq!(pipe, "c");
        let failure = problem.failure(&pipe);
        assert_eq!(failure.category, FailureCategory::Foreign);
        assert!(
            failure.message.contains(r"process 9, C:\9.exe"),
            "{failure}"
        );
    }
}
