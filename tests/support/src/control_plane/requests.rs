//! Sends the administrator's requests to the API server directly. kubectl takes 0.1 s of CPU time per request.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{LazyLock, Mutex, PoisonError, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::header::{CONTENT_TYPE, WARNING};
use hyper::{Method, Request, Response, StatusCode};
use hyper_openssl::client::legacy::HttpsConnector;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use openssl::ssl::{SslConnector, SslMethod};
use serde_json::{Value, json};
use tokio::runtime::{Builder, Runtime};

use super::ControlPlane;
use super::pki::{Authority, Identity};

/// Longer than any answer takes on a loaded machine; only a failure waits this long.
const DEADLINE: Duration = Duration::from_secs(120);

/// Pause before a retry when the server is overloaded.
const AGAIN: Duration = Duration::from_millis(100);
/// Timeout until a CRD is served.
const DEFINED: Duration = Duration::from_secs(60);

/// Separate from a test's own runtime, because tests block.
static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
    let runtime = Builder::new_multi_thread()
        .worker_threads(1)
        .thread_name("control-plane")
        .enable_all()
        .build();
    runtime.unwrap_or_else(|error| unreachable!("no runtime: {error}"))
});

/// A user's name and groups. A ServiceAccount has its groups by its name.
pub type User<'a> = (&'a str, &'a [&'a str]);

/// The administrator's client, with persistent connections.
#[derive(Debug)]
pub(super) struct Administrator {
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    /// The discovered kinds, by API version and kind: plural, and whether they are namespaced.
    kinds: Mutex<BTreeMap<(String, String), (String, bool)>>,
}

impl Administrator {
    pub fn new(authorities: [&Authority; 2], identity: &Identity) -> Result<Self> {
        let mut tls = SslConnector::builder(SslMethod::tls_client())?;
        for authority in authorities {
            tls.cert_store_mut()
                .add_cert(authority.certificate().clone())?;
        }
        tls.set_certificate(&identity.certificate)?;
        tls.set_private_key(&identity.key)?;
        let mut http = HttpConnector::new();
        http.enforce_http(false);
        http.set_nodelay(true);
        let connector = HttpsConnector::with_connector(http, tls)?;
        Ok(Self {
            client: Client::builder(TokioExecutor::new()).build(connector),
            kinds: Mutex::default(),
        })
    }

    /// Sends a request, as itself or for a user, and returns the answer, or an error if there is none.
    pub fn ask(
        &self,
        method: Method,
        address: SocketAddr,
        path: &str,
        (content_type, body): (&str, String),
        on_behalf_of: Option<User<'_>>,
    ) -> Result<Response<Bytes>> {
        let mut request = Request::builder()
            .method(method)
            .uri(format!("https://{address}{path}"))
            .header(CONTENT_TYPE, content_type);
        if let Some((user, groups)) = on_behalf_of {
            request = request.header("Impersonate-User", user);
            for group in groups {
                request = request.header("Impersonate-Group", *group);
            }
        }
        let request = request.body(Full::from(body))?;
        let client = self.client.clone();
        let answer = async move {
            loop {
                let (head, body) = client.request(request.clone()).await?.into_parts();
                let body = body.collect().await?.to_bytes();
                // The API server answers 429 while it starts.
                if head.status != StatusCode::TOO_MANY_REQUESTS {
                    return anyhow::Ok(Response::from_parts(head, body));
                }
                tokio::time::sleep(AGAIN).await;
            }
        };
        let (sender, receiver) = mpsc::channel();
        RUNTIME.spawn(async move {
            // The caller waits for this, so the receiver exists.
            let _ = sender.send(tokio::time::timeout(DEADLINE, answer).await);
        });
        receiver.recv()?.with_context(|| path.to_owned())?
    }
}

impl ControlPlane {
    /// Returns what the API server has at a path, or `None` for 404.
    pub fn read(&self, path: &str) -> Result<Option<Value>> {
        let (status, answer) = self.ask(Method::GET, path, ("application/json", String::new()))?;
        (status != StatusCode::NOT_FOUND)
            .then(|| parsed(path, status, &answer))
            .transpose()
    }

