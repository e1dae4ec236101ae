//! Takes one Windows host through all that the operator does with a node, by the operator's own code, and says of each step
//! what was expected and what was observed.

mod line;
mod programs;
mod steps;

use std::path::Path;
use std::time::{Duration, Instant};

use protocol::NodeState;
use protocol::paths::{CSI_PROXY_EXE, to_sftp};
use serde::Serialize;

use crate::node::connect::{Connected, HANDSHAKE, connect};
use crate::node::host::Host;
use crate::node::look::{has_kubelet, look};
use crate::node::reconcile::{Reconciled, WORK, work_on};
use crate::node::{Judgement, Look, NodeError, Purpose, Reason, RolloutSlots, Target};
use crate::payload::{Payload, PayloadError};

use line::Line;
use programs::Programs;
use steps::{Step, end, observed, steps};

/// Where kubelets keep pods and plugins on Windows, by SFTP's name.
const KUBELET_FOLDER: &str = "C:/var/lib/kubelet";

/// Tries each thing on one host.
pub struct Verification {
    target: Target,
    programs: Programs,
    /// In bytes per second.
    slow: u64,
}

/// What is known of the host before anything is changed there.
#[derive(Debug)]
pub struct Before {
    /// What its SSH server calls itself.
    pub server: String,
    /// Why nothing should be tried there.
    pub in_use: Option<String>,
}

/// One thing that was tried.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Tried {
    /// What it is called.
    pub id: &'static str,
    /// What should come of it.
    pub expected: String,
    /// What came of it.
    pub observed: String,
    /// What the operator would report of the node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// How long csi-proxy did not answer, as the agent has measured it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interruption_milliseconds: Option<u64>,
    /// How long it took.
    pub milliseconds: u64,
    /// Whether that was expected.
    pub fits: bool,
}

impl Verification {
    /// `target`: where the host is; what is desired of it does not count. `other`: another csi-proxy than the payload's; without
    /// it that one is taken, with another hash. `slow`: what goes over a slow line, in bytes per second.
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

    /// Looks at the host, and changes nothing there.
    pub async fn look(&self) -> Result<Before, NodeError> {
        self.logged_in(|host| {
            let mut in_use = has_kubelet(&mut host.session)?;
            // One that is stopped, and a part of another service.
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

    /// Goes through all steps, of which the last removes everything again. `begins` is given the name of each, `report` what came
    /// of it.
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
            Err(error) => format!("the host cannot be looked at: {error}"),
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
            Err(error) => format!("the host cannot be looked at: {error}"),
        };
        let expected = "done; nothing is left".to_owned();
        tried("uninstall", expected, seen, problem, took)
    }

    /// Does what the operator does with a node that has a rollout slot.
    async fn reconcile(
        &self,
        line: Line,
        payload: Payload,
        target: Target,
    ) -> (Option<NodeError>, Duration) {
        let slots = RolloutSlots::default();
        slots.decide(|_| ([target.node.clone()].into(), ()));
        slots.hand_out();
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

    /// What the agent says; `None` where there is none.
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

    /// Connects over such a line, and lets `work` use the connection.
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
        let work = move |session, phases| work(Host::new(session, payload, phases, false));
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
