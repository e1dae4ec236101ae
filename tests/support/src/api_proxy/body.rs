//! Relays response bodies through the proxy.

use std::convert::Infallible;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::{Body, Frame, Incoming};
use tokio::sync::{broadcast, mpsc};

use super::order::{End, Fault};

/// The connection was lost before the end of a body.
#[derive(Debug)]
pub struct Lost(String);

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl std::error::Error for Lost {}

pub type Answer = BoxBody<Bytes, Lost>;

/// The body of a request.
pub type Sent = BoxBody<Bytes, hyper::Error>;

/// Returns the body with the number of its bytes that have not arrived.
pub fn counted(body: Incoming) -> (Sent, Arc<AtomicU64>) {
    let missing = Arc::new(AtomicU64::new(body.size_hint().lower()));
    let left = Arc::clone(&missing);
    let counted = body.map_frame(move |frame| {
        let length = frame.data_ref().map_or(0, Bytes::len);
        left.fetch_sub(length as u64, Ordering::Relaxed);
        frame
    });
    (counted.boxed(), missing)
}

/// Returns a complete body.
pub fn whole(text: impl Into<Bytes>) -> Answer {
    let never = |never: Infallible| match never {};
    Full::new(text.into()).map_err(never).boxed()
}

/// Relays the API server's body unchanged.
pub fn untouched(body: Incoming) -> Answer {
    let lost = |error: hyper::Error| Lost(error.to_string());
    body.map_err(lost).boxed()
}

/// An order to end the running watches of one resource, or of all resources.
pub type EndOrder = (Option<String>, End);

/// Relays a watch until an order or its own fault ends it.
pub fn watch(
    body: Incoming,
    resource: String,
    orders: broadcast::Receiver<EndOrder>,
    fault: Option<(usize, End)>,
) -> Answer {
    let (sender, receiver) = mpsc::channel(1);
    let passing = async move {
        let closed = sender.clone();
        let end = tokio::select! {
            () = closed.closed() => return,
            end = events(body, &sender, fault) => end,
            end = ordered(orders, &resource) => end,
        };
        match end {
            End::Closed => {}
            End::Cut => drop(sender.send(Err(Lost("cut".to_owned()))).await),
            End::Gone => drop(sender.send(Ok(Bytes::from_static(GONE.as_bytes()))).await),
            End::Silent => closed.closed().await,
        }
    };
    tokio::spawn(passing);
    Passed(receiver).boxed()
}

/// The API server's event for an expired resource version.
const GONE: &str = r#"{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"too old resource version: 1 (2)","reason":"Expired","code":410}}
"#;

/// Waits for an order that applies to this watch.
async fn ordered(mut orders: broadcast::Receiver<EndOrder>, resource: &str) -> End {
    loop {
        match orders.recv().await {
            Ok((wanted, end)) if wanted.as_deref().is_none_or(|wanted| wanted == resource) => {
                return end;
            }
            Ok(_) | Err(broadcast::error::RecvError::Lagged(_)) => {}
            Err(broadcast::error::RecvError::Closed) => std::future::pending().await,
        }
    }
}

/// Relays whole events, one per line, until the stream ends or the fault ends it.
async fn events(
    mut body: Incoming,
    to: &mpsc::Sender<Result<Bytes, Lost>>,
    fault: Option<(usize, End)>,
) -> End {
    let mut begun = BytesMut::new();
    let mut left = fault.map(|(count, _)| count);
    loop {
        if let (Some(0), Some((_, end))) = (left, fault) {
            return end;
        }
        let line = begun.iter().position(|byte| *byte == b'\n');
        if let Some(end) = line {
            let event = begun.split_to(end + 1).freeze();
            left = left.map(|left| left - 1);
            if to.send(Ok(event)).await.is_err() {
                return End::Closed;
            }
            continue;
        }
        match body.frame().await {
            Some(Ok(frame)) => {
                if let Ok(data) = frame.into_data() {
                    begun.extend_from_slice(&data);
                }
            }
            Some(Err(_)) => return End::Cut,
            None => return End::Closed,
        }
    }
}

/// Relays a body that is cut off or slow.
pub fn disturbed(body: Incoming, fault: Fault) -> Answer {
    let (sender, receiver) = mpsc::channel(1);
    tokio::spawn(disturb(body, sender, fault));
    Passed(receiver).boxed()
}

async fn disturb(mut body: Incoming, to: mpsc::Sender<Result<Bytes, Lost>>, fault: Fault) {
    let mut passed = 0;
    while let Some(frame) = body.frame().await {
        let Ok(Ok(mut data)) = frame.map(Frame::into_data) else {
            drop(to.send(Err(Lost("lost".to_owned()))).await);
            return;
        };
        while !data.is_empty() {
            let (piece, end) = match &fault {
                Fault::Slow(most, pause) => {
                    tokio::select! {
                        () = to.closed() => return,
                        () = tokio::time::sleep(*pause) => {}
                    }
                    (data.split_to(data.len().min((*most).max(1))), false)
                }
                Fault::CutAfter(bytes) => {
                    let left = bytes.saturating_sub(passed);
                    let end = data.len() >= left;
                    (data.split_to(data.len().min(left)), end)
                }
                _ => (data.split_to(data.len()), false),
            };
            passed += piece.len();
            if !piece.is_empty() && to.send(Ok(piece)).await.is_err() {
                return;
            }
            if end {
                drop(to.send(Err(Lost("cut".to_owned()))).await);
                return;
            }
        }
    }
}

/// A body that another task sends.
struct Passed(mpsc::Receiver<Result<Bytes, Lost>>);

impl Body for Passed {
    type Data = Bytes;
    type Error = Lost;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Lost>>> {
        let data = self.0.poll_recv(context);
        data.map(|data| data.map(|data| data.map(Frame::data)))
    }
}
