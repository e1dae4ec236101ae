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
        let (sender, asked) = mpsc::channel();
        let metrics = Metrics::default();
        let server = Server {
            asked: sender,
            answer,
        };
        Self {
            client: Manners::new(SHORT, metrics.clone()).layer(server),
            metrics,
            asked,
        }
    }

    async fn ask(&mut self, uri: &str) -> Result<Response<()>, BoxError> {
        let request = Request::get(uri).body(Body::empty()).unwrap();
        self.client.call(request).await
    }

    fn held_until(&self) -> Option<Instant> {
        self.client.manners.state().held_until
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
