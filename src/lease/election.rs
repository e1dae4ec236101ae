//! Acquires, renews and releases the Lease.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, Client};
use tokio::time::{sleep, timeout};

use super::fence::since_boot;
use super::record::{Decision, Record, released};
use super::{Fence, LEASE, Timings};
use crate::backoff;
use crate::deadline::{self, CallError};
use crate::visible::visible;

/// How long a process that ends tries to give the lease back; without that others only wait for its end.
const RELEASE: Duration = Duration::from_secs(5);
/// The pause after another's write came in between: no hot loop, should that happen again and again.
const OVERTAKEN: Duration = Duration::from_millis(100);

/// Who wants to lead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidacy {
    /// What no other candidate is called. A process that comes after this one under the same name leads at once.
    pub identity: String,
    /// How long a lease lasts.
    pub timings: Timings,
}

/// What a process that does not lead waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standby {
    /// For another's lease to end.
    Behind {
        /// Whose.
        holder: String,
    },
    /// To be able to read and write the Lease.
    Unable {
        /// What is wrong and what to do.
        problem: String,
    },
}

/// Why a process leads no longer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}; what was in hand is given up, so that another can lead")]
pub struct Lost(String);

/// One candidate's view of the Lease.
pub struct Election {
    api: Api<Lease>,
    namespace: String,
    candidacy: Candidacy,
    fence: Fence,
    record: Record,
    /// The Lease as it was last written from here: most often it need not be read.
    written: Option<Lease>,
    /// Until when this process leads.
    until: Duration,
}

/// How an attempt ended.
enum Attempt {
    /// The lease is ours.
    Held,
    /// It is another's.
    Waits { holder: String, free_at: Duration },
    /// Another has written or removed it between our reading and writing.
    Overtaken,
}

impl Election {
    /// A candidate for the lease in that namespace, which opens the fence when it has won.
    #[must_use]
    pub fn new(client: Client, namespace: &str, candidacy: Candidacy, fence: Fence) -> Self {
        Self {
            api: Api::namespaced(client, namespace),
            namespace: namespace.to_owned(),
            candidacy,
            fence,
            record: Record::default(),
            written: None,
            until: Duration::ZERO,
        }
    }

    /// Waits until this process leads, and reports what it waits for whenever that changes.
    pub async fn acquire(&mut self, mut report: impl FnMut(&Standby)) {
        let mut reported = None;
        loop {
            let mut pause = backoff::jittered(self.candidacy.timings.retry_period);
            let standby = match self.attempt().await {
                Ok(Attempt::Held) => return,
                Ok(Attempt::Overtaken) => None,
                Ok(Attempt::Waits { holder, free_at }) => {
                    // Not before the lease is over, and not much after it.
                    pause = pause.min(free_at.saturating_sub(since_boot()));
                    Some(Standby::Behind { holder })
                }
                Err(error) => Some(Standby::Unable {
                    problem: self.explain(&error),
                }),
            };
            if let Some(standby) = &standby
                && reported != Some(standby.clone())
            {
                report(standby);
                reported = Some(standby.clone());
            }
            sleep(pause).await;
        }
    }

    /// Renews the lease for as long as that succeeds. Nothing passes the fence any more when this ends.
    pub async fn hold(&mut self) -> Lost {
        let lost = self.renew().await;
        self.fence.close();
        lost
    }

    async fn renew(&mut self) -> Lost {
        let timings = self.candidacy.timings;
        let mut problem = "it was not tried".to_owned();
        let mut pause = timings.retry_period;
        loop {
            sleep(pause.min(self.remaining())).await;
            pause = timings.retry_period;
            // A machine may have slept meanwhile.
            let remaining = self.remaining();
            let attempt = match remaining {
                Duration::ZERO => None,
                _ => timeout(remaining, self.attempt()).await.ok(),
            };
            match attempt {
                Some(Ok(Attempt::Held)) => {}
                // It has not waited for the lease's end.
                Some(Ok(Attempt::Waits { holder, .. })) => {
                    return Lost(format!("{holder} has taken the lease"));
                }
                Some(Ok(Attempt::Overtaken)) => {
                    "others write to it again and again".clone_into(&mut problem);
                    pause = OVERTAKEN;
                }
                Some(Err(error)) => {
                    problem = self.explain(&error);
                    let remaining_seconds = self.remaining().as_secs_f64();
                    tracing::warn!(remaining_seconds, "cannot renew the lease: {problem}");
                }
                None => {
                    let limit = timings.renew_deadline.as_secs_f64();
                    let why =
                        format!("the lease could not be renewed within {limit} s ({problem})");
                    return Lost(why);
                }
            }
        }
    }

