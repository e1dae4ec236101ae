//! Runs one Windows host through everything that the operator does with a node, with the operator's own code, and
//! reports for each step what was expected and what was observed.

mod line;
mod programs;
mod steps;

use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};

use protocol::NodeState;
use protocol::paths::{CSI_PROXY_EXE, to_sftp};
use serde::Serialize;

use crate::node::connect::{Connected, HANDSHAKE, connect};
use crate::node::host::Host;
use crate::node::look::{has_kubelet, look};
use crate::node::payload::{Payload, PayloadError};
use crate::node::reconcile::{Reconciled, WORK, work_on};
use crate::node::{Judgement, Look, NodeError, Purpose, Reason, RolloutSlots, Target};

use line::Line;
use programs::Programs;
use steps::{Step, end, observed, steps};

/// The kubelet's folder for pods and plugins on Windows, as an SFTP path.
const KUBELET_FOLDER: &str = "C:/var/lib/kubelet";

/// Tries all steps on one host.
pub struct Verification {
    target: Target,
    programs: Programs,
    /// Speed of the slow line, in bytes per second.
    slow: u64,
}

/// State of the host before anything is changed.
#[derive(Debug)]
pub struct Before {
    /// The banner of its SSH server.
    pub server: String,
    /// Why nothing should be tried there, if so.
    pub in_use: Option<String>,
}

/// Result of one step.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Tried {
    /// Name of the step.
    pub id: &'static str,
    /// Expected result.
    pub expected: String,
    /// Observed result.
    pub observed: String,
    /// Problem that the operator would report for the node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// How long csi-proxy did not answer, as measured by the agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interruption_milliseconds: Option<u64>,
    /// Duration of the step.
    pub milliseconds: u64,
    /// Whether the observed result is the expected one.
    pub fits: bool,
}

impl Verification {
    /// Creates a verification. `target`: the host; its desired state is ignored. `other`: a csi-proxy other than the
    /// payload's; by default, the payload's with another hash. `slow`: speed of the slow line, in bytes per second.
    pub fn new(
        target: Target,
        payload: Payload,
        other: Option<&Path>,
        slow: u64,
    ) -> Result<Self, PayloadError> {
        Ok(Self {
            target,
            programs: Programs::new(payload, other)?,
            slow,
        })
    }

    /// Inspects the host without changing anything.
    pub async fn look(&self) -> Result<Before, NodeError> {
        self.logged_in(|host| {
            let mut in_use = has_kubelet(&mut host.session)?;
            // Covers a kubelet that is stopped, or that is part of another service.
            if in_use.is_none() && host.session.exists(KUBELET_FOLDER)? {
                in_use = Some(format!("the folder {KUBELET_FOLDER} of a kubelet is there"));
            }
            if in_use.is_none() && host.has_agent()? {
                in_use = Some("the operator's agent is installed there".to_owned());
            }
            if in_use.is_none()
                && let Look::Owner(who) = look(&mut host.session, false)?
            {
                in_use = Some(format!("a csi-proxy is there: {who}"));
            }
            let server = host.session.server();
            Ok(Before { server, in_use })
        })
        .await
    }

    /// Runs all steps; the last one removes everything again. Calls `begins` with the name of each step, and `report`
    /// with its result.
    pub async fn run(&self, begins: &mut dyn FnMut(&str), report: &mut dyn FnMut(&Tried)) {
        for step in steps(&self.programs, self.slow) {
            begins(step.id);
            report(&self.attempt(&step).await);
        }
        begins("uninstall");
        report(&self.uninstall().await);
    }

    async fn attempt(&self, step: &Step<'_>) -> Tried {
        let before = self.state().await.ok().flatten();
        let payload = Payload {
            csi_proxy: step.brings.clone(),
            agent: step.agent.clone(),
        };
        let target = Target {
            desired: Ok(programs::desired_by(&payload)),
            ..self.target.clone()
        };
        let (problem, took) = self.reconcile(step.line, payload, target).await;
        let after = self.state().await;
        let seen = match &after {
            Ok(after) => observed(step, problem.as_ref(), before.as_ref(), after.as_ref()),
            Err(error) => format!("the host cannot be inspected: {error}"),
        };
        let last = after.ok().flatten().and_then(|state| state.last_result);
        let interruption = last
            .filter(|_| step.restarts)
            .and_then(|last| last.end.interruption_milliseconds);
        Tried {
            interruption_milliseconds: interruption,
            ..tried(step.id, step.expected(), seen, problem, took)
        }
    }

