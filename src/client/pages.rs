//! Bounds the pages of lists in bytes. Their `limit` counts objects, and whoever may create some decides how large they are:
//! a hundred take up to 150 MB, and twice that while they are decoded.
//!
//! A page that turns out to be too large is given up, and asked for again with fewer objects. The answer still is a page
//! with its continue token, so callers do not notice. That a token goes with another `limit` is how the API server's etcd3
//! store makes them: it is a place in the list, and the limit is not part of it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::TryStreamExt;
use http::request::Parts;
use http::uri::PathAndQuery;
use http::{Method, Request, Response};
use http_body_util::BodyExt;
use kube::client::Body;
use tokio::sync::Semaphore;
use tower::BoxError;

use super::policy::is_watch;
use super::revisions::Revisions;

/// A page with more bytes is asked for again with fewer objects. One object is always read, however large it is.
pub const MOST: usize = 8 << 20;
/// Of pages with more bytes than this, one is read at a time.
pub const LARGE: usize = 1 << 20;
/// By how much fewer objects a page is asked for that was too large.
const FEWER: u32 = 4;
/// After a page with at most so many bytes, the next one may have twice as many objects.
const SMALL: usize = MOST / 4;

/// What all lists of a client share. Clones share it too.
#[derive(Clone, Debug)]
pub struct Pages {
    /// How many objects to ask for at most, by the list's path, where a page was too large.
    limits: Arc<Mutex<HashMap<String, u32>>>,
    large: Arc<Semaphore>,
    revisions: Revisions,
}

impl Pages {
    pub fn new(revisions: Revisions) -> Self {
        Self {
            limits: Arc::default(),
            large: Arc::new(Semaphore::new(1)),
            revisions,
        }
    }

    /// Sends a request by `send`; a page of a list as often as its size requires.
    pub async fn send<A>(
        &self,
        request: Request<Body>,
        send: impl Fn(Request<Body>) -> A,
    ) -> Result<Response<Body>, BoxError>
    where
        A: Future<Output = Result<Response<Body>, BoxError>>,
    {
        let Some(asked) = limit(&request) else {
            return send(request).await;
        };
        let (mut head, _) = request.into_parts();
        let path = head.uri.path().to_owned();
        loop {
            let known = self.limits().get(&path).copied();
            let limit = known.unwrap_or(asked).min(asked);
            set_limit(&mut head, limit)?;
            let answer = send(Request::from_parts(head.clone(), Body::empty())).await?;
            if !answer.status().is_success() {
                return Ok(answer);
            }
            let (answer, body) = answer.into_parts();
            let Some(bytes) = self.read(body, limit).await? else {
                let fewer = (limit / FEWER).max(1);
                self.limits().insert(path.clone(), fewer);
                continue;
            };
            if bytes.len() <= SMALL {
                let more = limit.saturating_mul(2);
                let mut limits = self.limits();
                if more < asked {
                    limits.insert(path.clone(), more);
                } else {
                    limits.remove(&path);
                }
            }
            // Further pages have the version of the first.
            if !is_further(&head) {
                self.revisions.see_list(&path, &bytes)?;
            }
            return Ok(Response::from_parts(answer, bytes.into()));
        }
    }

    /// Reads a page of up to `limit` objects; returns nothing if it is too large.
    async fn read(&self, body: Body, limit: u32) -> Result<Option<Vec<u8>>, kube::Error> {
        let mut chunks = body.into_data_stream();
        let mut bytes = Vec::new();
        let mut turn = None;
        while let Some(chunk) = chunks.try_next().await? {
            let size = bytes.len() + chunk.len();
            if size > MOST && limit > 1 {
                return Ok(None);
            }
            if size > LARGE && turn.is_none() {
                // Never closed. A server that stops in the middle holds up the others until their callers' deadlines.
                turn = self.large.acquire().await.ok();
            }
            bytes.extend_from_slice(&chunk);
        }
        Ok(Some(bytes))
    }

    fn limits(&self) -> MutexGuard<'_, HashMap<String, u32>> {
        self.limits.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

const LIMIT: &str = "limit=";

/// Returns how many objects of a list a request asks for at most; nothing if it asks for all, or for something else.
fn limit<B>(request: &Request<B>) -> Option<u32> {
    if request.method() != Method::GET || is_watch(request) {
        return None;
    }
    let mut query = request.uri().query().unwrap_or_default().split('&');
    let limit = query.find_map(|part| part.strip_prefix(LIMIT))?;
    limit.parse().ok().filter(|limit| *limit > 0)
}

/// Returns whether a request is for another page than the first.
fn is_further(head: &Parts) -> bool {
    let mut query = head.uri.query().unwrap_or_default().split('&');
    query.any(|part| part.starts_with("continue="))
}

fn set_limit(head: &mut Parts, limit: u32) -> Result<(), BoxError> {
    let query = head.uri.query().unwrap_or_default().split('&');
    let query: Vec<String> = query
        .map(|part| match part.strip_prefix(LIMIT) {
            Some(_) => format!("{LIMIT}{limit}"),
            None => part.to_owned(),
        })
        .collect();
    let whole = format!("{}?{}", head.uri.path(), query.join("&"));
    let mut uri = std::mem::take(&mut head.uri).into_parts();
    uri.path_and_query = Some(PathAndQuery::try_from(whole)?);
    head.uri = uri.try_into()?;
    Ok(())
}

#[cfg(test)]
mod tests;
