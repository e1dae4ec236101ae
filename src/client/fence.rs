//! Cuts off the bodies of requests when leadership ends.

use futures::{Stream, StreamExt};
use http::Request;
use http::header::CONTENT_LENGTH;
use http_body_util::{BodyExt, StreamBody};
use hyper::body::{Body as _, Bytes, Frame};
use kube::client::Body;
use tower::BoxError;

use crate::lease::Fence;

/// Sends nothing more of a body once the request's fence is closed; the server then drops the incomplete request. Between
/// the decision to send a request and its sending, a new connection may be opened, or the process may be paused for a while.
pub fn fenced(
    mut request: Request<Body>,
) -> Request<StreamBody<impl Stream<Item = Result<Frame<Bytes>, BoxError>>>> {
    let fence = request.extensions_mut().remove::<Fence>();
    let fence = fence.unwrap_or_else(Fence::open);
    if let Some(length @ 1..) = request.body().size_hint().exact() {
        request.headers_mut().insert(CONTENT_LENGTH, length.into());
    }
    request.map(|body| {
        StreamBody::new(body.into_data_stream().map(move |chunk| {
            fence.pass()?;
            Ok(Frame::data(chunk?))
        }))
    })
}
