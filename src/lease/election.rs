//! Takes the Lease, renews it, gives it back.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, Client};
use tokio::time::sleep;

use super::fence::since_boot;
use super::record::{Record, Step, released};
use super::{Fence, LEASE, Timings};
use crate::backoff;
use crate::deadline::{self, CallError};
use crate::visible::visible;

/// How long a process that ends tries to give the lease back; without that others only wait for its end.
const RELEASE: Duration = Duration::from_secs(5);

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
pub enum Lost {
    /// It could not renew in time.
    #[error(
        "the lease could not be renewed within {} s ({problem}); what was in hand is given up, so that another can lead",
        deadline.as_secs_f64()
    )]
    NotRenewed {
        /// In what time.
        deadline: Duration,
        /// The last failure.
        problem: String,
    },
    /// Somebody else holds it, who has not waited for its end.
    #[error("{holder} has taken the lease; what was in hand is given up")]
    Taken {
        /// Who.
        holder: String,
    },
}

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
    /// Somebody has written or removed it between our reading and writing.
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

    /// Waits until this process leads, and tells what it waits for whenever that changes.
    pub async fn acquire(&mut self, mut tell: impl FnMut(&Standby)) {
        let mut told: Option<Standby> = None;
        let retry_period = self.candidacy.timings.retry_period();
        loop {
            let (standby, free_at) = match self.attempt(self.call_limit()).await {
                Ok(Attempt::Held) => return,
                Ok(Attempt::Waits { holder, free_at }) => {
                    let holder = visible(&holder);
                    (Some(Standby::Behind { holder }), Some(free_at))
                }
                Ok(Attempt::Overtaken) => (None, None),
                Err(error) => {
                    let problem = self.explain(&error);
                    (Some(Standby::Unable { problem }), None)
                }
            };
            if standby.is_some() && standby != told {
                standby.iter().for_each(&mut tell);
                told = standby;
            }
            let pause = backoff::jittered(retry_period);
            // Not before the lease is over, and not much after it.
            let end = free_at.map(|end| end.saturating_sub(since_boot()));
            sleep(end.map_or(pause, |end| pause.min(end))).await;
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
        let mut overtaken = false;
        loop {
            if !overtaken {
                let remaining = self.until.saturating_sub(since_boot());
                sleep(timings.retry_period().min(remaining)).await;
            }
            // A machine may have slept meanwhile.
            let remaining = self.until.saturating_sub(since_boot());
            let not_renewed = |problem| Lost::NotRenewed {
                deadline: timings.renew_deadline(),
                problem,
            };
            if remaining.is_zero() {
                return not_renewed(problem);
            }
            let limit = self.call_limit();
            let attempt = tokio::time::timeout(remaining, self.attempt(limit)).await;
            overtaken = false;
            match attempt {
                Ok(Ok(Attempt::Held)) => {}
                Ok(Ok(Attempt::Waits { holder, .. })) => {
                    let holder = visible(&holder);
                    return Lost::Taken { holder };
                }
                Ok(Ok(Attempt::Overtaken)) => {
                    "somebody else writes to it again and again".clone_into(&mut problem);
                    overtaken = true;
                    // No hot loop, should somebody else write to it for ever.
                    sleep(Duration::from_millis(100)).await;
                }
                Ok(Err(error)) => {
                    problem = self.explain(&error);
                    let remaining = self.until.saturating_sub(since_boot());
                    let remaining_seconds = remaining.as_secs_f64();
                    tracing::warn!(remaining_seconds, "cannot renew the lease: {problem}");
                }
                Err(_) => return not_renewed(problem),
            }
        }
    }

    /// Gives the lease back, if this process holds it: others need not wait for its end. Only when all work has stopped.
    pub async fn release(mut self) {
        self.fence.close();
        let Some(mut lease) = self.written.take() else {
            return;
        };
        let identity = &self.candidacy.identity;
        let spec = lease.spec.take().unwrap_or_default();
        if spec.holder_identity.as_ref() != Some(identity) {
            return;
        }
        lease.spec = Some(released(&spec));
        let parameters = PostParams::default();
        let replacing = self.api.replace(LEASE, &parameters, &lease);
        match deadline::call_within(RELEASE, "release Lease", replacing).await {
            Ok(_) => tracing::info!("the lease is released"),
            // It is somebody else's by now, or nobody's.
            Err(error) if error.is_conflict() || error.is_not_found() => {}
            Err(error) => tracing::warn!("{error}; others take the lease when it is over"),
        }
    }

    /// How long a single request may take: there has to be time for another.
    fn call_limit(&self) -> Duration {
        deadline::CALL.min(self.candidacy.timings.renew_deadline() / 3)
    }

    /// Looks at the Lease and takes or renews it where that may be.
    async fn attempt(&mut self, limit: Duration) -> Result<Attempt, CallError> {
        let known = match self.written.take() {
            Some(lease) => Some(lease),
            None => deadline::call_within(limit, "read Lease", self.api.get_opt(LEASE)).await?,
        };
        // Others count from when they see what is written, which is not before this.
        let asked = since_boot();
        let Candidacy { identity, timings } = &self.candidacy;
        let spec = known
            .as_ref()
            .map(|lease| lease.spec.clone().unwrap_or_default());
        let spec = match self.record.next(spec.as_ref(), identity, timings, asked) {
            Step::Wait { holder, free_at } => return Ok(Attempt::Waits { holder, free_at }),
            Step::Write(spec) => Some(spec),
        };
        let parameters = PostParams::default();
        let was_there = known.is_some();
        let written = if let Some(mut lease) = known {
            lease.spec = spec;
            // In the place of what was read, and of nothing newer.
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
                self.until = asked + timings.renew_deadline();
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
            return format!("{error}; once {namespace} is there again, the Lease is made in it");
        }
        if error.is_forbidden() {
            return format!(
                "{error}; the operator needs the rights to create leases.coordination.k8s.io in the namespace \
                 {namespace}, and to get and update the one called {LEASE}, as manifests/rbac.yaml gives them"
            );
        }
        if error.is_not_found() {
            return format!(
                "{error}; the Lease belongs into the operator's namespace, {namespace}"
            );
        }
        error.to_string()
    }
}
