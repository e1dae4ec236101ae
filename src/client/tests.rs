use std::sync::mpsc;

use super::*;
use crate::serve::Format;

const SHORT: Limits = Limits {
    answer: Duration::from_millis(1),
    longest_hold: Duration::from_millis(300),
    between_watches: Duration::from_millis(200),
};

/// A service that notes when it is asked, and answers with what `answer` says.
struct Server<F> {
    asked: mpsc::Sender<Instant>,
    answer: F,
}

impl<F> Service<Request<Body>> for Server<F>
where
    F: FnMut() -> Option<Response<()>>,
{
    type Response = Response<()>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Response<()>, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<Body>) -> Self::Future {
        let (asked, answer) = (self.asked.clone(), (self.answer)());
        Box::pin(async move {
            asked.send(Instant::now())?;
            match answer {
                Some(answer) => Ok(answer),
                None => std::future::pending().await,
            }
        })
    }
}

struct Rig<F> {
    client: Polite<Server<F>>,
    metrics: Metrics,
    asked: mpsc::Receiver<Instant>,
}

impl<F: FnMut() -> Option<Response<()>>> Rig<F> {
    fn new(answer: F) -> Self {
        Self::behind(Fence::open(), answer)
    }

    fn behind(fence: Fence, answer: F) -> Self {
        let (sender, asked) = mpsc::channel();
        let metrics = Metrics::default();
        let server = Server {
            asked: sender,
            answer,
        };
        let manners = Manners::new(SHORT, metrics.clone(), fence);
        Self {
            client: manners.layer(server),
            metrics,
            asked,
        }
    }

    async fn ask(&mut self, uri: &str) -> Result<Response<()>, BoxError> {
        self.send(&Method::GET, uri).await
    }

    async fn send(&mut self, method: &Method, uri: &str) -> Result<Response<()>, BoxError> {
        let request = Request::builder().method(method).uri(uri);
        self.client.call(request.body(Body::empty()).unwrap()).await
    }

    fn held_until(&self) -> Option<Instant> {
        *self.client.manners.state().holds.of(Purpose::Work)
    }
}

fn answer(status: u16, retry_after: &str) -> Response<()> {
    let answer = Response::builder().status(status);
    answer.header(RETRY_AFTER, retry_after).body(()).unwrap()
}

#[tokio::test]
async fn a_server_that_never_answers_is_given_up() {
    let mut rig = Rig::new(|| None);
    let error = rig.ask("/api/v1/pods").await.unwrap_err();
    assert!(error.to_string().starts_with("no answer"), "{error}");
    assert_eq!(
        NoAnswer(LIMITS.answer).to_string(),
        "no answer from the API server within 30 s"
    );
}

#[tokio::test]
async fn every_request_is_counted_by_what_came_of_it() {
    let mut answers = [Some(answer(200, "")), Some(answer(409, "")), None].into_iter();
    let mut rig = Rig::new(|| answers.next().flatten());
    rig.ask("/api/v1/pods?watch=true").await.unwrap();
    rig.ask("/api/v1/pods").await.unwrap();
    rig.ask("/api/v1/pods").await.unwrap_err();
    let told = rig.metrics.encode(Format::OpenMetrics);
    for counted in [
        "{verb=\"WATCH\",code=\"2xx\"} 1",
        "{verb=\"GET\",code=\"4xx\"} 1",
        "{verb=\"GET\",code=\"none\"} 1",
    ] {
        let line = format!("windows_storage_api_requests_total{counted}\n");
        assert!(told.contains(&line), "{line} is not in {told}");
    }
}

#[tokio::test]
async fn nothing_is_asked_before_retry_after_has_passed() {
    let refusals = [answer(429, "100000"), answer(503, "1")];
    let others = [
        answer(200, "9"),
        answer(500, "9"),
        answer(429, "tomorrow"),
        answer(429, "0"),
    ];
    let mut answers = refusals.into_iter().chain(others);
    let mut rig = Rig::new(|| answers.next());
    for path in ["/a", "/b"] {
        let before = Instant::now();
        rig.ask(path).await.unwrap();
        let until = rig.held_until().unwrap();
        assert!(until >= before + SHORT.longest_hold);
        assert!(
            until <= Instant::now() + SHORT.longest_hold,
            "no longer than that"
        );
    }
    let held = rig.held_until().unwrap();
    // Whatever is asked for. Only refusals are heeded.
    for path in ["/c", "/c", "/c"] {
        rig.ask(path).await.unwrap();
        assert_eq!(rig.held_until(), Some(held));
    }
    let asked: Vec<Instant> = rig.asked.try_iter().collect();
    assert!(asked[1] >= asked[0] + SHORT.longest_hold);
    assert!(asked[2] >= held);
}