    /// For how long this process still leads.
    fn remaining(&self) -> Duration {
        self.until.saturating_sub(since_boot())
    }

    /// Gives the lease back, if this process holds it: others need not wait for its end. Only when all work has stopped.
    pub async fn release(self) {
        self.fence.close();
        if self.remaining().is_zero() {
            return;
        }
        match deadline::call_within(RELEASE, "release Lease", self.give_back()).await {
            Ok(true) => tracing::info!("the lease is released"),
            // It is another's by now, or nobody's.
            Ok(false) => {}
            Err(error) => tracing::warn!("{error}; others take the lease when it is over"),
        }
    }

    /// The Lease is read: a renewal may have been on its way when this process was asked to stop.
    async fn give_back(&self) -> kube::Result<bool> {
        loop {
            let Some(mut lease) = self.api.get_opt(LEASE).await? else {
                return Ok(false);
            };
            let spec = lease.spec.get_or_insert_default();
            if spec.holder_identity.as_deref() != Some(self.candidacy.identity.as_str()) {
                return Ok(false);
            }
            *spec = released(spec);
            let parameters = PostParams::default();
            match self.api.replace(LEASE, &parameters, &lease).await {
                Err(kube::Error::Api(status)) if status.is_conflict() => {}
                replaced => return replaced.map(|_| true),
            }
        }
    }

    /// Looks at the Lease and takes or renews it where that may be.
    async fn attempt(&mut self) -> Result<Attempt, CallError> {
        let Candidacy { identity, timings } = &self.candidacy;
        // There has to be time for another request.
        let limit = deadline::CALL.min(timings.renew_deadline / 3);
        let known = match self.written.take() {
            Some(lease) => Some(lease),
            None => deadline::call_within(limit, "read Lease", self.api.get_opt(LEASE)).await?,
        };
        // Others count from when they see what is written, which is not before this.
        let asked = since_boot();
        let spec = known.as_ref().map(|lease| lease.spec.clone());
        let spec = spec.map(Option::unwrap_or_default);
        let spec = match self.record.next(spec.as_ref(), identity, timings, asked) {
            Decision::Wait { holder, free_at } => {
                let holder = visible(&holder);
                return Ok(Attempt::Waits { holder, free_at });
            }
            Decision::Write(spec) => Some(spec),
        };
        let parameters = PostParams::default();
        let was_there = known.is_some();
        let written = if let Some(known) = known {
            // In the place of what was read, and of nothing newer.
            let lease = Lease { spec, ..known };
            let replacing = self.api.replace(LEASE, &parameters, &lease);
            deadline::call_within(limit, "write Lease", replacing).await
        } else {
            let metadata = ObjectMeta {
                name: Some(LEASE.to_owned()),
                ..ObjectMeta::default()
            };
            let lease = Lease { metadata, spec };
            let creating = self.api.create(&parameters, &lease);
            deadline::call_within(limit, "create Lease", creating).await
        };
        match written {
            Ok(lease) => {
                self.written = Some(lease);
                self.until = asked + timings.renew_deadline;
                self.fence.open_until(self.until);
                Ok(Attempt::Held)
            }
            Err(error) if error.is_conflict() => Ok(Attempt::Overtaken),
            Err(error) if error.is_not_found() && was_there => Ok(Attempt::Overtaken),
            Err(error) => Err(error),
        }
    }

    fn explain(&self, error: &CallError) -> String {
        let namespace = visible(&self.namespace);
        if error.is_namespace_ending() {
            format!("{error}; once {namespace} is there again, the Lease is made in it")
        } else if error.is_forbidden() {
            format!(
                "{error}; the operator needs the rights to create leases.coordination.k8s.io in the namespace \
                 {namespace}, and to get and update the one called {LEASE}, as manifests/rbac.yaml gives them"
            )
        } else if error.is_not_found() {
            format!("{error}; the Lease belongs into the operator's namespace, {namespace}")
        } else {
            error.to_string()
        }
    }
}
