//! The faults that a test orders, and the requests that they apply to.

use std::time::Duration;

use hyper::http::request::Parts;
use hyper::{Method, StatusCode};

/// The kind of a request, as in RBAC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verb {
    /// Reads one object, or a path that is not a resource, such as `/version`.
    Get,
    /// Reads all objects of a kind, or one page of them.
    List,
    /// Watches the objects of a kind.
    Watch,
    /// Creates an object.
    Create,
    /// Replaces an object.
    Update,
    /// Patches an object.
    Patch,
    /// Deletes objects.
    Delete,
}

/// The properties of a request that orders can match.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// Its verb.
    pub verb: Verb,
    /// The resource, in the plural, or the path if it is not a resource.
    pub resource: String,
    /// Whether it requests a further page of a list.
    pub continued: bool,
}

impl Call {
    pub(super) fn of(request: &Parts) -> Self {
        let path = request.uri.path();
        let query = request.uri.query().unwrap_or_default();
        let asks = |wanted: &[&str]| query.split('&').any(|part| wanted.contains(&part));
        let segments: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
        let rest = match segments.as_slice() {
            ["api", _, rest @ ..] | ["apis", _, _, rest @ ..] => rest,
            _ => &[],
        };
        let (resource, name) = match rest {
            ["namespaces", _, resource, name @ ..] | [resource, name @ ..] => (*resource, name),
            [] => (path, &[][..]),
        };
        let verb = match request.method {
            _ if asks(&["watch=true", "watch=1"]) => Verb::Watch,
            Method::POST => Verb::Create,
            Method::PUT => Verb::Update,
            Method::PATCH => Verb::Patch,
            Method::DELETE => Verb::Delete,
            _ if name.is_empty() && !rest.is_empty() => Verb::List,
            _ => Verb::Get,
        };
        Self {
            verb,
            resource: resource.to_owned(),
            continued: query.split('&').any(|part| part.starts_with("continue=")),
        }
    }
}

/// Which requests a fault applies to.
#[derive(Clone, Debug, Default)]
pub struct On {
    verb: Option<Verb>,
    resource: Option<String>,
    continued: bool,
}

impl On {
    /// Matches every request.
    pub fn any() -> Self {
        Self::default()
    }

    /// Matches requests with this verb, for any resource.
    pub fn verb(verb: Verb) -> Self {
        Self {
            verb: Some(verb),
            ..Self::default()
        }
    }

    /// Matches requests with this verb and resource.
    pub fn to(verb: Verb, resource: &str) -> Self {
        Self {
            resource: Some(resource.to_owned()),
            ..Self::verb(verb)
        }
    }

    /// Matches the second and further pages of a list of this resource.
    pub fn rest_of_list(resource: &str) -> Self {
        Self {
            continued: true,
            ..Self::to(Verb::List, resource)
        }
    }

    pub(super) fn fits(&self, call: &Call) -> bool {
        self.verb.is_none_or(|verb| verb == call.verb)
            && self
                .resource
                .as_ref()
                .is_none_or(|resource| *resource == call.resource)
            && (!self.continued || call.continued)
    }
}

/// How a watch ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Closed normally, as the API server does after the watch's timeout.
    Closed,
    /// The connection is lost.
    Cut,
    /// An ERROR event with status 410: the events since then are no longer stored.
    Gone,
    /// Not closed, but nothing more is sent.
    Silent,
}

/// A fault.
#[derive(Clone, Debug)]
pub enum Fault {
    /// The request is never answered and does not reach the API server.
    Hang,
    /// The request is carried out, but the answer never arrives.
    HangAfter,
    /// The request is refused with this status and does not reach the API server.
    Refuse {
        /// The status, with the API server's message for it.
        status: StatusCode,
        /// The header `Retry-After`, in seconds.
        retry_after: Option<u32>,
    },
    /// The request gets this answer, valid JSON or not, and does not reach the API server.
    Answer {
        /// The status.
        code: StatusCode,
        /// The body.
        body: String,
    },
    /// The watch ends this way after this many events, including bookmarks.
    EndAfter(usize, End),
    /// The connection is lost after this many bytes of the body.
    CutAfter(usize),
    /// The body is sent in pieces of at most this many bytes, with a pause before each.
    Slow(usize, Duration),
}

impl Fault {
    /// Creates a refusal without `Retry-After`.
    pub fn refuse(status: u16) -> Self {
        Self::Refuse {
            status: StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR),
            retry_after: None,
        }
    }

    /// Creates a refusal for too many requests, with `Retry-After` in seconds.
    pub fn too_many(retry_after: u32) -> Self {
        Self::Refuse {
            status: StatusCode::TOO_MANY_REQUESTS,
            retry_after: Some(retry_after),
        }
    }
}
