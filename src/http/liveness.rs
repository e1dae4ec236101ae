//! Whether the process makes progress: the answer of `/healthz`. It does not check whether all is well, which is up to
//! `/readyz`; it fails only if a restart is the only remedy.

use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How often the controller's task records that it is running.
const HEARTBEAT: Duration = Duration::from_secs(15);
/// The longest time between two heartbeats. All other work in that task yields constantly, unless there is a deadlock or an
/// endless loop.
const LONGEST_SILENCE: Duration = Duration::from_secs(90);

/// When the controller was last seen to make progress.
#[derive(Clone, Debug)]
pub struct Liveness(pub(super) Arc<Mutex<Instant>>);

impl Default for Liveness {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(Instant::now())))
    }
}

impl Liveness {
    /// Records heartbeats of the task that polls this, forever.
    pub async fn beat(&self) -> Infallible {
        loop {
            *self.heartbeat() = Instant::now();
            tokio::time::sleep(HEARTBEAT).await;
        }
    }

    /// Returns why only a restart helps, if that is so.
    pub fn problem(&self) -> Option<String> {
        let silence = self.heartbeat().elapsed();
        (silence > LONGEST_SILENCE).then(|| {
            let seconds = silence.as_secs();
            format!("the controller has made no progress for {seconds} s")
        })
    }

    fn heartbeat(&self) -> MutexGuard<'_, Instant> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