    async fn uninstall(&self) -> Tried {
        let target = Target {
            purpose: Purpose::Remove,
            ..self.target.clone()
        };
        let payload = self.programs.payload.clone();
        let (problem, took) = self.reconcile(Line::Plain, payload, target).await;
        let rest = self.logged_in(|host| {
            let has_program = host.session.exists(&to_sftp(CSI_PROXY_EXE))?;
            Ok(match look(&mut host.session, false)? {
                _ if host.has_agent()? => "something of the agent is left",
                _ if has_program => "csi-proxy is left",
                Look::Owner(_) => "Windows still knows a csi-proxy",
                _ => "nothing is left",
            })
        });
        let seen = match rest.await {
            Ok(rest) => format!("{}; {rest}", end(problem.as_ref())),
            Err(error) => format!("the host cannot be inspected: {error}"),
        };
        let expected = "done; nothing is left".to_owned();
        tried("uninstall", expected, seen, problem, took)
    }

    /// Reconciles the host as the operator reconciles a node that has a rollout slot.
    async fn reconcile(
        &self,
        line: Line,
        payload: Payload,
        target: Target,
    ) -> (Option<NodeError>, Duration) {
        let slots = RolloutSlots::default();
        let all = BTreeSet::from([target.node.clone()]);
        slots.decide(|_| (all.clone(), ()));
        slots.hand_out(&all);
        let begin = Instant::now();
        let done = self.over(line, payload, move |host| {
            work_on(host, &target, &target.desired, &slots)
        });
        let problem = match done.await {
            Ok(Reconciled { problem, .. }) => problem,
            Err(error) => Some(error),
        };
        (problem, begin.elapsed())
    }

    /// Returns the node's state from the agent; `None` if there is no agent.
    async fn state(&self) -> Result<Option<NodeState>, NodeError> {
        self.logged_in(Host::status).await
    }

    async fn logged_in<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Host) -> Result<T, NodeError> + Send + 'static,
    ) -> Result<T, NodeError> {
        let (user, key) = (self.target.user.clone(), self.target.key.clone());
        let payload = self.programs.payload.clone();
        self.over(Line::Plain, payload, move |mut host| {
            host.login(&user, &key)?;
            work(&mut host)
        })
        .await
    }

    /// Connects over this line, and runs `work` on the connection.
    async fn over<T: Send + 'static>(
        &self,
        line: Line,
        payload: Payload,
        work: impl FnOnce(Host) -> Result<T, NodeError> + Send + 'static,
    ) -> Result<T, NodeError> {
        let target = &self.target;
        let way = line
            .lead_to((&target.address, target.port))
            .map_err(|error| Reason::Unreachable.error(format!("no local port: {error}")))?;
        let connected: Connected = connect((&way.0, way.1), &target.host_keys, HANDSHAKE).await?;
        let shown = &connected.key;
        if target.host_keys.judge("", &target.node, shown) != Judgement::Known {
            let shown = shown.summary();
            return Err(Reason::HostKeyUnknown.error(format!(
                "the host shows the SSH host key {shown}, which is not one that is trusted; nothing was sent to it"
            )));
        }
        let work = move |session, phases| work(Host::new(session, payload, phases));
        connected.work(WORK, "work on the host", work).await
    }
}

fn tried(
    id: &'static str,
    expected: String,
    observed: String,
    problem: Option<NodeError>,
    took: Duration,
) -> Tried {
    Tried {
        id,
        fits: observed == expected,
        expected,
        observed,
        problem: problem.map(|error| error.to_string()),
        interruption_milliseconds: None,
        milliseconds: u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
    }
}