#[tokio::test]
async fn a_refusal_holds_only_what_is_for_the_same_purpose() {
    let paths = [
        "/apis/authentication.k8s.io/v1/tokenreviews",
        "/apis/coordination.k8s.io/v1/namespaces/a/leases/b",
        "/apis/operators.coreos.com/v2/namespaces/a/operatorconditions/b",
    ];
    let purposes = [Purpose::Review, Purpose::Lease, Purpose::Work];
    for (refused, own) in paths.into_iter().zip(purposes) {
        let mut answers = [answer(429, "100000")].into_iter();
        let mut rig = Rig::new(|| Some(answers.next().unwrap_or_else(|| answer(200, ""))));
        rig.ask(refused).await.unwrap();
        for purpose in purposes {
            let hold = *rig.client.manners.state().holds.of(purpose);
            assert_eq!(hold.is_some(), purpose == own, "{purpose:?} by {refused}");
        }
        for path in paths {
            rig.ask(path).await.unwrap();
        }
        let asked: Vec<Instant> = rig.asked.try_iter().collect();
        for (path, at) in paths.iter().zip(&asked[1..]) {
            let waited = *at >= asked[0] + SHORT.longest_hold;
            assert!(waited || *path != refused, "{path} was asked for too early");
        }
    }
}

#[tokio::test]
async fn the_same_watch_is_not_begun_again_at_once() {
    let mut rig = Rig::new(|| Some(answer(200, "")));
    // The pace counts from when a watch may begin, and the first one may be noted late.
    let begin = Instant::now();
    for uri in [
        "/pods?watch=true&resourceVersion=1",
        "/pods?limit=500",
        "/pods?watch=true&resourceVersion=2",
        "/pods?limit=500&watch=1",
    ] {
        rig.ask(uri).await.unwrap();
    }
    let asked: Vec<Instant> = rig.asked.try_iter().collect();
    assert!(asked[2] >= begin + SHORT.between_watches);
    assert!(asked[3] >= begin + SHORT.between_watches * 2);
    let pace = |path: &str| rig.client.manners.state().watches.contains_key(path);
    assert!(
        pace("/pods") && !pace("/nodes"),
        "others do not wait for it"
    );
}

#[tokio::test]
async fn without_the_lease_everything_is_read_and_nothing_changed() {
    let fence = Fence::closed();
    let mut rig = Rig::behind(fence.clone(), || Some(answer(200, "")));
    let changes = [Method::POST, Method::PUT, Method::PATCH, Method::DELETE];
    for method in &changes {
        let refused = rig.send(method, "/api/v1/namespaces/a/configmaps/b").await;
        let error = refused.unwrap_err();
        assert!(error.is::<crate::lease::Closed>(), "{method}: {error}");
    }
    assert_eq!(rig.asked.try_iter().count(), 0, "it was sent");
    // A watch changes nothing, and by the others it is decided who leads, and who sees metrics.
    for (method, path) in [
        (Method::GET, "/api/v1/pods?watch=true"),
        (
            Method::PUT,
            "/apis/coordination.k8s.io/v1/namespaces/a/leases/b",
        ),
        (Method::POST, "/apis/authentication.k8s.io/v1/tokenreviews"),
        (
            Method::POST,
            "/apis/authorization.k8s.io/v1/subjectaccessreviews",
        ),
    ] {
        rig.send(&method, path).await.unwrap();
    }
    assert_eq!(rig.asked.try_iter().count(), 4);
    let mut rig = Rig::behind(Fence::open(), || Some(answer(200, "")));
    for method in &changes {
        rig.send(method, "/api/v1/pods/a").await.unwrap();
    }
}

#[tokio::test]
async fn what_waits_to_be_sent_when_the_lease_ends_is_not_sent() {
    use http_body_util::BodyExt;

    let body = |fence: &Fence| {
        let body = Body::from(b"all of it".to_vec());
        let mut request = Request::put("/api/v1/pods/a").body(body).unwrap();
        fenced::fence_in(&mut request, fence);
        fenced::FencedBody::of(request).into_body()
    };
    let open = body(&Fence::open());
    let length = hyper::body::Body::size_hint(&open).exact();
    assert_eq!(length, Some(9), "the server is told how long it is");
    assert_eq!(
        open.collect().await.unwrap().to_bytes(),
        b"all of it".as_slice()
    );
    assert!(body(&Fence::closed()).collect().await.is_err());
}
