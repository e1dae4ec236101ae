//! Asks the API server what a user may do.

use k8s_openapi::api::authorization::v1::{SubjectAccessReview, SubjectAccessReviewSpec};
use kube::api::PostParams;
use kube::{Api, Client};

use crate::client::deadline::{self, CallError};

/// Returns whether a user may do something. Anything but an explicit permission is a refusal.
pub async fn is_allowed(client: &Client, spec: SubjectAccessReviewSpec) -> Result<bool, CallError> {
    let review = SubjectAccessReview {
        spec,
        ..SubjectAccessReview::default()
    };
    let reviews: Api<SubjectAccessReview> = Api::all(client.clone());
    let parameters = PostParams::default();
    let creating = reviews.create(&parameters, &review);
    let answer = deadline::call("create SubjectAccessReview", creating).await?;
    Ok(answer.status.is_some_and(|status| status.allowed))
}
