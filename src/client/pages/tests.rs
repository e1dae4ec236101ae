use std::convert::Infallible;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures::future::join_all;
use futures::{StreamExt, stream};
use http_body_util::StreamBody;
use hyper::body::{Bytes, Frame};
use kube::api::ListParams;
use kube::{Api, Resource};
use tower::service_fn;

use super::*;
use crate::client::listing::{self, Step};
use crate::client::policy::RequestPolicy;
use crate::http::Metrics;
use crate::lease::Fence;
use crate::objects::{Received, kind};

/// What an annotation of a large object is made of.
static FILLING: [u8; 1 << 16] = [b'x'; 1 << 16];
/// 1.3 MB.
const LARGE_OBJECT: usize = 20;
const KINDS: [&str; 3] = ["DaemonSet", "Deployment", "StatefulSet"];

/// An answered request for a page.
#[derive(Clone, Debug, PartialEq)]
struct Asked {
    path: String,
    from: usize,
    limit: usize,
    bytes: usize,
}

/// A server with a list of objects of these sizes, in parts of 64 KiB, at each path.
#[derive(Clone)]
struct Server {
    sizes: Arc<Vec<usize>>,
    asked: Arc<Mutex<Vec<Asked>>>,
    /// The large answers that are being read, and the most at a time.
    reading: Arc<AtomicUsize>,
    most_reading: Arc<AtomicUsize>,
}

impl Server {
    fn new(sizes: impl IntoIterator<Item = usize>) -> Self {
        Self {
            sizes: Arc::new(sizes.into_iter().collect()),
            asked: Arc::default(),
            reading: Arc::default(),
            most_reading: Arc::default(),
        }
    }

    fn client(&self) -> kube::Client {
        let server = self.clone();
        let service = service_fn(move |request| {
            let answer = server.answer(&request);
            async { Ok::<_, Infallible>(answer) }
        });
        let connections = kube::Client::new(service, "default");
        let policy = RequestPolicy::new(Metrics::default(), Fence::open());
        crate::client::over(
            connections,
            "default".to_owned(),
            policy,
            Revisions::default(),
        )
    }

