//! Who may read the metrics: the API server says so, as it does for Kubernetes' own servers. A `TokenReview` tells
//! whose token it is, a `SubjectAccessReview` whether that user may `get` the path `/metrics`.

use std::collections::HashMap;
use std::net::IpAddr;
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

use super::pace::Pace;
use super::told::Told;
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

/// Why nothing was said of a token.
#[derive(Debug, thiserror::Error)]
pub enum Undecided {
    /// The API server is not asked about so many.
    #[error("too many unknown tokens are shown")]
    TooMany,
    /// It has not said.
    #[error(transparent)]
    Unanswered(#[from] CallError),
}

/// Asks the API server about tokens, and remembers a few answers.
pub struct Access {
    client: Client,
    known: Mutex<Known>,
    pace: Mutex<Pace>,
    places: Semaphore,
    told: Mutex<Told>,
}

impl Access {
    /// Nothing is known yet.
    pub fn new(client: Client) -> Self {
        Self {
            client,
            known: Mutex::default(),
            pace: Mutex::default(),
            places: Semaphore::new(REVIEWS),
            told: Mutex::default(),
        }
    }

    /// Whether the bearer of a token, who asks from that address, may read the metrics.
    pub async fn decide(&self, token: &str, peer: IpAddr) -> Result<Decision, Undecided> {
        if !is_token_in_form(token) {
            return Ok(Decision::Unknown);
        }
        // The token itself is not kept.
        let key: Key = Sha256::digest(token).into();
        let now = Instant::now();
        if let Some(decision) = lock(&self.known).get(&key, now) {
            return Ok(decision);
        }
        // Who was allowed before is not kept out by what others make up.
        if !lock(&self.known).was_allowed(&key) && !lock(&self.pace).allows(peer, now) {
            return Err(Undecided::TooMany);
        }
        // Never closed; without a place the review only is one more at a time.
        let _place = self.places.acquire().await.ok();
        if let Some(decision) = lock(&self.known).get(&key, Instant::now()) {
            return Ok(decision);
        }
        let asked = Instant::now();
        let reviewed = self.review(token).await;
        self.tell(&reviewed);
        let decision = reviewed?;
        lock(&self.known).put(key, decision.clone(), asked);
        Ok(decision)
    }

    /// Whoever asks is not told why nothing can be said; the operator's log is.
    fn tell(&self, reviewed: &Result<Decision, CallError>) {
        let mut told = lock(&self.told);
        match reviewed {
            Ok(_) if told.is_over() => tracing::info!("who asks for metrics is checked again"),
            Ok(_) => {}
            Err(error) => {
                let fault = error.to_string();
                if told.is_news(&fault) {
                    tracing::warn!("who asks for metrics cannot be checked: {fault}");
                }
            }
        }
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

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether it has the form of a bearer token (RFC 6750, section 2.1): those of ServiceAccounts are JWTs, OpenShift's users
/// have `sha256~…`. About nothing else the API server is asked.
fn is_token_in_form(token: &str) -> bool {
    let is_of_a_token = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~+/".contains(&byte);
    let token = token.trim_end_matches('=');
    !token.is_empty() && token.bytes().all(is_of_a_token)
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

    /// Also when that no longer holds, as long as nothing else was said since.
    fn was_allowed(&self, key: &Key) -> bool {
        matches!(self.0.get(key), Some((Decision::Allowed, _)))
    }

    fn put(&mut self, key: Key, decision: Decision, asked: Instant) {
        if self.0.len() >= REMEMBERED {
            self.0
                .retain(|_, (decision, until)| *decision == Decision::Allowed || *until > asked);
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
    fn who_was_allowed_is_known_as_such_until_something_else_is_said() {
        let now = Instant::now();
        let late = now + ALLOWED;
        let mut known = Known::default();
        known.put([255; 32], Decision::Allowed, now);
        for number in 0..200 {
            known.put([number; 32], Decision::Unknown, late);
        }
        assert_eq!(known.get(&[255; 32], late), None);
        assert!(known.was_allowed(&[255; 32]) && !known.was_allowed(&[199; 32]));
        known.put([255; 32], Decision::Unknown, late);
        assert!(!known.was_allowed(&[255; 32]));
    }

    #[tokio::test]
    async fn who_was_allowed_is_asked_about_also_where_others_have_used_up_the_rate() {
        let config = kube::Config::new("http://127.0.0.1:1".parse().unwrap());
        let access = Access::new(Client::try_from(config).unwrap());
        let peer = IpAddr::from([10, 0, 0, 1]);
        let long_ago = Instant::now().checked_sub(ALLOWED).unwrap();
        let key: Key = Sha256::digest("al.low.ed").into();
        lock(&access.known).put(key, Decision::Allowed, long_ago);
        while lock(&access.pace).allows(peer, Instant::now()) {}
        let made_up = access.decide("ma.de.up", peer).await;
        assert!(matches!(made_up, Err(Undecided::TooMany)), "{made_up:?}");
        // There is no API server.
        let allowed = access.decide("al.low.ed", peer).await;
        assert!(
            matches!(allowed, Err(Undecided::Unanswered(_))),
            "{allowed:?}"
        );
    }

    #[test]
    fn what_cannot_be_a_token_is_nobodys() {
        for token in [
            "a.b.c",
            "eyJhbGciOiJSUzI1NiJ9.e30.Zm9v-_0",
            "sha256~abc",
            "YQ==",
        ] {
            assert!(is_token_in_form(token), "{token}");
        }
        for token in ["", "=", "a b", "a=b", "a.b.ü", "a\u{1b}", "a,b"] {
            assert!(!is_token_in_form(token), "{token}");
        }
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
