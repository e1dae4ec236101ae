//! The time for which this process leads.

use std::future::Future;
use std::time::Duration;

use kube::Client;

use super::{Options, RunError};
use crate::assess::report::Upgradeable;
use crate::backoff;
use crate::gate::Gate;
use crate::lease::{Election, LEASE, Standby};
use crate::serve::Shown;

/// One candidate's term: from its candidacy to its end.
pub struct Term {
    election: Option<Election>,
    /// What is looked at while another leads.
    gate: Option<Gate>,
}

impl Term {
    /// A term that has not begun, or that lasts for ever where there is no election.
    pub fn new(client: &Client, options: &Options) -> Self {
        let election = options.candidacy.as_ref().map(|candidacy| {
            let fence = options.fence.clone();
            Election::new(client.clone(), &options.namespace, candidacy.clone(), fence)
        });
        let gate = options.gate(client);
        Self { election, gate }
    }

    /// Waits for the lease, then does the work for as long as it is held. The work is dropped when it is lost.
    pub async fn serve(
        &mut self,
        options: &Options,
        shown: &Shown,
        work: impl Future<Output = Result<Option<Upgradeable>, RunError>>,
    ) -> Result<Option<Upgradeable>, RunError> {
        let Some(election) = &mut self.election else {
            shown.readiness.leads();
            shown.metrics.show_leader(true);
            return work.await;
        };
        wait(election, self.gate.take(), options, shown).await?;
        shown.readiness.leads();
        shown.metrics.show_leader(true);
        let lost = tokio::select! {
            // Whether this process still leads is looked at before its work goes on.
            biased;
            lost = election.hold() => lost,
            outcome = work => return outcome,
        };
        shown.metrics.show_leader(false);
        // Giving back what is another's, or soon will be, is of no use.
        self.election = None;
        Err(lost.into())
    }

    /// Closes the fence and gives the lease back.
    pub async fn end(self) {
        if let Some(election) = self.election {
            election.release().await;
        }
    }
}

/// How often a process that stands by looks whether its leader has written the gate, until it has.
const GATE: Duration = Duration::from_secs(5);

/// Tells until the gate has been written whether it has, and never ends.
async fn see_gate(gate: Option<Gate>, shown: &Shown) {
    if let Some(gate) = gate {
        shown
            .readiness
            .sees_gate(Some("it was not read yet".to_owned()));
        loop {
            let problem = match gate.is_written().await {
                Ok(true) => break,
                Ok(false) => "the leader has not written it yet".to_owned(),
                Err(error) => error.to_string(),
            };
            shown.readiness.sees_gate(Some(problem));
            tokio::time::sleep(backoff::jittered(GATE)).await;
        }
        shown.readiness.sees_gate(None);
    }
    std::future::pending::<()>().await;
}

/// A single pass waits no longer than it takes until a leader that has died is no longer waited for.
async fn wait(
    election: &mut Election,
    gate: Option<Gate>,
    options: &Options,
    shown: &Shown,
) -> Result<(), RunError> {
    let limit = options.candidacy.as_ref().filter(|_| options.once);
    let limit = limit.map(|candidacy| {
        let timings = candidacy.timings;
        timings.lease_duration() + 2 * timings.retry_period()
    });
    let mut waits_for = String::new();
    let acquiring = election.acquire(|standby| {
        waits_for = match standby {
            Standby::Behind { holder } => {
                tracing::info!(lease = LEASE, holder, "stands by: another operator leads");
                format!("{holder} holds the Lease {LEASE}")
            }
            Standby::Unable { problem } => {
                tracing::warn!(lease = LEASE, "cannot stand for election: {problem}");
                problem.clone()
            }
        };
        shown.readiness.stands_by(standby.clone());
    });
    let limit = async {
        match limit {
            None => std::future::pending().await,
            Some(limit) => tokio::time::sleep(limit).await,
        }
    };
    let in_time = tokio::select! {
        () = acquiring => true,
        () = see_gate(gate, shown) => false,
        () = limit => false,
    };
    if in_time {
        tracing::info!(lease = LEASE, "leads");
        return Ok(());
    }
    Err(RunError::NotLeading { what: waits_for })
}
