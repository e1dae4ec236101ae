//! Reads from a node over SSH, and changes nothing.

use std::time::Duration;

use protocol::paths::AGENT_EXE;
use protocol::{Answer, NodeState};

use crate::node::answer::{answer, unanswered};
use crate::node::connect::{HANDSHAKE, connect};
use crate::node::host_key::Judgement;
use crate::node::look::is_agent_installed;
use crate::node::session::Session;
use crate::node::{HOST_KEYS_CONFIG_MAP, NodeError, Reason, Target};
use crate::services::CSI_PROXY_PIPES;

/// Time limit for the agent's `status` command.
const STATUS: Duration = Duration::from_secs(60);

/// Which hosts to log in to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trust {
    /// Hosts whose keys are known.
    Known,
    /// All hosts that the operator would log in to. Their keys are not stored.
    AsOperator,
}

/// Logs in to a host, and runs `work` there for at most `limit`.
pub async fn inspect<T: Send + 'static>(
    target: &Target,
    namespace: &str,
    trust: Trust,
    limit: Duration,
    work: impl FnOnce(&mut Session) -> T + Send + 'static,
) -> Result<T, NodeError> {
    let address = (&*target.address, target.port);
    let connected = connect(address, &target.host_keys, HANDSHAKE).await?;
    let key = &connected.session.host_key;
    match target.host_keys.judge(namespace, &target.node, key) {
        Judgement::Known => {}
        Judgement::New if trust == Trust::AsOperator => {}
        Judgement::New => {
            return Err(Reason::HostKeyUnknown.error(format!(
                "the SSH host key {} is not known yet, so this command did not log in; the operator stores it in ConfigMap \
                 {HOST_KEYS_CONFIG_MAP} of namespace {namespace} at its first contact",
                key.summary()
            )));
        }
        Judgement::Refused(error) => return Err(error),
    }
    let (user, private_key) = (target.user.clone(), target.key.clone());
    let work = move |mut session: Session| {
        session.login(&user, &private_key)?;
        Ok(work(&mut session))
    };
    connected.work(limit, "reading from the node", work).await
}

/// Returns the node's state from the agent; `None` if there is no agent.
pub fn state(session: &mut Session) -> Result<Option<NodeState>, NodeError> {
    if !is_agent_installed(session)? {
        return Ok(None);
    }
    let pipes: Vec<String> = CSI_PROXY_PIPES.map(|pipe| format!(" --pipe {pipe}")).into();
    let command = format!("{AGENT_EXE} status{}", pipes.concat());
    let output = session.query(&command, STATUS)?;
    match answer(&output)? {
        Some(Answer::Status(state)) => Ok(Some(state)),
        _ => Err(unanswered(&output, "the agent gives no status", "")),
    }
}
