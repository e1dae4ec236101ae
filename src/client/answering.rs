//! A client of an API server that a test plays.

use std::sync::Arc;

use http::{Method, Request, Response};
use http_body_util::BodyExt;
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use tower::service_fn;

/// Returns a client whose requests get the code and the object that this returns for their method, path and body.
pub fn answering<F>(answer: F) -> Client
where
    F: Fn(&Method, &str, &[u8]) -> (u16, Value) + Send + Sync + 'static,
{
    let answer = Arc::new(answer);
    let service = service_fn(move |request: Request<Body>| {
        let answer = Arc::clone(&answer);
        async move {
            let (parts, body) = request.into_parts();
            let body = body.collect().await?.to_bytes();
            let (code, object) = answer(&parts.method, parts.uri.path(), &body);
            let answer = Body::from(serde_json::to_vec(&object)?);
            let answer = Response::builder().status(code).body(answer);
            Ok::<_, tower::BoxError>(answer?)
        }
    });
    Client::new(service, "default")
}

/// Returns the answer of a server that fails with this code.
pub fn failure(code: u16) -> (u16, Value) {
    let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": "no", "code": code});
    (code, status)
}
