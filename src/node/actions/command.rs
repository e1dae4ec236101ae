//! The agent's command that takes a request.

use std::time::Duration;

use protocol::Request;
use protocol::paths::{INCOMING_DIR, REQUEST_PREFIX};

use crate::node::NodeError;
use crate::node::session::{Running, Session};

/// How much longer than the agent's own limits its answer may take.
const MARGIN: Duration = Duration::from_secs(60);

/// How long a request's files may take to arrive, from the start of the command that waits for them.
const ARRIVAL: Duration = Duration::from_secs(15 * 60);

/// Less than what a whole visit may take.
const MOST_SECONDS: u32 = 15 * 60;

/// A command that waits for a request, unpacks what comes with it and hands it to the agent's service.
pub struct ApplyCommand {
    /// Names what is brought for it, unlike all that was brought before.
    pub visit: String,
    /// The request's file.
    pub path: String,
    /// How long it may take to its end.
    pub limit: Duration,
    line: String,
    running: Option<Running>,
}

impl ApplyCommand {
    /// That of an agent's program, for a request; not started yet.
    pub fn new(program: &str, request: &Request) -> Self {
        let visit = format!("{:016x}", rand::random::<u64>());
        let path = format!(r"{INCOMING_DIR}\{REQUEST_PREFIX}{visit}.json");
        let seconds = request
            .stop_timeout_seconds
            .saturating_add(request.start_timeout_seconds)
            .saturating_mul(2)
            // One service after the other, and back again.
            .saturating_mul(
                u32::try_from(request.services.len())
                    .unwrap_or(u32::MAX)
                    .max(1),
            )
            .min(MOST_SECONDS);
        let limit = Duration::from_secs(u64::from(seconds)) + MARGIN;
        let line = format!(
            "{program} apply --request {path} --timeout {} --arrival-timeout {}",
            (ARRIVAL + limit).as_secs(),
            ARRIVAL.as_secs()
        );
        Self {
            visit,
            path,
            limit: limit + MARGIN,
            line,
            running: None,
        }
    }

    /// Has it start before what it waits for is there. Where it is not taken, the session has to be given up.
    pub fn start_early(&mut self, session: &Session) -> Result<(), NodeError> {
        self.running = Some(session.start(&self.line)?);
        Ok(())
    }

    /// Whether it was started and not yet taken.
    pub fn is_started(&self) -> bool {
        self.running.is_some()
    }

    /// The one that runs, or that now starts.
    pub fn take(&mut self, session: &Session) -> Result<Running, NodeError> {
        match self.running.take() {
            Some(running) => Ok(running),
            None => session.start(&self.line),
        }
    }
}
