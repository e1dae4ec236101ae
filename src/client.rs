//! The client of the API server, with the manners that its library leaves to us: it gives up on a server that does not
//! answer, asks no sooner than it was told to, does not begin watches in a hot loop, and changes nothing unless its process
//! leads.
//!
//! The library's own retries are off. They go on for minutes behind the back of whoever asks, and meanwhile what was read
//! long ago passes for the present. All who ask have pauses of their own, and tell what goes wrong.

mod fenced;
mod purpose;
mod token;
mod transport;
mod trust;

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use http::header::{CONNECTION, RETRY_AFTER};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use kube::client::{Body, ClientBuilder};
use tokio::time::{Instant, sleep_until, timeout};
use tower::{BoxError, Layer, Service};

use crate::lease::Fence;
use crate::serve::Metrics;
use purpose::Purpose;
pub(crate) use trust::store;

const LIMITS: Limits = Limits {
    answer: Duration::from_secs(30),
    longest_hold: Duration::from_secs(10),
    between_watches: Duration::from_secs(1),
};

#[derive(Clone, Copy, Debug)]
struct Limits {
    /// How long an answer may take to begin, of a watch as well: its first bytes come before its first event. A request
    /// may wait a quarter of the server's `--request-timeout` of 60 s in its queue; twice that is no queue any more.
    answer: Duration,
    /// The most that is heeded of a `Retry-After`: a server that says more, or a proxy with a clock of its own, must not
    /// keep the gate from closing.
    longest_hold: Duration,
    /// The least time between two starts of the same watch. The library begins one anew at once when it ends.
    between_watches: Duration,
}

/// No answer has begun in time.
#[derive(Debug, thiserror::Error)]
#[error("no answer from the API server within {} s", .0.as_secs())]
pub(crate) struct NoAnswer(Duration);

/// A client for that configuration.
pub fn client(config: kube::Config) -> kube::Result<kube::Client> {
    operator_client(config, Metrics::default(), Fence::open())
}

/// A client for that configuration, whose requests are counted, and which changes nothing while the fence is closed.
pub fn operator_client(
    mut config: kube::Config,
    metrics: Metrics,
    fence: Fence,
) -> kube::Result<kube::Client> {
    config.default_retry = false;
    let manners = Manners::new(LIMITS, metrics, fence);
    if let Some(client) = transport::client(&config, &manners)? {
        return Ok(client);
    }
    let builder = ClientBuilder::try_from(config)?;
    Ok(builder.with_layer(&manners).build())
}

/// What all requests of a client share.
#[derive(Clone, Debug)]
struct Manners {
    limits: Limits,
    state: Arc<Mutex<State>>,
    metrics: Metrics,
    fence: Fence,
}

#[derive(Debug, Default)]
struct State {
    holds: Holds,
    /// When each watch may begin again, by its path.
    watches: HashMap<String, Instant>,
}

/// Before when the server has asked not to be asked, by what for. It refuses one kind of request and takes others, by its
/// flow control; anybody can have it asked about tokens, and a leader must not lose its lease by what else is refused.
#[derive(Debug, Default)]
struct Holds {
    lease: Option<Instant>,
    reviews: Option<Instant>,
    work: Option<Instant>,
}

impl Holds {
    fn of(&mut self, purpose: Purpose) -> &mut Option<Instant> {
        match purpose {
            Purpose::Lease => &mut self.lease,
            Purpose::Review => &mut self.reviews,
            Purpose::Work => &mut self.work,
        }
    }
}

