//! A reverse proxy for the API server that simulates, on order, a bad network, an overloaded server or another proxy.
//! Without an order it changes nothing. Credentials pass through, so permissions stay the same.

mod body;
mod order;

use std::convert::Infallible;
use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use anyhow::{Context, Result};
use hyper::body::Incoming;
use hyper::header::{CONNECTION, CONTENT_TYPE, HOST, HeaderValue, RETRY_AFTER};
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode, Uri};
use hyper_openssl::client::legacy::HttpsConnector;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioIo};
use openssl::base64;
use openssl::ssl::{SslConnector, SslMethod};
use openssl::x509::X509;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::broadcast;

use body::{Answer, EndOrder, Sent};

pub use order::{Call, End, Fault, On, Verb};

/// How many orders to end watches a watch may lag behind.
const ORDERS: usize = 64;

/// A request that the proxy has seen.
#[derive(Clone, Debug)]
pub struct Seen {
    /// What kind of request it was.
    pub call: Call,
    /// When it was received.
    pub at: Instant,
    /// The path with its query. The User-Agent and everything else that identifies the client is left out.
    pub path: String,
    missing: Arc<AtomicU64>,
}

impl Seen {
    /// Returns whether its whole body has arrived. The API server ignores an incomplete request.
    pub fn is_complete(&self) -> bool {
        self.missing.load(Ordering::Relaxed) == 0
    }
}

/// The proxy. Dropping it ends its connections.
#[derive(Debug)]
pub struct ApiProxy {
    runtime: Option<Runtime>,
    shared: Arc<Shared>,
    kubeconfig: PathBuf,
}

#[derive(Debug)]
struct Shared {
    server: String,
    client: Client<HttpsConnector<HttpConnector>, Sent>,
    orders: Mutex<Vec<Standing>>,
    seen: Mutex<Vec<Seen>>,
    ends: broadcast::Sender<EndOrder>,
}

/// An active order.
#[derive(Debug)]
struct Standing {
    on: On,
    fault: Fault,
    /// How many more requests it applies to; `None` means all until it is lifted.
    left: Option<usize>,
    hits: usize,
}

/// A handle to query and lift an order.
#[derive(Clone, Debug)]
pub struct Order {
    shared: Arc<Shared>,
    number: usize,
}

impl Order {
    /// Returns how many requests the fault was applied to.
    pub fn hits(&self) -> usize {
        self.shared.orders()[self.number].hits
    }

    /// Lifts the order. Requests that hang continue to hang.
    pub fn lift(&self) {
        self.shared.orders()[self.number].left = Some(0);
    }
}

impl ApiProxy {
    /// Starts a proxy for the server of this kubeconfig, in the format that [`crate::control_plane`] writes.
    pub fn start(kubeconfig: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(kubeconfig)
            .with_context(|| format!("reading {}", kubeconfig.display()))?;
        let mut config: Value = serde_json::from_str(&text).context("the kubeconfig is no JSON")?;
        let cluster = &mut config["clusters"][0]["cluster"];
        let server = cluster["server"].as_str().context("server")?.to_owned();
        let authority = cluster["certificate-authority-data"].as_str();
        let authority = base64::decode_block(authority.context("certificate-authority-data")?)?;
        let runtime = Builder::new_multi_thread()
            .worker_threads(2)
            .thread_name("api-proxy")
            .enable_all()
            .build()?;
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0"))?;
        *cluster = json!({"server": format!("http://{}", listener.local_addr()?)});
        let proxied = kubeconfig.with_extension("proxied.kubeconfig");
        let mut file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&proxied)?;
        file.write_all(config.to_string().as_bytes())?;
        let shared = Arc::new(Shared {
            server,
            client: Client::builder(TokioExecutor::new()).build(connector(&authority)?),
            orders: Mutex::default(),
            seen: Mutex::default(),
            ends: broadcast::Sender::new(ORDERS),
        });
        runtime.spawn(accept(listener, Arc::clone(&shared)));
        Ok(Self {
            runtime: Some(runtime),
            shared,
            kubeconfig: proxied,
        })
    }

    /// Returns the same kubeconfig with the proxy's address.
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// Applies a fault to all matching requests from now on. If several orders match, the earliest one applies.
    pub fn order(&self, on: On, fault: Fault) -> Order {
        self.standing(on, fault, None)
    }

    /// Applies a fault to this many matching requests.
    pub fn order_times(&self, times: usize, on: On, fault: Fault) -> Order {
        self.standing(on, fault, Some(times))
    }

    fn standing(&self, on: On, fault: Fault, left: Option<usize>) -> Order {
        let mut orders = self.shared.orders();
        orders.push(Standing {
            on,
            fault,
            left,
            hits: 0,
        });
        Order {
            shared: Arc::clone(&self.shared),
            number: orders.len() - 1,
        }
    }

    /// Ends the running watches of one resource, or of all resources.
    pub fn end_watches(&self, resource: Option<&str>, end: End) {
        // Without a running watch, there is no receiver.
        let _ = self.shared.ends.send((resource.map(str::to_owned), end));
    }

    /// Returns all requests so far.
    pub fn seen(&self) -> Vec<Seen> {
        self.shared.seen().clone()
    }

    /// Returns the number of requests so far.
    pub fn seen_so_far(&self) -> usize {
        self.shared.seen().len()
    }

    /// Returns all requests except the first `so_many`.
    pub fn seen_after(&self, so_many: usize) -> Vec<Seen> {
        self.shared
            .seen()
            .get(so_many..)
            .unwrap_or_default()
            .to_vec()
    }

    /// Returns the number of requests with this verb and resource.
    pub fn count(&self, verb: Verb, resource: &str) -> usize {
        let seen = self.shared.seen();
        let fits = |seen: &&Seen| seen.call.verb == verb && seen.call.resource == resource;
        seen.iter().filter(fits).count()
    }
}

