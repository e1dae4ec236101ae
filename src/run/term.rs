//! One term of leadership: what runs while this process leads.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use tokio::sync::Mutex;
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::{Options, RunError};
use crate::client::installed::{self, OPERATOR};
use crate::client::{Revisions, backoff};
use crate::gate::GateObject;
use crate::http::Shown;
use crate::lease::{Election, LEASE, Standby};

/// How often a process on standby checks whether the leader has written the gate, until it has.
const GATE: Duration = Duration::from_secs(5);
/// How often an operator checks whether an operator that was installed earlier still exists.
const OTHER: Duration = Duration::from_secs(10);
/// How often that is asked while the API server does not answer, and the pauses between.
const ATTEMPTS: u32 = 8;
const PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(15));
/// How long the pods of a deleted operator may take to end.
const ENDING: Duration = Duration::from_secs(30);

/// One term of a candidate: from its candidacy to its end.
pub struct Term {
    client: Client,
    namespace: String,
    election: Option<Arc<Mutex<Election>>>,
    /// The gate to watch while another process is the leader.
    gate: Option<GateObject>,
}

impl Term {
    /// Creates a term that has not begun. Without an election, it lasts forever.
    pub fn new(client: &Client, options: &Options) -> Self {
        let election = options.identity.clone().map(|identity| {
            let fence = options.fence.clone();
            let election = Election::new(client.clone(), &options.namespace, identity, fence);
            Arc::new(Mutex::new(election))
        });
        // Of its own: who stands by has read nothing that a restored store would contradict.
        let gate = options.gate(client, &Revisions::default());
        Self {
            client: client.clone(),
            namespace: options.namespace.clone(),
            election,
            gate,
        }
    }

    /// Waits for the lease, then does the work while the lease is held. If it is lost, the work is dropped.
    pub async fn serve(&mut self, shown: &Shown, work: impl Future<Output = RunError>) -> RunError {
        self.win(shown).await;
        shown.readiness.leads();
        shown.metrics.show_leader(true);
        let Some(election) = &self.election else {
            return work.await;
        };
        // In a task of its own: judging a very large cluster may take longer than a renewal may wait.
        let (election, mut holding) = (Arc::clone(election), JoinSet::new());
        holding.spawn(async move { election.lock().await.hold().await });
        let lost = tokio::select! {
            // Check whether this process still is the leader before the work continues.
            biased;
            Some(Ok(lost)) = holding.join_next() => lost,
            error = work => return error,
        };
        shown.metrics.show_leader(false);
        // There is no use in releasing a lease that another process holds, or soon will.
        self.election = None;
        lost.into()
    }

    /// Closes the fence and releases the lease.
    pub async fn end(self) {
        if let Some(election) = self.election {
            election.lock().await.release().await;
        }
    }

    async fn win(&mut self, shown: &Shown) {
        let Some(election) = &self.election else {
            return;
        };
        let mut reported = None;
        let mut report = |standby: Standby| {
            if reported.as_ref() == Some(&standby) {
                return;
            }
            match &standby {
                Standby::Behind { holder } => tracing::info!(
                    lease = LEASE,
                    holder,
                    "standing by: another operator is the leader"
                ),
                Standby::Unable { problem } => tracing::warn!(
                    lease = LEASE,
                    "cannot take part in leader election: {problem}"
                ),
            }
            shown.readiness.stands_by(&standby);
            reported = Some(standby);
        };
        let acquiring = async {
            be_the_first(&self.client, &self.namespace, &mut report).await;
            election.lock().await.acquire(report).await;
        };
        tokio::select! {
            () = acquiring => {}
            never = see_gate(self.gate.as_ref(), shown) => match never {},
        }
        tracing::info!(lease = LEASE, "leads");
    }
}

/// Waits until no operator is left that was installed earlier in another namespace. Each has its own Lease, so both
/// would act on the same nodes.
async fn be_the_first(client: &Client, namespace: &str, report: &mut impl FnMut(Standby)) {
    let mut has_seen_one = false;
    let mut failures = 0;
    loop {
        let earlier = match installed::earlier(client, namespace).await {
            Ok(earlier) => earlier,
            Err(error) => {
                tracing::warn!("cannot check whether another operator is installed: {error}");
                failures += 1;
                // Without any answer the gate still has to be closed. One that was seen is still there.
                let is_over = error.is_forbidden() || failures == ATTEMPTS;
                if is_over && !has_seen_one {
                    return;
                }
                sleep(backoff::pause(failures, PAUSES.0, PAUSES.1)).await;
                continue;
            }
        };
        let Some(other) = earlier else {
            if has_seen_one {
                sleep(ENDING).await;
            }
            return;
        };
        has_seen_one = true;
        let problem = format!(
            "the operator is also installed in the namespace {other}, and only one may act on a cluster: uninstall one of the \
             two. This one acts once the Deployment {OPERATOR} in {other} is deleted"
        );
        report(Standby::Unable { problem });
        sleep(backoff::jittered(OTHER)).await;
    }
}

/// Reports whether the gate has been written, until it has; never ends.
async fn see_gate(gate: Option<&GateObject>, shown: &Shown) -> Infallible {
    if let Some(gate) = gate {
        let report = |problem| shown.readiness.sees_gate(problem);
        report(Some("it was not read yet".to_owned()));
        while let Some(problem) = unwritten(gate).await {
            report(Some(problem));
            sleep(backoff::jittered(GATE)).await;
        }
        report(None);
    }
    std::future::pending().await
}

/// Returns why the gate counts as not written yet.
async fn unwritten(gate: &GateObject) -> Option<String> {
    match gate.holds().await {
        Ok(Some(_)) => None,
        Ok(None) => Some("the leader has not written it yet".to_owned()),
        Err(error) => Some(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    use serde_json::json;

    use super::*;
    use crate::client::answering::{answering, failure};

    /// Waits with an API server that names an earlier operator this many times, and then fails. Returns whether it ended within
    /// a quarter of an hour, and how often the server was asked. `is_allowed`: whether that one has the rights of an operator.
    async fn waits(names: u32, is_allowed: bool) -> (bool, u32) {
        let asked = Arc::new(AtomicU32::new(0));
        let counter = Arc::clone(&asked);
        let client = answering(move |_, path, _| {
            if path.ends_with("/subjectaccessreviews") {
                return (200, json!({"spec": {}, "status": {"allowed": is_allowed}}));
            }
            if counter.fetch_add(1, Ordering::Relaxed) >= names {
                return failure(500);
            }
            let other = json!({"metadata": {"name": OPERATOR, "namespace": "other", "creationTimestamp": "2026-01-01T00:00:00Z"}});
            let list = json!({"apiVersion": "apps/v1", "kind": "DeploymentList", "metadata": {}, "items": [other]});
            (200, list)
        });
        let mut report = |_: Standby| {};
        let waiting = be_the_first(&client, "own", &mut report);
        let ended = tokio::time::timeout(Duration::from_secs(900), waiting).await;
        (ended.is_ok(), asked.load(Ordering::Relaxed))
    }

    #[tokio::test(start_paused = true)]
    async fn who_saw_an_earlier_operator_waits_through_failures_and_who_saw_none_goes_on_after_some()
     {
        assert_eq!(waits(0, true).await, (true, ATTEMPTS));
        let (has_ended, asked) = waits(1, true).await;
        assert!(!has_ended && asked > 3 * ATTEMPTS, "{asked}");
        // Anybody may make a Deployment of that name.
        assert_eq!(waits(9, false).await, (true, 1));
    }
}
