//! Requests that only the leader may make.

use std::pin::Pin;
use std::task::{Context, Poll};

use http::{Method, Request};
use hyper::body::{Bytes, Frame, SizeHint};
use kube::client::Body;
use tower::BoxError;

use super::purpose::Purpose;
use crate::lease::Fence;

/// Whether a request changes what only the leader may change.
pub fn changes_something<B>(request: &Request<B>) -> bool {
    let reads = [Method::GET, Method::HEAD, Method::OPTIONS];
    !reads.contains(request.method()) && Purpose::of(request) == Purpose::Work
}

/// Has the request go on only while the fence is open.
pub fn fence_in(request: &mut Request<Body>, fence: &Fence) {
    request.extensions_mut().insert(fence.clone());
}

/// A body of which nothing is handed on where the request was fenced in and the fence is closed: the server then drops the
/// request, whose end is missing. Between the decision to send it and its sending may lie a new connection, or the time
/// for which somebody has stopped the process.
pub struct FencedBody {
    body: Body,
    fence: Option<Fence>,
}

impl FencedBody {
    /// The body of that request.
    pub fn of(mut request: Request<Body>) -> Request<Self> {
        let fence = request.extensions_mut().remove();
        request.map(|body| Self { body, fence })
    }
}

impl hyper::body::Body for FencedBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if let Some(Err(closed)) = self.fence.as_ref().map(Fence::pass) {
            return Poll::Ready(Some(Err(closed.into())));
        }
        let frame = Pin::new(&mut self.body).poll_frame(context);
        frame.map(|frame| frame.map(|frame| frame.map_err(BoxError::from)))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