impl Manners {
    fn new(limits: Limits, metrics: Metrics, fence: Fence) -> Self {
        Self {
            limits,
            state: Arc::default(),
            metrics,
            fence,
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until the request may be sent.
    async fn wait(&self, purpose: Purpose, watch: Option<String>) {
        if let Some(path) = watch {
            let now = Instant::now();
            let due = {
                let mut state = self.state();
                let next = state.watches.entry(path).or_insert(now);
                let due = (*next).max(now);
                *next = due + self.limits.between_watches;
                due
            };
            sleep_until(due).await;
        }
        // It may be asked for more time while this waits.
        loop {
            let until = *self.state().holds.of(purpose);
            match until.filter(|until| *until > Instant::now()) {
                Some(until) => sleep_until(until).await,
                None => return,
            }
        }
    }

    fn heed<B>(&self, purpose: Purpose, answer: &Response<B>) {
        let Some(asked) = retry_after(answer) else {
            return;
        };
        let until = Instant::now() + asked.min(self.limits.longest_hold);
        let mut state = self.state();
        let held = state.holds.of(purpose);
        *held = Some(held.map_or(until, |held| held.max(until)));
    }
}

/// How long an answer asks to wait before the next request.
pub fn retry_after<B>(answer: &Response<B>) -> Option<Duration> {
    let refuses = [
        StatusCode::TOO_MANY_REQUESTS,
        StatusCode::SERVICE_UNAVAILABLE,
    ];
    if !refuses.contains(&answer.status()) {
        return None;
    }
    // The API server says seconds; a date, which HTTP allows as well, it never does.
    let value = answer.headers().get(RETRY_AFTER)?.to_str().ok()?;
    value.trim().parse().ok().map(Duration::from_secs)
}

fn watched_path<B>(request: &Request<B>) -> Option<String> {
    let mut query = request.uri().query().unwrap_or_default().split('&');
    let is_watch = query.any(|part| part == "watch=true" || part == "watch=1");
    is_watch.then(|| request.uri().path().to_owned())
}

/// Has an answer with Secrets come on a connection that ends with it: what lies in its buffers is wiped then, and would stay
/// there otherwise until other answers are as long.
fn keep_secrets_apart<B>(request: &mut Request<B>) {
    if request
        .uri()
        .path()
        .split('/')
        .any(|part| part == "secrets")
    {
        let close = HeaderValue::from_static("close");
        request.headers_mut().insert(CONNECTION, close);
    }
}

/// A bounded word for metrics, as the API server's own have it.
fn verb(method: &Method, is_watch: bool) -> &'static str {
    match method.as_str() {
        "GET" if is_watch => "WATCH",
        "GET" => "GET",
        "POST" => "POST",
        "PUT" => "PUT",
        "PATCH" => "PATCH",
        "DELETE" => "DELETE",
        _ => "OTHER",
    }
}

impl<S> Layer<S> for Manners {
    type Service = Polite<S>;

    fn layer(&self, inner: S) -> Polite<S> {
        Polite {
            inner,
            manners: self.clone(),
        }
    }
}

/// A service with manners.
struct Polite<S> {
    inner: S,
    manners: Manners,
}

impl<S, B> Service<Request<Body>> for Polite<S>
where
    S: Service<Request<Body>, Response = Response<B>, Error = BoxError>,
    S::Future: Send + 'static,
{
    type Response = Response<B>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Response<B>, BoxError>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        let watch = watched_path(&request);
        let verb = verb(request.method(), watch.is_some());
        let manners = self.manners.clone();
        let purpose = Purpose::of(&request);
        keep_secrets_apart(&mut request);
        let is_fenced = fenced::changes_something(&request);
        if is_fenced {
            fenced::fence_in(&mut request, &manners.fence);
        }
        // Nothing is sent before this is polled.
        let asking = self.inner.call(request);
        Box::pin(async move {
            manners.wait(purpose, watch).await;
            if is_fenced {
                manners.fence.pass()?;
            }
            let limit = manners.limits.answer;
            let answer = timeout(limit, asking).await;
            let code = match &answer {
                Ok(Ok(answer)) => Some(answer.status().as_u16()),
                Ok(Err(_)) | Err(_) => None,
            };
            manners.metrics.count_request(verb, code);
            let answer = answer.map_err(|_| NoAnswer(limit))??;
            manners.heed(purpose, &answer);
            Ok(answer)
        })
    }
}

#[cfg(test)]
mod tests;
