//! Decides who may read the metrics by asking the API server, as Kubernetes' own servers do. A `TokenReview` returns the
//! user of a token, a `SubjectAccessReview` whether that user may `get` the path `/metrics`.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec, UserInfo};
use k8s_openapi::api::authorization::v1::{
    NonResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec,
};
use kube::api::PostParams;
use kube::{Api, Client};
use sha2::{Digest, Sha256};
use tokio::sync::Semaphore;

use crate::client::deadline::{self, CallError};
use crate::visible::visible;

/// How long an answer is cached. A revoked permission stays valid for that long; a new permission should take effect soon.
const ALLOWED: Duration = Duration::from_secs(60);
const REFUSED: Duration = Duration::from_secs(10);
/// Few programs read metrics.
const REMEMBERED: usize = 64;
/// The number of concurrent reviews: anyone who can connect can trigger them, and they must not burden the API server.
const REVIEWS: usize = 4;

/// The API server's answer about a token.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Decision {
    /// Its user may read the metrics.
    Allowed,
    /// The token belongs to no user.
    Unknown,
    /// This user may not read the metrics.
    Forbidden(String),
}

/// Passes a request on if its bearer may read the metrics.
pub async fn authorize(
    State(access): State<Arc<Access>>,
    request: Request,
    next: Next,
) -> Response {
    let header = request.headers().get(header::AUTHORIZATION);
    let header = header.and_then(|value| value.to_str().ok());
    let decision = match header.and_then(bearer) {
        Some(token) => access.decide(token).await,
        None => Ok(Decision::Unknown),
    };
    match decision {
        Ok(Decision::Allowed) => next.run(request).await,
        Ok(Decision::Unknown) => {
            let scheme = [(header::WWW_AUTHENTICATE, "Bearer")];
            let words = "give the token of a ServiceAccount: Authorization: Bearer TOKEN\n";
            (StatusCode::UNAUTHORIZED, scheme, words).into_response()
        }
        Ok(Decision::Forbidden(user)) => {
            let words = format!(
                "user {} may not get the path /metrics; bind it to the ClusterRole \
                 windows-storage-operator-metrics-reader\n",
                visible(&user)
            );
            (StatusCode::FORBIDDEN, words).into_response()
        }
        // Fails closed. The operator's log has more detail than the client needs.
        Err(_) => {
            let words = "authentication failed on the server side; see the operator's log\n";
            (StatusCode::SERVICE_UNAVAILABLE, words).into_response()
        }
    }
}

/// Returns the token of the header `Authorization`. RFC 6750, section 2.1; the scheme's case does not matter (RFC 9110,
/// 11.1).
fn bearer(header: &str) -> Option<&str> {
    let (scheme, token) = header.split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

/// Asks the API server about tokens, and caches a few answers.
pub struct Access {
    client: Client,
    known: Mutex<Known>,
    places: Semaphore,
    /// The last fault logged, so that each is logged once.
    fault: Mutex<Option<String>>,
}

impl Access {
    /// Creates an instance with an empty cache.
    pub fn new(client: Client) -> Self {
        Self {
            client,
            known: Mutex::default(),
            places: Semaphore::new(REVIEWS),
            fault: Mutex::default(),
        }
    }

    async fn decide(&self, token: &str) -> Result<Decision, CallError> {
        // Only a hash of the token is kept.
        let key = Sha256::digest(token).into();
        if let Some(decision) = lock(&self.known).get(&key, Instant::now()) {
            return Ok(decision);
        }
        // The semaphore is never closed.
        let _place = self.places.acquire().await;
        let asked = Instant::now();
        let reviewed = self.review(token).await;
        self.log(reviewed.as_ref().err());
        let decision = reviewed?;
        lock(&self.known).put(key, decision.clone(), asked);
        Ok(decision)
    }

    fn log(&self, error: Option<&CallError>) {
        let fault = error.map(ToString::to_string);
        let mut logged = lock(&self.fault);
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

    async fn review(&self, token: &str) -> Result<Decision, CallError> {
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
            _ => return Ok(Decision::Unknown),
        };
        let name = user.username.clone().unwrap_or_default();
        let review = may_read(user);
        let reviews = Api::all(self.client.clone());
        let answer = reviews.create(&params, &review);
        let answer = deadline::call("create SubjectAccessReview", answer).await?;
        // Anything but an explicit permission is a refusal.
        Ok(match answer.status {
            Some(status) if status.allowed => Decision::Allowed,
            _ => Decision::Forbidden(name),
        })
    }
}

fn may_read(user: UserInfo) -> SubjectAccessReview {
    SubjectAccessReview {
        spec: SubjectAccessReviewSpec {
            user: user.username,
            uid: user.uid,
            groups: user.groups,
            extra: user.extra,
            non_resource_attributes: Some(NonResourceAttributes {
                path: Some("/metrics".to_owned()),
                verb: Some("get".to_owned()),
            }),
            resource_attributes: None,
        },
        ..SubjectAccessReview::default()
    }
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

type Key = [u8; 32];

/// The cached answers, and when each expires.
#[derive(Default)]
struct Known(HashMap<Key, (Decision, Instant)>);

impl Known {
    fn get(&self, key: &Key, now: Instant) -> Option<Decision> {
        let (decision, until) = self.0.get(key)?;
        (*until > now).then(|| decision.clone())
    }

    fn put(&mut self, key: Key, decision: Decision, asked: Instant) {
        if self.0.len() >= REMEMBERED {
            // Anyone can have tokens refused: these answers must not evict those of allowed tokens.
            let order = |(decision, until): &(Decision, Instant)| {
                (*until > asked, *decision == Decision::Allowed, *until)
            };
            let least = self.0.iter().min_by_key(|(_, answer)| order(answer));
            if let Some(least) = least.map(|(key, _)| *key) {
                self.0.remove(&least);
            }
        }
        let holds = match decision {
            Decision::Allowed => ALLOWED,
            Decision::Unknown | Decision::Forbidden(_) => REFUSED,
        };
        self.0.insert(key, (decision, asked + holds));
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

    #[test]
    fn an_answer_holds_for_a_while_and_a_refusal_for_less() {
        let now = Instant::now();
        let mut known = Known::default();
        known.put([1; 32], Decision::Allowed, now);
        known.put([2; 32], Decision::Unknown, now);
        let soon = now + REFUSED / 2;
        assert_eq!(known.get(&[1; 32], soon), Some(Decision::Allowed));
        assert_eq!(known.get(&[2; 32], soon), Some(Decision::Unknown));
        assert_eq!(known.get(&[3; 32], soon), None);
        assert_eq!(known.get(&[2; 32], now + REFUSED), None);
        assert_eq!(known.get(&[1; 32], now + ALLOWED), None);
    }

    #[test]
    fn made_up_tokens_take_bounded_room_and_do_not_push_out_one_that_is_allowed() {
        let now = Instant::now();
        let mut known = Known::default();
        known.put([255; 32], Decision::Allowed, now);
        for number in 0..200 {
            let later = now + Duration::from_millis(number);
            let made_up = [u8::try_from(number).unwrap(); 32];
            known.put(made_up, Decision::Unknown, later);
            assert!(known.0.len() <= REMEMBERED);
        }
        let later = now + Duration::from_secs(1);
        assert_eq!(known.get(&[255; 32], later), Some(Decision::Allowed));
        assert_eq!(known.get(&[199; 32], later), Some(Decision::Unknown));
    }
}
