//! What a request is for.

use http::Request;

const LEASE: &str = "/apis/coordination.k8s.io/v1/";
const REVIEWS: [&str; 2] = [
    "/apis/authentication.k8s.io/v1/tokenreviews",
    "/apis/authorization.k8s.io/v1/subjectaccessreviews",
];

/// What a request is for, by its path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// The lease, which decides who leads.
    Lease,
    /// A question of who may see metrics.
    Review,
    /// All that the operator is there for.
    Work,
}

impl Purpose {
    /// That of a request.
    pub fn of<B>(request: &Request<B>) -> Self {
        let path = request.uri().path();
        if path.starts_with(LEASE) {
            Self::Lease
        } else if REVIEWS.iter().any(|review| path.starts_with(review)) {
            Self::Review
        } else {
            Self::Work
        }
    }
}
