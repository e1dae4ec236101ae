//! Who may read the metrics: the API server says so, as it does for Kubernetes' own servers. A `TokenReview` tells
//! whose token it is, a `SubjectAccessReview` whether that user may `get` the path `/metrics`.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec, UserInfo};
use k8s_openapi::api::authorization::v1::{
    NonResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec,
};
use kube::api::PostParams;
use kube::{Api, Client};
use sha2::{Digest, Sha256};
use tokio::sync::Semaphore;

use crate::deadline::{self, CallError};

const PATH: &str = "/metrics";
/// How long an answer holds. A right that is taken away ends with it; a right that is given should not be waited for.
const ALLOWED: Duration = Duration::from_secs(60);
const REFUSED: Duration = Duration::from_secs(10);
/// Few programs read metrics.
const REMEMBERED: usize = 64;
/// Reviews at one time: whoever can connect can ask for them, and the API server must not feel it.
const REVIEWS: usize = 4;

/// What was said of a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Its user may read the metrics.
    Allowed,
    /// It is nobody's token.
    Unknown,
    /// That user may not.
    Forbidden(String),
}

/// Asks the API server about tokens, and remembers a few answers.
pub struct Access {
    client: Client,
    known: Mutex<Known>,
    places: Semaphore,
}

impl Access {
    /// Nothing is known yet.
    pub fn new(client: Client) -> Self {
        Self {
            client,
            known: Mutex::default(),
            places: Semaphore::new(REVIEWS),
        }
    }

    /// Whether the bearer of a token may read the metrics.
    pub async fn decide(&self, token: &str) -> Result<Decision, CallError> {
        // The token itself is not kept.
        let key: Key = Sha256::digest(token).into();
        if let Some(decision) = self.known().get(&key, Instant::now()) {
            return Ok(decision);
        }
        // Never closed; without a place the review only is one more at a time.
        let _place = self.places.acquire().await.ok();
        if let Some(decision) = self.known().get(&key, Instant::now()) {
            return Ok(decision);
        }
        let asked = Instant::now();
        let decision = self.review(token).await?;
        self.known().put(key, decision.clone(), asked);
        Ok(decision)
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn review(&self, token: &str) -> Result<Decision, CallError> {
        let review = TokenReview {
            spec: TokenReviewSpec {
                token: Some(token.to_owned()),
                audiences: None,
            },
            ..TokenReview::default()
        };
        let reviews = Api::<TokenReview>::all(self.client.clone());
        let answer = deadline::call(
            "create TokenReview",
            reviews.create(&PostParams::default(), &review),
        )
        .await?;
        let status = answer.status.unwrap_or_default();
        let user = match status.user {
            Some(user) if status.authenticated == Some(true) => user,
            _ => return Ok(Decision::Unknown),
        };
        let name = user.username.clone().unwrap_or_default();
        let reviews = Api::<SubjectAccessReview>::all(self.client.clone());
        let answer = deadline::call(
            "create SubjectAccessReview",
            reviews.create(&PostParams::default(), &may_read(user)),
        )
        .await?;
        // What is not said to be allowed is not.
        let allowed = answer.status.is_some_and(|status| status.allowed);
        Ok(if allowed {
            Decision::Allowed
        } else {
            Decision::Forbidden(name)
        })
    }
}

fn may_read(user: UserInfo) -> SubjectAccessReview {
    let UserInfo {
        username,
        uid,
        groups,
        extra,
    } = user;
    SubjectAccessReview {
        spec: SubjectAccessReviewSpec {
            user: username,
            uid,
            groups,
            extra,
            non_resource_attributes: Some(NonResourceAttributes {
                path: Some(PATH.to_owned()),
                verb: Some("get".to_owned()),
            }),
            resource_attributes: None,
        },
        ..SubjectAccessReview::default()
    }
}

type Key = [u8; 32];

/// The last answers.
#[derive(Default)]
struct Known(HashMap<Key, (Decision, Instant)>);

impl Known {
    fn get(&self, key: &Key, now: Instant) -> Option<Decision> {
        let (decision, until) = self.0.get(key)?;
        (*until > now).then(|| decision.clone())
    }

    fn put(&mut self, key: Key, decision: Decision, asked: Instant) {
        if self.0.len() >= REMEMBERED {
            self.0.retain(|_, (_, until)| *until > asked);
        }
        if self.0.len() >= REMEMBERED {
            // Anybody can have tokens refused: they must not push out those that are allowed.
            let least = self
                .0
                .iter()
                .min_by_key(|(_, (decision, until))| (*decision == Decision::Allowed, *until));
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
    fn made_up_tokens_do_not_push_out_one_that_is_allowed_and_take_no_more_room() {
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
