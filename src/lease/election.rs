//! Acquires, renews and releases the Lease.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, Client};
use tokio::time::{sleep, timeout};

use super::record::{Decision, Record, released};
use super::{Fence, LEASE, RENEW_DEADLINE, RETRY_PERIOD};
use crate::client::deadline::{self, CallError};
use crate::client::{Revisions, backoff};
use crate::process::since_boot;
use crate::visible::visible;

/// Time limit for releasing the lease when the process ends. If that fails, other candidates only wait until it expires.
const RELEASE: Duration = Duration::from_secs(5);
/// Pause after a conflict with another write, so that repeated conflicts do not cause a busy loop.
const OVERTAKEN: Duration = Duration::from_millis(100);

/// What a process on standby waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standby {
    /// Another candidate's lease has to expire.
    Behind {
        /// Who holds it.
        holder: String,
    },
    /// The Lease cannot be read or written.
    Unable {
        /// What is wrong, and what to do.
        problem: String,
    },
}

/// Why a process is no longer the leader.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}; work in progress is cancelled, so that another operator can lead")]
pub struct Lost(String);

/// One candidate's view of the Lease.
pub struct Election {
    api: Api<Lease>,
    namespace: String,
    identity: String,
    fence: Fence,
    record: Record,
    /// The Lease as this process last wrote it, so that it usually need not be read.
    written: Option<Lease>,
    /// Until when this process is the leader.
    until: Duration,
    revisions: Revisions,
}

/// Result of an attempt to acquire or renew the lease.
enum Attempt {
    /// This process holds the lease.
    Held,
    /// Another candidate holds it.
    Waits { holder: String, free_at: Duration },
    /// The Lease was written or deleted by another client between read and write.
    Overtaken,
}

impl Election {
    /// Creates a candidate for the lease in that namespace. Winning opens the fence. Its name is unique: a later process
    /// with the same name leads at once.
    pub fn new(client: Client, namespace: &str, identity: String, fence: Fence) -> Self {
        Self {
            api: Api::namespaced(client, namespace),
            namespace: namespace.to_owned(),
            identity,
            fence,
            record: Record::default(),
            written: None,
            until: Duration::ZERO,
            revisions: Revisions::default(),
        }
    }

    /// Waits until this process is the leader, and reports what it waits for, each time anew.
    pub async fn acquire(&mut self, mut report: impl FnMut(Standby)) {
        loop {
            let mut pause = backoff::jittered(RETRY_PERIOD);
            let standby = match self.attempt().await {
                Ok(Attempt::Held) => return,
                Ok(Attempt::Overtaken) => None,
                Ok(Attempt::Waits { holder, free_at }) => {
                    // Not before the lease expires, and not long after.
                    pause = pause.min(free_at.saturating_sub(since_boot()));
                    Some(Standby::Behind { holder })
                }
                Err(error) => Some(Standby::Unable {
                    problem: self.explain(&error),
                }),
            };
            if let Some(standby) = standby {
                report(standby);
            }
            sleep(pause).await;
        }
    }

    /// Renews the lease until that fails. Then nothing passes the fence any more.
    pub async fn hold(&mut self) -> Lost {
        let lost = self.renew().await;
        self.fence.close();
        lost
    }

    async fn renew(&mut self) -> Lost {
        let mut problem = "it was not tried".to_owned();
        let mut pause = RETRY_PERIOD;
        loop {
            sleep(pause.min(self.remaining())).await;
            pause = RETRY_PERIOD;
            // The machine may have been asleep.
            let remaining = self.remaining();
            let attempt = match remaining {
                Duration::ZERO => None,
                _ => timeout(remaining, self.attempt()).await.ok(),
            };
            match attempt {
                Some(Ok(Attempt::Held)) => {
                    let written = self.written.as_ref();
                    let version =
                        written.and_then(|lease| lease.metadata.resource_version.as_deref());
                    let seen = self.revisions.see("the Lease", version.unwrap_or_default());
                    if let Err(went_back) = seen {
                        return Lost(went_back.to_string());
                    }
                }
                // The other candidate did not wait for the lease to expire.
                Some(Ok(Attempt::Waits { holder, .. })) => {
                    return Lost(format!("{holder} has acquired the lease"));
                }
                Some(Ok(Attempt::Overtaken)) => {
                    "other clients keep writing to it".clone_into(&mut problem);
                    pause = OVERTAKEN;
                }
                Some(Err(error)) => {
                    problem = self.explain(&error);
                    let remaining_seconds = self.remaining().as_secs_f64();
                    tracing::warn!(remaining_seconds, "cannot renew the lease: {problem}");
                }
                None => {
                    let limit = RENEW_DEADLINE.as_secs();
                    let why =
                        format!("the lease could not be renewed within {limit} s ({problem})");
                    return Lost(why);
                }
            }
        }
    }

    /// Returns how long this process still is the leader.
    fn remaining(&self) -> Duration {
        self.until.saturating_sub(since_boot())
    }

    /// Releases the lease if this process holds it, so that others need not wait until it expires. Call this only when
    /// all work has stopped.
    pub async fn release(&self) {
        self.fence.close();
        if self.remaining().is_zero() {
            return;
        }
        match deadline::call_within(RELEASE, "release Lease", self.give_back()).await {
            Ok(true) => tracing::info!("the lease is released"),
            // Another candidate holds it by now, or nobody does.
            Ok(false) => {}
            Err(error) => {
                tracing::warn!("{error}; other candidates can acquire the lease when it expires");
            }
        }
    }

    /// Clears the holder of the Lease. Reads it first, because a renewal may have been in flight when this process was stopped.
    async fn give_back(&self) -> kube::Result<bool> {
        loop {
            let Some(mut lease) = self.api.get_opt(LEASE).await? else {
                return Ok(false);
            };
            let spec = lease.spec.get_or_insert_default();
            if spec.holder_identity.as_deref() != Some(self.identity.as_str()) {
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

    /// Reads the Lease, and acquires or renews it if that is allowed.
    async fn attempt(&mut self) -> Result<Attempt, CallError> {
        // Leave time for another request.
        let limit = deadline::CALL.min(RENEW_DEADLINE / 3);
        let known = match self.written.take() {
            Some(lease) => Some(lease),
            None => deadline::call_within(limit, "read Lease", self.api.get_opt(LEASE)).await?,
        };
        // Others count from when they observe the write, which is not before this time.
        let asked = since_boot();
        let spec = known.as_ref().map(|lease| lease.spec.clone());
        let spec = spec.map(Option::unwrap_or_default);
        let spec = match self.record.next(spec.as_ref(), &self.identity, asked) {
            Decision::Wait { holder, free_at } => {
                let holder = visible(&holder);
                return Ok(Attempt::Waits { holder, free_at });
            }
            Decision::Write(spec) => Some(spec),
        };
        let parameters = PostParams::default();
        let was_there = known.is_some();
        let written = if let Some(known) = known {
            // Replaces exactly the version that was read, and nothing newer.
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
                self.until = asked + RENEW_DEADLINE;
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
            format!("{error}; the Lease is created once the namespace {namespace} exists")
        } else if error.is_forbidden() {
            format!(
                "{error}; the operator needs the rights to create leases.coordination.k8s.io in the namespace \
                 {namespace}, and to get and update the one called {LEASE}, as manifests/rbac.yaml gives them"
            )
        } else if error.is_not_found() {
            format!("{error}; the Lease belongs in the operator's namespace, {namespace}")
        } else {
            error.to_string()
        }
    }
}
