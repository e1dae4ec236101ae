//! Decides who may read the metrics by asking the API server, as Kubernetes' own servers do. A `TokenReview` returns the
//! user of a token, a `SubjectAccessReview` whether that user may `get` the path `/metrics`.

use std::sync::{Arc, Mutex, PoisonError};

use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec};
use k8s_openapi::api::authorization::v1::{NonResourceAttributes, SubjectAccessReviewSpec};
use kube::api::PostParams;
use kube::{Api, Client};
use tokio::sync::Semaphore;

use crate::client::deadline::{self, CallError};
use crate::client::review::is_allowed;
use crate::visible::visible;

/// The number of concurrent reviews: anyone who can connect can trigger them, and they must not burden the API server.
const REVIEWS: usize = 4;

/// Passes a request on if its bearer may read the metrics.
pub async fn authorize(
    State(access): State<Arc<Access>>,
    request: Request,
    next: Next,
) -> Response {
    let header = request.headers().get(header::AUTHORIZATION);
    let header = header.and_then(|value| value.to_str().ok());
    let refused = match header.and_then(bearer) {
        Some(token) => access.refuse(token).await,
        None => Some(unknown()),
    };
    match refused {
        Some(refused) => refused,
        None => next.run(request).await,
    }
}

/// Returns the answer to a token of no user.
fn unknown() -> Response {
    let scheme = [(header::WWW_AUTHENTICATE, "Bearer")];
    let words = "give the token of a ServiceAccount: Authorization: Bearer TOKEN\n";
    (StatusCode::UNAUTHORIZED, scheme, words).into_response()
}

/// Returns the token of the header `Authorization`. RFC 6750, section 2.1; the scheme's case does not matter (RFC 9110,
/// 11.1).
fn bearer(header: &str) -> Option<&str> {
    let (scheme, token) = header.split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

/// Asks the API server about tokens, at each request anew: a permission that is given or taken away has effect at once.
pub struct Access {
    client: Client,
    places: Semaphore,
    /// The last fault logged, so that each is logged once.
    fault: Mutex<Option<String>>,
}

impl Access {
    /// Asks with that client.
    pub fn new(client: Client) -> Self {
        Self {
            client,
            places: Semaphore::new(REVIEWS),
            fault: Mutex::default(),
        }
    }

    /// Returns the answer if the bearer of the token may not read the metrics.
    async fn refuse(&self, token: &str) -> Option<Response> {
        // The semaphore is never closed.
        let _place = self.places.acquire().await;
        let reviewed = self.review(token).await;
        self.log(reviewed.as_ref().err());
        // Fails closed. The operator's log has more detail than the client needs.
        reviewed.unwrap_or_else(|_| {
            let words = "authentication failed on the server side; see the operator's log\n";
            Some((StatusCode::SERVICE_UNAVAILABLE, words).into_response())
        })
    }

    fn log(&self, error: Option<&CallError>) {
        let fault = error.map(ToString::to_string);
        let mut logged = self.fault.lock().unwrap_or_else(PoisonError::into_inner);
        if *logged == fault {
            return;
        }
        if let Some(fault) = &fault {
            tracing::warn!("cannot authenticate clients of /metrics: {fault}");
        } else {
            tracing::info!("clients of /metrics are authenticated again");
        }
        *logged = fault;
    }

    /// Asks the API server. Returns the answer to a token that may not read the metrics.
    async fn review(&self, token: &str) -> Result<Option<Response>, CallError> {
        let review = TokenReview {
            spec: TokenReviewSpec {
                token: Some(token.to_owned()),
                audiences: None,
            },
            ..TokenReview::default()
        };
        let (reviews, params) = (Api::all(self.client.clone()), PostParams::default());
        let answer = deadline::call("create TokenReview", reviews.create(&params, &review)).await?;
        let status = answer.status.unwrap_or_default();
        let user = match status.user {
            Some(user) if status.authenticated == Some(true) => user,
            _ => return Ok(Some(unknown())),
        };
        let words = format!(
            "user {} may not get the path /metrics; bind it to the ClusterRole \
             windows-storage-operator-metrics-reader\n",
            visible(user.username.as_deref().unwrap_or_default())
        );
        let spec = SubjectAccessReviewSpec {
            user: user.username,
            uid: user.uid,
            groups: user.groups,
            extra: user.extra,
            non_resource_attributes: Some(NonResourceAttributes {
                path: Some("/metrics".to_owned()),
                verb: Some("get".to_owned()),
            }),
            resource_attributes: None,
        };
        let is_allowed = is_allowed(&self.client, spec).await?;
        Ok((!is_allowed).then(|| (StatusCode::FORBIDDEN, words).into_response()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_bearer_token_counts() {
        assert_eq!(bearer("Bearer abc"), Some("abc"));
        assert_eq!(bearer("bearer  abc "), Some("abc"));
        for header in ["", "Bearer", "Bearer ", "Basic YTpi", "abc"] {
            assert_eq!(bearer(header), None, "{header}");
        }
    }
}
