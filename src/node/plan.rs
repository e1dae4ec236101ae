//! The next step on a node, from what it shall look like and what was seen there.

use windows_storage_agent::protocol::{NodeState, Request, ServiceState};

use crate::node::Desired;

/// What was seen on the node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Observed {
    /// The agent's program is not there.
    NoAgent,
    /// It is there but gives no answer that makes sense.
    SilentAgent,
    /// It answered.
    State(Box<NodeState>),
}

/// What to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Bring the agent and install it.
    BringAgent,
    /// Install the agent that is there: its service does not run.
    InstallAgent,
    /// Hand over the request, with the files that differ.
    Apply {
        /// Whether csi-proxy's binary must be sent.
        with_files: bool,
    },
    /// The node is as it should be.
    Done,
}

/// The next step.
#[must_use]
pub fn next_step(desired: &Desired, observed: &Observed) -> Step {
    let state = match observed {
        Observed::NoAgent | Observed::SilentAgent => return Step::BringAgent,
        Observed::State(state) => state,
    };
    if state.agent_sha256.as_deref() != Some(desired.agent_sha256.as_str()) {
        return Step::BringAgent;
    }
    if state.agent_service != ServiceState::Running {
        return Step::InstallAgent;
    }
    let with_files = !has_files(&desired.request, state);
    let kept = state.request_id.as_deref() == Some(desired.request.id.as_str());
    if with_files
        || !kept
        || state.unfinished_request_id.is_some()
        || !is_working(&desired.request, state)
    {
        return Step::Apply { with_files };
    }
    Step::Done
}

fn has_files(request: &Request, state: &NodeState) -> bool {
    request.files.iter().all(|file| {
        state.files.iter().any(|found| {
            found.path.eq_ignore_ascii_case(&file.path)
                && found.sha256.as_deref() == Some(file.sha256.as_str())
        })
    })
}

/// Whether all services run and all pipes are open.
fn is_working(request: &Request, state: &NodeState) -> bool {
    let runs = |name: &str| {
        state
            .services
            .iter()
            .any(|service| service.name == name && service.state == ServiceState::Running)
    };
    let open = |name: &str| {
        state
            .pipes
            .iter()
            .any(|pipe| pipe.name == name && pipe.open)
    };
    request.services.iter().all(|service| runs(&service.name))
        && request
            .pipes
            .iter()
            .flat_map(|service| &service.pipes)
            .all(|pipe| open(pipe))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use windows_storage_agent::protocol::{
        DesiredFile, FileStatus, PipeStatus, ServicePipes, ServiceStatus,
    };

    use super::*;
    use crate::services::csi_proxy_service;

    fn desired() -> Desired {
        Desired {
            agent_sha256: "agent".to_owned(),
            request: Request {
                id: "request".to_owned(),
                files: vec![DesiredFile {
                    path: r"C:\k\csi-proxy.exe".to_owned(),
                    sha256: "new".to_owned(),
                    upload: None,
                }],
                services: vec![csi_proxy_service(&[])],
                pipes: vec![ServicePipes {
                    service: "csi-proxy".to_owned(),
                    pipes: vec!["p".to_owned()],
                }],
                stop_timeout_seconds: 1,
                start_timeout_seconds: 1,
                environment: BTreeMap::new(),
                replace_foreign: false,
            },
        }
    }

    fn good() -> NodeState {
        NodeState {
            agent_version: "1".to_owned(),
            agent_sha256: Some("agent".to_owned()),
            agent_service: ServiceState::Running,
            request_id: Some("request".to_owned()),
            unfinished_request_id: None,
            services: vec![ServiceStatus {
                name: "csi-proxy".to_owned(),
                state: ServiceState::Running,
                process_id: Some(1),
                command: None,
                restarts: 0,
                failing: None,
            }],
            files: vec![FileStatus {
                path: r"c:\k\CSI-Proxy.exe".to_owned(),
                sha256: Some("new".to_owned()),
            }],
            pipes: vec![PipeStatus {
                name: "p".to_owned(),
                open: true,
            }],
            ..NodeState::default()
        }
    }

    fn step(change: impl FnOnce(&mut NodeState)) -> Step {
        let mut state = good();
        change(&mut state);
        next_step(&desired(), &Observed::State(Box::new(state)))
    }

    #[test]
    fn a_node_as_it_should_be_is_left_alone() {
        assert_eq!(step(|_| ()), Step::Done);
    }

    #[test]
    fn the_agent_comes_first() {
        assert_eq!(next_step(&desired(), &Observed::NoAgent), Step::BringAgent);
        assert_eq!(
            next_step(&desired(), &Observed::SilentAgent),
            Step::BringAgent
        );
        assert_eq!(
            step(|state| state.agent_sha256 = Some("old".to_owned())),
            Step::BringAgent
        );
        assert_eq!(step(|state| state.agent_sha256 = None), Step::BringAgent);
        assert_eq!(
            step(|state| state.agent_service = ServiceState::Stopped),
            Step::InstallAgent
        );
    }

    #[test]
    fn only_what_differs_is_sent() {
        let without = Step::Apply { with_files: false };
        assert_eq!(
            step(|state| state.files[0].sha256 = Some("old".to_owned())),
            Step::Apply { with_files: true }
        );
        assert_eq!(
            step(|state| state.files.clear()),
            Step::Apply { with_files: true }
        );
        assert_eq!(step(|state| state.request_id = None), without);
        assert_eq!(
            step(|state| state.unfinished_request_id = Some("request".to_owned())),
            without
        );
        assert_eq!(
            step(|state| state.services[0].state = ServiceState::Stopped),
            without
        );
        assert_eq!(step(|state| state.services.clear()), without);
        assert_eq!(step(|state| state.pipes[0].open = false), without);
        assert_eq!(step(|state| state.pipes.clear()), without);
    }
}