    fn answer(
        &self,
        request: &Request<Body>,
    ) -> Response<StreamBody<impl futures::Stream<Item = Result<Frame<Bytes>, Infallible>> + use<>>>
    {
        let query = |name: &str| {
            let mut parts = request.uri().query().unwrap().split('&');
            parts.find_map(|part| part.strip_prefix(name)?.strip_prefix('='))
        };
        let number = |name| query(name).map_or(0, |text: &str| text.parse().unwrap());
        let (from, limit) = (number("continue"), number("limit"));
        let end = self.sizes.len().min(from + limit);
        let next = if end == self.sizes.len() {
            String::new()
        } else {
            end.to_string()
        };
        let mut parts = vec![Bytes::from(format!(
            r#"{{"kind":"List","apiVersion":"v1","metadata":{{"resourceVersion":"7","continue":"{next}"}},"items":["#
        ))];
        for number in from..end {
            let comma = if number > from { "," } else { "" };
            parts.push(Bytes::from(format!(
                r#"{comma}{{"metadata":{{"name":"a-{number}","annotations":{{"a":""#
            )));
            parts.extend((0..self.sizes[number]).map(|_| Bytes::from_static(&FILLING)));
            parts.push(Bytes::from_static(br#""}}}"#));
        }
        parts.push(Bytes::from_static(b"]}"));
        let bytes = parts.iter().map(Bytes::len).sum();
        self.asked.lock().unwrap().push(Asked {
            path: request.uri().path().to_owned(),
            from,
            limit,
            bytes,
        });
        let mut progress = Reading {
            server: self.clone(),
            bytes: 0,
        };
        let parts = stream::iter(parts).then(move |part| {
            progress.take(part.len());
            // Gives other lists the chance to go on.
            async move {
                tokio::task::yield_now().await;
                Ok(Frame::data(part))
            }
        });
        Response::new(StreamBody::new(parts))
    }
}

/// An answer that is being read.
struct Reading {
    server: Server,
    bytes: usize,
}

impl Reading {
    fn take(&mut self, bytes: usize) {
        let was_large = self.is_large();
        self.bytes += bytes;
        if self.is_large() && !was_large {
            let now = self.server.reading.fetch_add(1, Ordering::SeqCst) + 1;
            self.server.most_reading.fetch_max(now, Ordering::SeqCst);
        }
    }

    /// A part may be on its way before the reader knows how large it is.
    fn is_large(&self) -> bool {
        self.bytes > LARGE + FILLING.len()
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        if self.is_large() {
            self.server.reading.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

/// What a list gave.
#[derive(Default)]
struct Listed {
    names: Vec<String>,
    pages: Vec<(usize, usize)>,
}

async fn list(client: &kube::Client, name: &str) -> Listed {
    let resource = &kind("apps/v1", name).unwrap().resource;
    let api = Api::<Received>::all_with(client.clone(), resource);
    let mut listed = Listed::default();
    let mut report = |step| {
        if let Step::Page(objects) = step {
            let bytes = objects.iter().map(|object| object.text().len());
            listed.pages.push((objects.len(), bytes.sum()));
            let names = objects.iter().map(|object| object.meta().name.clone());
            listed.names.extend(names.flatten());
        }
    };
    let all = ListParams::default();
    listing::list(&api, &all, &mut report).await.unwrap();
    listed
}

#[test]
fn pages_of_large_objects_are_small_and_read_one_after_the_other() {
    let small = |count| std::iter::repeat_n(0, count);
    let large = std::iter::repeat_n(LARGE_OBJECT, 40);
    let server = Server::new(small(100).chain(large).chain(small(600)));
    // All in one thread, so that all is counted.
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().build().unwrap();
    let mut all = Vec::new();
    let allocated = allocation_counter::measure(|| {
        all = runtime.block_on(async {
            let client = server.client();
            join_all(KINDS.iter().map(|kind| list(&client, kind))).await
        });
    });

    let expected: Vec<String> = (0..740).map(|number| format!("a-{number}")).collect();
    for listed in &all {
        assert_eq!(listed.names, expected, "complete and in order");
        for (count, bytes) in &listed.pages {
            assert!(*bytes <= MOST || *count == 1, "{count} with {bytes} bytes");
        }
        let (last, _) = listed.pages[listed.pages.len() - 1];
        assert!(last > 100, "small objects come in large pages again");
    }
    let asked = server.asked.lock().unwrap();
    for (number, one) in asked.iter().enumerate() {
        assert!(!asked[..number].contains(one), "again: {one:?}");
    }
    let too_large = asked.iter().filter(|one| one.bytes > MOST).count();
    assert!(too_large * 4 < asked.len(), "{too_large}: {asked:?}");
    assert_eq!(server.most_reading.load(Ordering::SeqCst), 1);
    let most = allocated.bytes_max;
    assert!(most < 5 * MOST as u64, "{most} bytes at a time");
}

#[tokio::test]
async fn pages_of_small_objects_are_asked_for_once() {
    let server = Server::new(std::iter::repeat_n(0, 1_200));
    let listed = list(&server.client(), "Deployment").await;
    assert_eq!(listed.names.len(), 1_200);
    let asked = server.asked.lock().unwrap();
    let asked: Vec<_> = asked.iter().map(|one| (one.from, one.limit)).collect();
    assert_eq!(asked, [(0, 500), (500, 500), (1_000, 500)]);
}

#[tokio::test]
async fn what_is_no_page_of_a_list_goes_through_as_it_is() {
    for (method, uri) in [
        (Method::GET, "/api/v1/pods?watch=true&limit=5"),
        (Method::GET, "/api/v1/pods"),
        (Method::GET, "/api/v1/pods?limit=0"),
        (
            Method::GET,
            "/api/v1/namespaces/a/pods/b/log?limitBytes=5&follow=true",
        ),
        (Method::DELETE, "/api/v1/pods?limit=5"),
    ] {
        let request = Request::builder().method(&method).uri(uri);
        let request = request.body(Body::empty()).unwrap();
        assert_eq!(limit(&request), None, "{method} {uri}");
    }
    let refused = |request: Request<Body>| async move {
        assert_eq!(request.uri(), "/api/v1/pods?&limit=5&continue=a%3D");
        let answer = Response::builder().status(410);
        Ok(answer.body(Body::from(b"gone".to_vec())).unwrap())
    };
    let request = Request::get("/api/v1/pods?&limit=5&continue=a%3D");
    let request = request.body(Body::empty()).unwrap();
    let answer = Pages::new(Revisions::default())
        .send(request, refused)
        .await
        .unwrap();
    assert_eq!(answer.status(), 410);
    let body = answer.into_body().collect().await.unwrap().to_bytes();
    assert_eq!(body, "gone");
}

#[tokio::test]
async fn a_list_of_another_store_is_refused_and_further_pages_are_not_compared() {
    let answers = Arc::new(Mutex::new(vec![
        (9, "more"),
        // The rest of that list, while the store has gone on.
        (9, ""),
        (12, ""),
        (12, ""),
        (5, ""),
    ]));
    let service = service_fn(move |_: Request<Body>| {
        let (version, more) = answers.lock().unwrap().remove(0);
        let metadata = format!(r#"{{"resourceVersion":"{version}","continue":"{more}"}}"#);
        let list =
            format!(r#"{{"kind":"PodList","apiVersion":"v1","items":[],"metadata":{metadata}}}"#);
        async { Ok::<_, Infallible>(Response::new(Body::from(list.into_bytes()))) }
    });
    let connections = kube::Client::new(service, "default");
    let policy = RequestPolicy::new(Metrics::default(), Fence::open());
    let revisions = Revisions::default();
    let client = crate::client::over(connections, "default".to_owned(), policy, revisions.clone());
    let pods = Api::<Received>::all_with(client, &kind("v1", "Pod").unwrap().resource);
    let first = ListParams::default().limit(100);
    let further = first.clone().continue_token("more");
    pods.list(&first).await.unwrap();
    revisions.see(pods.resource_url(), "10").unwrap();
    for page in [&further, &first, &first] {
        pods.list(page).await.unwrap();
    }
    let error = pods.list(&first).await.unwrap_err();
    let kube::Error::Service(cause) = error else {
        panic!("{error}");
    };
    let went_back = cause.downcast_ref::<crate::client::WentBack>();
    assert!(
        went_back.unwrap().to_string().contains("from 12 to 5"),
        "{cause}"
    );
}