    /// Returns the events of the collection at a path from a version to now.
    pub fn watch(&self, path: &str, version: &str) -> Result<Vec<Value>> {
        let path = format!("{path}?watch=true&resourceVersion={version}&timeoutSeconds=1");
        let (status, answer) = self.ask(Method::GET, &path, ("application/json", String::new()))?;
        ensure!(status.is_success(), "{path}: {status}");
        let events = serde_json::Deserializer::from_slice(&answer).into_iter();
        events.collect::<Result<_, _>>().context(path)
    }

    /// Patches an object with a merge patch.
    pub fn patch(&self, path: &str, change: &Value) -> Result<Value> {
        let body = ("application/merge-patch+json", change.to_string());
        let (status, answer) = self.ask(Method::PATCH, path, body)?;
        parsed(path, status, &answer)
    }

    /// Deletes what is at a path.
    pub fn delete(&self, path: &str) -> Result<()> {
        let (status, answer) =
            self.ask(Method::DELETE, path, ("application/json", String::new()))?;
        parsed(path, status, &answer).map(drop)
    }

    /// Creates or updates objects, given as YAML or JSON.
    pub fn apply(&self, yaml: &str) -> Result<()> {
        let lines: Vec<&str> = yaml.lines().collect();
        for document in lines.split(|line| line.trim_end() == "---") {
            let document = document.join("\n") + "\n";
            let object: Value = serde_yaml::from_str(&document).context("an object to apply")?;
            if let Some(items) = object["items"].as_array() {
                let mut items = items.iter();
                items.try_for_each(|item| self.apply_one(item, item.to_string(), ""))?;
            } else if !object.is_null() {
                self.apply_one(&object, document, "")?;
            }
        }
        Ok(())
    }

    /// Like [`ControlPlane::apply`] for one object, as a dry run.
    pub fn try_apply(&self, object: &Value) -> Result<()> {
        self.apply_one(object, object.to_string(), "&dryRun=All")
    }

    fn apply_one(&self, object: &Value, text: String, more: &str) -> Result<()> {
        let path = self.path_of(object)?;
        let path = format!("{path}?fieldManager=kubectl&fieldValidation=Strict&force=true{more}");
        let body = ("application/apply-patch+yaml", text);
        let (status, answer) = self.ask(Method::PATCH, &path, body)?;
        parsed(&path, status, &answer).map(drop)
    }

    /// Waits until the API server serves every CRD, and from its watch cache. The cache knows no version from before it was
    /// filled: a watch from such a version ends with 410.
    pub fn await_definitions(&self) -> Result<()> {
        let begin = Instant::now();
        let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        loop {
            let defined = self.read(definitions)?.unwrap_or_default();
            let mut specs = defined["items"].as_array().into_iter().flatten();
            if specs.all(|definition| self.serves(&definition["spec"]).unwrap_or_default()) {
                return Ok(());
            }
            ensure!(begin.elapsed() < DEFINED, "kinds are not served");
            thread::sleep(Duration::from_millis(50));
        }
    }

