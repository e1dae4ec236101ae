//! Health and metrics over HTTP.

mod connections;
mod liveness;
mod metrics;
mod places;
mod process;
mod readiness;
mod secure;

use std::time::Duration;

use axum::body::Body;
use axum::extract::{RawQuery, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, Request, StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::get;
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tower::Service;

pub use liveness::{Bounds as Patience, Liveness};
pub(crate) use metrics::VisitGauges;
pub use metrics::{Format, Metrics};
use places::{Bounds, Places};
pub use readiness::{Health, Readiness};
pub use secure::Secure;

const PLACES: Bounds = Bounds {
    all: 64,
    of_one_peer: 16,
};
/// How long a connection may take in all: a kubelet waits for a second.
const CONNECTION: Duration = Duration::from_secs(10);

/// What the endpoints show.
#[derive(Clone, Default)]
pub struct Shown {
    /// Whether the cluster has been read and the gate has been set.
    pub readiness: Readiness,
    /// Whether the controller gets on.
    pub liveness: Liveness,
    /// The metrics.
    pub metrics: Metrics,
}

/// Serves `/healthz` and `/readyz` until the process ends, and `/metrics` to this machine alone: anybody who can connect
/// may read what is served here. Others get metrics from [`Secure`].
pub async fn serve(listener: TcpListener, shown: Shown) -> std::io::Result<()> {
    let is_local = listener.local_addr()?.ip().is_loopback();
    let metrics = if is_local {
        get(metrics_text)
    } else {
        get(metrics_are_elsewhere)
    };
    let router = axum::Router::new()
        .route("/healthz", get(alive))
        .route("/readyz", get(ready))
        .route("/metrics", metrics)
        .with_state(shown);
    let places = Places::new(PLACES);
    loop {
        let (connection, peer) = connections::accept(&listener).await;
        let (place, router) = (places.take(peer), router.clone());
        tokio::spawn(async move {
            let respond = |head: Parts| {
                let mut router = router.clone();
                async move {
                    let request = Request::from_parts(head, Body::empty());
                    let Ok(response) = router.call(request).await;
                    response
                }
            };
            let answered = connections::answer(TokioIo::new(connection), respond);
            // What a client does wrong is its own affair.
            match place.hold(CONNECTION, answered).await {
                Ok(Ok(())) => {}
                Ok(Err(problem)) => tracing::debug!("a connection for health ended: {problem}"),
                Err(problem) => tracing::debug!("a connection for health was ended: {problem}"),
            }
        });
    }
}

/// What is wrong names no object, so that anybody may see it.
async fn alive(State(shown): State<Shown>) -> impl IntoResponse {
    match shown.liveness.problem() {
        None => (StatusCode::OK, "ok".to_owned()),
        Some(problem) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{problem}\n")),
    }
}

/// Why it is not ready is told with `?verbose` alone, which also shows each check where all is well.
async fn ready(State(shown): State<Shown>, RawQuery(query): RawQuery) -> impl IntoResponse {
    let is_verbose =
        query.is_some_and(|query| query.split('&').any(|part| part.starts_with("verbose")));
    let (ready, text) = shown.readiness.answer(is_verbose);
    match (ready, is_verbose) {
        (true, false) => (StatusCode::OK, "ok".to_owned()),
        (true, true) => (StatusCode::OK, text),
        (false, _) => (StatusCode::SERVICE_UNAVAILABLE, text),
    }
}

async fn metrics_text(State(shown): State<Shown>, headers: HeaderMap) -> impl IntoResponse {
    let accept = headers
        .get(header::ACCEPT)
        .and_then(|value| value.to_str().ok());
    let format = Format::accepted(accept);
    (
        [(header::CONTENT_TYPE, format.content_type())],
        shown.metrics.encode(format),
    )
}

async fn metrics_are_elsewhere() -> impl IntoResponse {
    let words = "metrics are served over TLS, at the address of --metrics-address\n";
    (StatusCode::NOT_FOUND, words)
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, SocketAddr};
    use std::time::Instant;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpSocket, TcpStream};

    use super::*;

    #[tokio::test]
    async fn an_address_for_everybody_serves_health_and_no_metrics() {
        let listener = TcpListener::bind("0.0.0.0:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        tokio::spawn(serve(listener, Shown::default()));
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        assert!(get(address, "/healthz").await.starts_with("HTTP/1.1 200"));
        let refused = get(address, "/metrics").await;
        assert!(
            refused.starts_with("HTTP/1.1 404") && refused.contains("--metrics-address"),
            "{refused}"
        );
    }

    async fn get(address: SocketAddr, path: &str) -> String {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    }

    /// Whether the other side has not ended it.
    fn is_open(stream: &TcpStream) -> bool {
        let read = stream.try_read(&mut [0; 1]);
        read.is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock)
    }

    #[tokio::test]
    async fn half_requests_hold_few_connections_and_not_for_long_and_keep_nobody_out() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(serve(listener, Shown::default()));
        let mut halves = Vec::new();
        for number in 0..200_u8 {
            let socket = TcpSocket::new_v4().unwrap();
            let peer = IpAddr::from([127, 0, 0, 2 + number % 8]);
            socket.bind(SocketAddr::new(peer, 0)).unwrap();
            let mut half = socket.connect(address).await.unwrap();
            // One that has made way already is no matter.
            let _ = half.write_all(b"GET /healthz HTTP/1.1\r\nHost: ").await;
            halves.push(half);
        }
        assert!(get(address, "/healthz").await.starts_with("HTTP/1.1 200"));
        let begin = Instant::now();
        let open = async |at_most: usize| {
            while halves.iter().filter(|half| is_open(half)).count() > at_most {
                assert!(begin.elapsed() < Duration::from_secs(30), "{at_most}");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        open(PLACES.all).await;
        assert!(begin.elapsed() < Duration::from_secs(4), "for want of time");
        open(0).await;
        assert!(get(address, "/healthz").await.starts_with("HTTP/1.1 200"));
    }

    /// The code of the answer to `/healthz`, asked for until it is that one.
    fn wait_for_health(address: SocketAddr, code: &str) -> String {
        use std::io::{Read, Write};
        let begin = Instant::now();
        loop {
            let mut answer = String::new();
            let mut stream = std::net::TcpStream::connect(address).unwrap();
            let request = b"GET /healthz HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
            stream.write_all(request).unwrap();
            stream.read_to_string(&mut answer).unwrap();
            if answer.starts_with(&format!("HTTP/1.1 {code}")) {
                return answer;
            }
            assert!(begin.elapsed() < Duration::from_secs(60), "{answer}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    #[test]
    fn a_controller_that_hangs_fails_its_health_and_one_that_goes_on_is_well_again() {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        let bounds = Patience {
            turn: Duration::from_secs(1),
            pass: Duration::from_millis(100),
        };
        let shown = Shown {
            liveness: Liveness::within(bounds),
            ..Shown::default()
        };
        let liveness = shown.liveness.clone();
        runtime.block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap();
            tokio::spawn(serve(listener, shown));
            let (let_go, waiting) = std::sync::mpsc::channel();
            let asker = std::thread::spawn(move || {
                let stuck = wait_for_health(address, "500");
                let_go.send(()).unwrap();
                wait_for_health(address, "200");
                stuck
            });
            // As two that wait for each other would: this task gives way to nobody.
            waiting.recv().unwrap();
            let work = async {
                let asker = tokio::task::spawn_blocking(move || asker.join().unwrap());
                let stuck = asker.await.unwrap();
                assert!(
                    stuck.contains("the controller has not moved for "),
                    "{stuck}"
                );
                // A pass that waits for what never comes, while all else goes on.
                liveness.pass_begins();
                let stuck = move || wait_for_health(address, "500");
                let stuck = tokio::task::spawn_blocking(stuck).await.unwrap();
                assert!(stuck.contains("a pass has taken "), "{stuck}");
                liveness.pass_ends();
                let well = move || wait_for_health(address, "200");
                tokio::task::spawn_blocking(well).await.unwrap();
            };
            tokio::select! {
                never = liveness.turn() => match never {},
                () = work => {}
            }
        });
    }

    #[tokio::test]
    async fn readiness_follows_the_truth_and_health_and_metrics_are_there_from_the_start() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let shown = Shown::default();
        tokio::spawn(serve(listener, shown.clone()));
        let get = async |path: &str| get(address, path).await;
        assert!(get("/healthz").await.starts_with("HTTP/1.1 200"));
        let before = get("/readyz").await;
        assert!(before.starts_with("HTTP/1.1 503") && before.contains("[-]leader-election failed"));
        shown.readiness.leads();
        assert!(get("/readyz").await.contains("[-]cluster-read failed"));
        let reason = "nothing has been read yet";
        assert!(!get("/readyz").await.contains(reason));
        assert!(get("/readyz?verbose").await.contains(reason));
        shown.readiness.tell(Health {
            unread: None,
            stale: None,
            gate: None,
            unwritten: None,
        });
        let ready = get("/readyz").await;
        assert!(
            ready.starts_with("HTTP/1.1 200") && ready.ends_with("\r\n\r\nok"),
            "{ready}"
        );
        assert!(get("/readyz?verbose").await.contains("[+]cluster-read ok"));
        let metrics = get("/metrics").await;
        for line in [
            "\nwindows_storage_upgradeable 0",
            "\nprocess_resident_memory_bytes ",
            "\nprocess_virtual_memory_bytes ",
            "\nprocess_cpu_seconds_total ",
            "\nprocess_open_fds ",
            "\nprocess_max_fds ",
            "\nwindows_storage_runtime_tasks ",
        ] {
            assert!(metrics.contains(line), "{line} is not in {metrics}");
        }
    }
}
