//! The two questions to the API server about a client: who has this token, and may this user do that.

use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec, UserInfo};
use k8s_openapi::api::authorization::v1::{SubjectAccessReview, SubjectAccessReviewSpec};
use outside::{Api, Call, Error};

pub(super) async fn authenticate(api: &dyn Api, token: &str) -> Result<Option<UserInfo>, Error> {
    let spec = TokenReviewSpec { token: token.to_owned(), ..TokenReviewSpec::default() };
    let review = TokenReview { spec, ..TokenReview::default() };
    let answer: TokenReview = ask(api, "authentication.k8s.io/v1/tokenreviews", &review).await?;
    let status = answer.status.unwrap_or_default();
    Ok(status.user.filter(|_| status.authenticated == Some(true)))
}

/// Returns whether the user may do what these attributes describe; they must not name a user.
pub(super) async fn authorize(api: &dyn Api, user: UserInfo, asked: SubjectAccessReviewSpec) -> Result<bool, Error> {
    let UserInfo { username: user, uid, groups, extra } = user;
    let spec = SubjectAccessReviewSpec { user, uid, groups, extra, ..asked };
    let review = SubjectAccessReview { spec, ..SubjectAccessReview::default() };
    let answer: SubjectAccessReview = ask(api, "authorization.k8s.io/v1/subjectaccessreviews", &review).await?;
    Ok(answer.status.is_some_and(|status| status.allowed && status.denied != Some(true)))
}

async fn ask<T: serde::Serialize + serde::de::DeserializeOwned>(
    api: &dyn Api,
    plural: &str,
    review: &T,
) -> Result<T, Error> {
    let body = serde_json::to_vec(review).map_err(Error::Json)?;
    api.send(Call::post(format!("/apis/{plural}"), body)).await?.parse()
}