    fn serves(&self, definition: &Value) -> Result<bool> {
        let group = definition["group"].as_str().context("group")?;
        for version in definition["versions"].as_array().into_iter().flatten() {
            let name = version["name"].as_str().context("name")?;
            let served = self
                .read(&format!("/apis/{group}/{name}"))?
                .unwrap_or_default();
            let mut served = served["resources"].as_array().into_iter().flatten();
            let is_served = served.any(|kind| kind["name"] == definition["names"]["plural"]);
            if version["served"] != true {
                continue;
            }
            let plural = definition["names"]["plural"].as_str().context("plural")?;
            let cached = format!("/apis/{group}/{name}/{plural}?resourceVersion=0&limit=1");
            if !is_served || self.read(&cached)?.is_none() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Creates an object in the collection at a path.
    pub fn post(&self, path: &str, object: &Value) -> Result<Value> {
        let body = ("application/json", object.to_string());
        let (status, answer) = self.ask(Method::POST, path, body)?;
        parsed(path, status, &answer)
    }

    /// Creates a token of a ServiceAccount that is valid for a day.
    pub fn token_of(&self, namespace: &str, name: &str) -> Result<String> {
        let path = format!("/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token");
        let request = json!({
            "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
            "spec": {"expirationSeconds": 24 * 60 * 60},
        });
        let answer = self.post(&path, &request)?;
        let token = answer["status"]["token"].as_str();
        Ok(token.context("no token")?.to_owned())
    }

    /// Returns whether a server answers the administrator with 200.
    pub(super) fn answers(&self, address: SocketAddr, path: &str) -> bool {
        let nothing = ("application/json", String::new());
        let answer = self
            .administrator
            .ask(Method::GET, address, path, nothing, None);
        answer.is_ok_and(|answer| answer.status() == StatusCode::OK)
    }

    fn ask(&self, method: Method, path: &str, body: (&str, String)) -> Result<(StatusCode, Bytes)> {
        let answer = self
            .administrator
            .ask(method, self.api_address, path, body, None);
        answer.map(|answer| (answer.status(), answer.into_body()))
    }

    /// Asks for the creation of an object as a dry run, as the administrator or for a user. Returns whether it was accepted,
    /// and what `kubectl` would print.
    pub fn try_create(&self, object: &Value, by: Option<User<'_>>) -> Result<(bool, String)> {
        let path = self.path_of(object)?;
        let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
        let path =
            format!("{folder}?dryRun=All&fieldManager=kubectl-create&fieldValidation=Strict");
        let body = ("application/json", object.to_string());
        let answer = (self.administrator).ask(Method::POST, self.api_address, &path, body, by)?;
        let warnings = answer.headers().get_all(WARNING).into_iter();
        let warnings = warnings.map(|warning| Ok(format!("Warning: {}\n", warning.to_str()?)));
        let mut said: String = warnings.collect::<Result<_>>()?;
        let is_taken = answer.status().is_success();
        if !is_taken {
            said += &String::from_utf8_lossy(answer.body());
        }
        Ok((is_taken, said))
    }

    fn path_of(&self, object: &Value) -> Result<String> {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let version = text(&object["apiVersion"]).context("apiVersion")?;
        let name = text(&object["metadata"]["name"]).context("metadata.name")?;
        let folder = if version.contains('/') { "apis" } else { "api" };
        let folder = format!("/{folder}/{version}");
        let kind = (version, text(&object["kind"]).context("kind")?);
        let kinds = || {
            let kinds = self.administrator.kinds.lock();
            kinds.unwrap_or_else(PoisonError::into_inner)
        };
        if !kinds().contains_key(&kind) {
            let served = self.read(&folder)?.unwrap_or_default();
            for served in served["resources"].as_array().into_iter().flatten() {
                let plural = text(&served["name"]).filter(|name| !name.contains('/'));
                if let (Some(plural), Some(kind_of)) = (plural, text(&served["kind"])) {
                    let is_namespaced = served["namespaced"] == true;
                    kinds().insert((kind.0.clone(), kind_of), (plural, is_namespaced));
                }
            }
        }
        let kinds = kinds();
        let (plural, is_namespaced) = kinds
            .get(&kind)
            .with_context(|| format!("the API server does not serve {kind:?}"))?;
        let namespace = text(&object["metadata"]["namespace"]).unwrap_or("default".to_owned());
        Ok(if *is_namespaced {
            format!("{folder}/namespaces/{namespace}/{plural}/{name}")
        } else {
            format!("{folder}/{plural}/{name}")
        })
    }
}

fn parsed(path: &str, status: StatusCode, answer: &[u8]) -> Result<Value> {
    let text = String::from_utf8_lossy(answer);
    ensure!(status.is_success(), "{path}: {status}: {text}");
    serde_json::from_slice(answer).with_context(|| format!("what is at {path}"))
}
