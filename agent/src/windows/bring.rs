//! Brings csi-proxy to a wanted state, whoever wants it: a request, a rollback or the keeper.

use std::time::{Duration, Instant};

use protocol::paths::{CSI_PROXY_EXE, CSI_PROXY_SERVICE};
use protocol::{Failure, Request, milliseconds};
use windows_storage_agent::errors::Context;
use windows_storage_agent::wanted::{Step, Wanted};

use super::engine::Engine;
use super::{answers, files, log, point};

/// Time limits.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// From the stop request to the end of the process.
    pub stop: Duration,
    /// From the start until the pipes answer.
    pub start: Duration,
}

impl Limits {
    pub fn of(request: &Request) -> Self {
        Self {
            stop: Duration::from_secs(request.stop_timeout_seconds.into()),
            start: Duration::from_secs(request.start_timeout_seconds.into()),
        }
    }
}

/// Why [`Engine::bring`] did not come to its end.
pub struct Stuck {
    /// What failed.
    pub failure: Failure,
    /// The step that failed.
    pub step: Step,
}

impl Engine {
    /// Carries out the steps to a wanted state; returns for how many milliseconds its pipes were closed, if they were
    /// closed and opened again.
    pub(super) fn bring(
        &mut self,
        wanted: &Wanted,
        steps: &[Step],
        limits: Limits,
    ) -> Result<Option<u64>, Stuck> {
        let mut deadline = Instant::now() + limits.start;
        let (mut closed, mut interruption) = (None, None);
        for step in steps {
            log::line(step.to_string());
            let done = match step {
                Step::Stop => self
                    .stop(&wanted.pipes, limits.stop)
                    .map(|gone| closed = gone),
                Step::Replace { now, .. } => replace(wanted, now.is_some()),
                Step::Delete => self.services.delete(CSI_PROXY_SERVICE),
                Step::Configure(settings) => {
                    self.services
                        .configure(CSI_PROXY_SERVICE, settings, limits.stop)
                }
                Step::Start => answers::await_free(&wanted.pipes, limits.stop).and_then(|()| {
                    deadline = Instant::now() + limits.start;
                    self.services.start(CSI_PROXY_SERVICE, deadline)
                }),
                Step::AwaitPipes => self
                    .services
                    .await_pipes(&wanted.pipes, deadline)
                    .map(|()| {
                        let since = |closed: Instant| milliseconds(closed.elapsed());
                        interruption = closed.map(since);
                    }),
            };
            done.map_err(|failure| Stuck {
                failure,
                step: step.clone(),
            })?;
            self.beat();
            point(&step.to_string());
        }
        Ok(interruption)
    }

    /// Stops csi-proxy, and keeps Windows from restarting it.
    pub(super) fn stop(
        &mut self,
        pipes: &[String],
        timeout: Duration,
    ) -> Result<Option<Instant>, Failure> {
        self.services.set_recovery(CSI_PROXY_SERVICE, false);
        let stopped = self.services.stop(CSI_PROXY_SERVICE, pipes, timeout);
        if stopped.is_err() {
            self.services.set_recovery(CSI_PROXY_SERVICE, true);
        }
        stopped
    }
}

fn replace(wanted: &Wanted, is_there: bool) -> Result<(), Failure> {
    let doing = format!("replacing {CSI_PROXY_EXE}");
    if is_there {
        files::rename(CSI_PROXY_EXE, &wanted.aside).context(&doing)?;
        point("old file set aside");
    }
    match &wanted.from {
        Some(from) if wanted.sha256.is_some() => files::rename(from, CSI_PROXY_EXE).context(&doing),
        _ => Ok(()),
    }
}
