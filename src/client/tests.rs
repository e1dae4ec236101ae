use std::convert::Infallible;
use std::sync::mpsc;

use http::header::RETRY_AFTER;
use http::{Method, Request, Response};
use http_body_util::BodyExt;
use kube::client::Body;
use tokio::time::Instant;

use super::policy::{BETWEEN_WATCHES, LONGEST_HOLD};
use super::*;

const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/a/leases/b";
const TOKEN_REVIEWS: &str = "/apis/authentication.k8s.io/v1/tokenreviews";
const ACCESS_REVIEWS: &str = "/apis/authorization.k8s.io/v1/subjectaccessreviews";

/// A server that records when it gets requests.
struct Server {
    policy: RequestPolicy,
    connections: kube::Client,
    metrics: Metrics,
    asked: mpsc::Receiver<Instant>,
}

impl Server {
    fn new(answer: impl FnMut() -> Option<Response<Body>> + Send + 'static) -> Self {
        Self::behind(Fence::open(), answer)
    }

    /// Creates a server that answers with what `answer` returns, or never.
    fn behind(
        fence: Fence,
        mut answer: impl FnMut() -> Option<Response<Body>> + Send + 'static,
    ) -> Self {
        let (sender, asked) = mpsc::channel();
        let metrics = Metrics::default();
        let service = service_fn(move |_: Request<Body>| {
            sender.send(Instant::now()).unwrap();
            let answer = answer();
            async {
                match answer {
                    Some(answer) => Ok::<_, Infallible>(answer),
                    None => std::future::pending().await,
                }
            }
        });
        Self {
            policy: RequestPolicy::new(metrics.clone(), fence),
            connections: kube::Client::new(service, "default"),
            metrics,
            asked,
        }
    }

    async fn get(&self, uri: &str) -> Result<Response<Body>, tower::BoxError> {
        self.send(&Method::GET, uri).await
    }

    async fn send(&self, method: &Method, uri: &str) -> Result<Response<Body>, tower::BoxError> {
        let request = Request::builder().method(method).uri(uri);
        let request = request.body(Body::empty()).unwrap();
        self.policy.send(&self.connections, request).await
    }

    fn asked(&self) -> Vec<Instant> {
        self.asked.try_iter().collect()
    }
}

fn answer(status: u16, retry_after: &str) -> Response<Body> {
    let answer = Response::builder().status(status);
    let answer = answer.header(RETRY_AFTER, retry_after);
    answer.body(Body::empty()).unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_server_that_never_answers_is_given_up() {
    let server = Server::new(|| None);
    let error = server.get("/api/v1/pods").await.unwrap_err();
    assert!(error.is::<NoAnswer>(), "{error}");
    assert_eq!(
        error.to_string(),
        "no answer from the API server within 30 s"
    );
}

#[tokio::test(start_paused = true)]
async fn every_request_is_counted_by_its_outcome() {
    let mut answers = [Some(answer(200, "")), Some(answer(409, "")), None].into_iter();
    let server = Server::new(move || answers.next().flatten());
    server.get("/api/v1/pods?watch=true").await.unwrap();
    server.get("/api/v1/pods").await.unwrap();
    server.get("/api/v1/pods").await.unwrap_err();
    let encoded = server.metrics.encode();
    for counted in [
        "{verb=\"WATCH\",code=\"2xx\"} 1",
        "{verb=\"GET\",code=\"4xx\"} 1",
        "{verb=\"GET\",code=\"none\"} 1",
    ] {
        let line = format!("winstorage_api_requests_total{counted}\n");
        assert!(encoded.contains(&line), "{line} is not in {encoded}");
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_but_the_lease_is_asked_for_before_retry_after_has_passed() {
    let refusals = [answer(429, "100000"), answer(503, "1")];
    let others = [
        answer(200, "9"),
        answer(500, "9"),
        answer(429, "tomorrow"),
        answer(429, "0"),
    ];
    let mut answers = refusals.into_iter().chain(others);
    let server = Server::new(move || answers.next());
    for path in ["/a", LEASE] {
        let before = Instant::now();
        server.get(path).await.unwrap();
        let until = server.policy.held_until().unwrap();
        assert!(until >= before + LONGEST_HOLD);
        let latest = Instant::now() + LONGEST_HOLD;
        assert!(until <= latest, "no longer than that");
    }
    let held = server.policy.held_until().unwrap();
    // Only refusals are obeyed.
    for path in ["/c", TOKEN_REVIEWS, "/c"] {
        server.get(path).await.unwrap();
        assert_eq!(server.policy.held_until(), None);
    }
    let asked = server.asked();
    assert!(asked[1] < asked[0] + LONGEST_HOLD, "the lease waited");
    assert!(asked[2] >= held);
}

#[tokio::test(start_paused = true)]
async fn the_same_watch_is_not_begun_again_at_once() {
    let server = Server::new(|| Some(answer(200, "")));
    // The interval counts from when a watch may start, and the first request may be recorded late.
    let begin = Instant::now();
    for uri in [
        "/pods?watch=true&resourceVersion=1",
        "/pods?limit=500",
        "/nodes?watch=true",
        "/pods?watch=true&resourceVersion=2",
        "/pods?limit=500&watch=1",
    ] {
        server.get(uri).await.unwrap();
    }
    let asked = server.asked();
    assert!(asked[2] < begin + BETWEEN_WATCHES, "another waited");
    assert!(asked[3] >= begin + BETWEEN_WATCHES);
    assert!(asked[4] >= begin + BETWEEN_WATCHES * 2);
}

#[tokio::test]
async fn without_the_lease_everything_is_read_and_nothing_changed() {
    let server = Server::behind(Fence::closed(), || Some(answer(200, "")));
    let changes = [Method::POST, Method::PUT, Method::PATCH, Method::DELETE];
    for method in &changes {
        let refused = server.send(method, "/api/v1/namespaces/a/configmaps/b");
        let error = refused.await.unwrap_err();
        assert!(error.is::<crate::lease::Closed>(), "{method}: {error}");
    }
    assert_eq!(server.asked().len(), 0, "it was sent");
    // A watch changes nothing, and the others decide who leads and who may read metrics.
    for (method, path) in [
        (Method::GET, "/api/v1/pods?watch=true"),
        (Method::PUT, LEASE),
        (Method::POST, TOKEN_REVIEWS),
        (Method::POST, ACCESS_REVIEWS),
    ] {
        server.send(&method, path).await.unwrap();
    }
    assert_eq!(server.asked().len(), 4);
    let server = Server::new(|| Some(answer(200, "")));
    for method in &changes {
        server.send(method, "/api/v1/pods/a").await.unwrap();
    }
}

#[tokio::test]
async fn a_request_that_waits_to_be_sent_when_the_lease_ends_is_not_sent() {
    let request = |fence: &Fence| {
        let body = Body::from(b"all of it".to_vec());
        let request = Request::put("/api/v1/pods/a").extension(fence.clone());
        fence::fenced(request.body(body).unwrap())
    };
    let open = request(&Fence::open());
    let length = &open.headers()[http::header::CONTENT_LENGTH];
    assert_eq!(length, "9", "the server learns how long it is");
    let sent = open.into_body().collect().await.unwrap().to_bytes();
    assert_eq!(sent, b"all of it".as_slice());
    let closed = request(&Fence::closed()).into_body();
    assert!(closed.collect().await.is_err());
}