impl Drop for ApiProxy {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // Does not block, because the proxy may be dropped inside another runtime.
            runtime.shutdown_background();
        }
    }
}

fn connector(authority: &[u8]) -> Result<HttpsConnector<HttpConnector>> {
    let mut tls = SslConnector::builder(SslMethod::tls_client())?;
    tls.cert_store_mut().add_cert(X509::from_pem(authority)?)?;
    let mut http = HttpConnector::new();
    http.enforce_http(false);
    http.set_nodelay(true);
    Ok(HttpsConnector::with_connector(http, tls)?)
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    loop {
        // A connection that was closed before it was accepted does not affect the others.
        let Ok((stream, _)) = listener.accept().await else {
            continue;
        };
        let _ = stream.set_nodelay(true);
        let shared = Arc::clone(&shared);
        let service = service_fn(move |request| {
            let shared = Arc::clone(&shared);
            async move { Ok::<_, Infallible>(shared.answer(request).await) }
        });
        tokio::spawn(async move {
            let connection = hyper::server::conn::http1::Builder::new();
            // An error means that the connection has ended, which the client notices as well.
            let _ = connection
                .serve_connection(TokioIo::new(stream), service)
                .await;
        });
    }
}

impl Shared {
    fn orders(&self) -> MutexGuard<'_, Vec<Standing>> {
        self.orders.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn seen(&self) -> MutexGuard<'_, Vec<Seen>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records the request, of whose body so many bytes are `missing`, and returns the fault to apply to it.
    fn take_in(&self, call: &Call, path: String, missing: Arc<AtomicU64>) -> Option<Fault> {
        let mut orders = self.orders();
        let open = |order: &Standing| order.left != Some(0) && order.on.fits(call);
        let order = orders.iter().position(open);
        self.seen().push(Seen {
            call: call.clone(),
            at: Instant::now(),
            path,
            missing,
        });
        let order = &mut orders[order?];
        order.hits += 1;
        order.left = order.left.map(|left| left - 1);
        Some(order.fault.clone())
    }

    async fn answer(&self, request: Request<Incoming>) -> Response<Answer> {
        // Subscribes first, so that a watch does not miss an order.
        let ends = self.ends.subscribe();
        let (mut parts, sent) = request.into_parts();
        let call = Call::of(&parts);
        let (sent, missing) = body::counted(sent);
        let fault = self.take_in(&call, parts.uri.to_string(), missing);
        match &fault {
            Some(Fault::Hang) => std::future::pending().await,
            Some(Fault::Refuse {
                status,
                retry_after,
            }) => return refusal(*status, *retry_after),
            Some(Fault::Answer { code, body }) => return json_answer(*code, body.clone()),
            _ => {}
        }
        let path = parts.uri.path_and_query().map_or("/", |path| path.as_str());
        let Ok(target) = format!("{}{path}", self.server).parse::<Uri>() else {
            return refusal(StatusCode::BAD_REQUEST, None);
        };
        parts.uri = target;
        parts.headers.remove(HOST);
        parts.headers.remove(CONNECTION);
        let Ok(answer) = self.client.request(Request::from_parts(parts, sent)).await else {
            return refusal(StatusCode::BAD_GATEWAY, None);
        };
        let (parts, body) = answer.into_parts();
        let body = match fault {
            Some(Fault::HangAfter) => std::future::pending().await,
            Some(fault @ (Fault::CutAfter(_) | Fault::Slow(..))) => body::disturbed(body, fault),
            _ if call.verb != Verb::Watch || parts.status != StatusCode::OK => {
                body::untouched(body)
            }
            Some(Fault::EndAfter(count, end)) => {
                body::watch(body, call.resource, ends, Some((count, end)))
            }
            _ => body::watch(body, call.resource, ends, None),
        };
        Response::from_parts(parts, body)
    }
}

fn json_answer(status: StatusCode, body: String) -> Response<Answer> {
    let mut answer = Response::new(body::whole(body));
    *answer.status_mut() = status;
    let json = HeaderValue::from_static("application/json");
    answer.headers_mut().insert(CONTENT_TYPE, json);
    answer
}

/// Builds a refusal in the API server's words: of its request handler for 429, of its storage for 410.
fn refusal(status: StatusCode, retry_after: Option<u32>) -> Response<Answer> {
    let (reason, message) = match status {
        StatusCode::GONE => (
            "Expired",
            "The provided continue parameter is too old to display a consistent list result.",
        ),
        StatusCode::SERVICE_UNAVAILABLE => ("ServiceUnavailable", "the server is not ready"),
        StatusCode::BAD_GATEWAY => ("ServiceUnavailable", "the API server cannot be reached"),
        _ => ("InternalError", "an error on the server has happened"),
    };
    let (kind, text) = if status == StatusCode::TOO_MANY_REQUESTS {
        let text = "Too many requests, please try again later.\n".to_owned();
        ("text/plain; charset=utf-8", text)
    } else {
        let body = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": message, "reason": reason, "code": status.as_u16(),
        });
        ("application/json", body.to_string())
    };
    let mut answer = Response::new(body::whole(text));
    *answer.status_mut() = status;
    let headers = answer.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    if let Some(seconds) = retry_after {
        headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    answer
}
