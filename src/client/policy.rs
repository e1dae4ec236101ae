//! Rules for every request: a server that does not answer is given up, no request is sent sooner than the server has asked
//! for, no watch restarts in a hot loop, and nothing is changed unless this process leads.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http::header::RETRY_AFTER;
use http::{Method, Request, Response};
use kube::client::Body;
use tokio::time::{Instant, sleep_until, timeout};
use tower::BoxError;

use crate::http::Metrics;
use crate::lease::Fence;

/// The timeout until an answer begins, also that of a watch, whose first bytes come before its first event. A request
/// may wait a quarter of the server's `--request-timeout` of 60 s in its queue; twice that is no longer queueing.
pub const ANSWER: Duration = Duration::from_secs(30);
/// The longest `Retry-After` that is obeyed: a server that asks for more, or a proxy with its own clock, must not keep
/// the gate from closing.
pub const LONGEST_HOLD: Duration = Duration::from_secs(10);
/// The minimum time between two starts of the same watch. kube restarts it at once when it ends.
pub const BETWEEN_WATCHES: Duration = Duration::from_secs(1);

const LEASES: &str = "/apis/coordination.k8s.io/";
/// Requests that decide who leads, and who may read metrics: a process needs no lease for them.
const UNFENCED: [&str; 3] = [
    LEASES,
    "/apis/authentication.k8s.io/",
    "/apis/authorization.k8s.io/",
];

/// No answer began in time.
#[derive(Debug, thiserror::Error)]
#[error("no answer from the API server within {} s", ANSWER.as_secs())]
pub struct NoAnswer;

/// The state that all requests of a client share. Clones share it too.
#[derive(Clone, Debug)]
pub struct RequestPolicy {
    state: Arc<Mutex<State>>,
    metrics: Metrics,
    fence: Fence,
}

#[derive(Debug, Default)]
struct State {
    /// Until when the server has asked not to be sent requests.
    hold: Option<Instant>,
    /// When each watch may start again, by its path.
    watches: HashMap<String, Instant>,
}

impl RequestPolicy {
    pub fn new(metrics: Metrics, fence: Fence) -> Self {
        Self {
            state: Arc::default(),
            metrics,
            fence,
        }
    }

    /// Sends a request once it may be sent.
    pub async fn send(
        &self,
        connections: &kube::Client,
        mut request: Request<Body>,
    ) -> Result<Response<Body>, BoxError> {
        let path = request.uri().path().to_owned();
        let is_watch = is_watch(&request);
        // The API server's own name for it. There is a fixed set of methods, as only this program asks.
        let verb = if is_watch {
            "WATCH"
        } else {
            request.method().as_str()
        };
        let verb = verb.to_owned();
        if is_watch {
            sleep_until(self.next_start(&path)).await;
        }
        // A leader must not lose its lease because other requests are refused; the election has its own, longer delays.
        if !path.starts_with(LEASES) {
            // The server may ask for more time meanwhile.
            while let Some(until) = self.held_until() {
                sleep_until(until).await;
            }
        }
        if is_fenced(&request) {
            self.fence.pass()?;
            request.extensions_mut().insert(self.fence.clone());
        }
        let answer = timeout(ANSWER, connections.send(request)).await;
        let code = match &answer {
            Ok(Ok(answer)) => Some(answer.status().as_u16()),
            Ok(Err(_)) | Err(_) => None,
        };
        self.metrics.count_request(verb, code);
        let answer = answer.map_err(|_| NoAnswer)??;
        self.heed(&answer);
        Ok(answer)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns when a watch may start, and delays the next one of that path.
    fn next_start(&self, path: &str) -> Instant {
        let now = Instant::now();
        let mut state = self.state();
        let next = state.watches.entry(path.to_owned()).or_insert(now);
        let start = (*next).max(now);
        *next = start + BETWEEN_WATCHES;
        start
    }

    pub(super) fn held_until(&self) -> Option<Instant> {
        self.state().hold.filter(|until| *until > Instant::now())
    }

    fn heed<B>(&self, answer: &Response<B>) {
        if let Some(asked) = retry_after(answer) {
            let until = Instant::now() + asked.min(LONGEST_HOLD);
            let mut state = self.state();
            state.hold = state.hold.max(Some(until));
        }
    }
}

/// Returns how long an answer asks to wait before the next request.
pub fn retry_after<B>(answer: &Response<B>) -> Option<Duration> {
    let too_many_or_unavailable = [429, 503];
    if !too_many_or_unavailable.contains(&answer.status().as_u16()) {
        return None;
    }
    // The API server sends seconds, never a date, which HTTP also allows.
    let value = answer.headers().get(RETRY_AFTER)?.to_str().ok()?;
    value.trim().parse().ok().map(Duration::from_secs)
}

/// Returns whether a request starts a watch.
pub fn is_watch<B>(request: &Request<B>) -> bool {
    let mut query = request.uri().query().unwrap_or_default().split('&');
    query.any(|part| part == "watch=true" || part == "watch=1")
}

/// Returns whether a request changes something that only the leader may change.
fn is_fenced<B>(request: &Request<B>) -> bool {
    let reads = [Method::GET, Method::HEAD, Method::OPTIONS];
    let path = request.uri().path();
    !reads.contains(request.method()) && !UNFENCED.iter().any(|group| path.starts_with(group))
}
