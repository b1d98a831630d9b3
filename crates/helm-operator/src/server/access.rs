//! Who may read `/metrics`, as the API server decides: a TokenReview says who asks, a SubjectAccessReview whether they may.
//!
//! Counterpart: controller-runtime's `pkg/metrics/filters`.

use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use helm_release::kube::{Api, Call, Error};
use http::header::{AUTHORIZATION, WWW_AUTHENTICATE};
use http::{HeaderMap, StatusCode};
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec, UserInfo};
use k8s_openapi::api::authorization::v1::{NonResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec};
use lru::LruCache;
use sha2::{Digest as _, Sha256};
use tokio::sync::Semaphore;
use tokio::time::Instant;

use crate::report::chain;

/// How long a permission counts, as upstream's token cache: Prometheus then costs two requests a minute.
const ALLOWED_FOR: Duration = Duration::from_secs(60);
/// How long a refusal counts: a right that was just granted should work soon.
const REFUSED_FOR: Duration = Duration::from_secs(10);
/// How many verdicts to keep; the one not used for longest is dropped first.
const MAX_VERDICTS: NonZeroUsize = NonZeroUsize::new(256).expect("256 is not zero");
/// How many clients' tokens are reviewed at once: anyone who reaches the port must not load the API server in our name.
const MAX_REVIEWS: usize = 8;
/// How long a review may take, as upstream's.
const REVIEW_LIMIT: Duration = Duration::from_secs(10);

/// Asks the API server, and remembers its answers for a short while.
pub(super) struct Access {
    api: Arc<dyn Api>,
    verdicts: Mutex<LruCache<Question, (Verdict, Instant)>>,
    reviews: Semaphore,
}

/// The digest of a token and what it is used for: the token itself is not kept.
type Question = [u8; 32];

/// The API server's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Allowed,
    /// Nobody has this token.
    Unauthenticated,
    /// This user lacks the right.
    Denied(String),
}

/// Passes on the requests of clients who have the right. A failing API server means 500, never a pass.
pub(super) async fn check(State(access): State<Arc<Access>>, request: Request, next: Next) -> Response {
    let verdict = match bearer_token(request.headers()) {
        None => Ok(Verdict::Unauthenticated),
        Some(token) => access.judge(token, request.method(), request.uri().path()).await,
    };
    match verdict {
        Ok(Verdict::Allowed) => next.run(request).await,
        Ok(Verdict::Unauthenticated) => {
            (StatusCode::UNAUTHORIZED, [(WWW_AUTHENTICATE, "Bearer")], "Unauthorized\n").into_response()
        }
        Ok(Verdict::Denied(user)) => {
            (StatusCode::FORBIDDEN, format!("Authorization denied for user {user}\n")).into_response()
        }
        Err(error) => {
            tracing::error!(error = chain(&error), "Cannot ask the API server who may read metrics");
            (StatusCode::INTERNAL_SERVER_ERROR, "Authentication failed\n").into_response()
        }
    }
}

/// The token of `Authorization: Bearer TOKEN`; the scheme in any case.
fn bearer_token(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers.get(AUTHORIZATION)?.to_str().ok()?.trim().split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

impl Access {
    pub(super) fn new(api: Arc<dyn Api>) -> Access {
        let verdicts = Mutex::new(LruCache::new(MAX_VERDICTS));
        Access { api, verdicts, reviews: Semaphore::new(MAX_REVIEWS) }
    }

    pub(super) async fn judge(&self, token: &str, method: &http::Method, path: &str) -> Result<Verdict, Error> {
        let verb = method.as_str().to_ascii_lowercase();
        let question = question([token, &verb, path]);
        if let Some(verdict) = self.known(&question, Instant::now()) {
            return Ok(verdict);
        }
        let late = || Error::TimedOut { seconds: REVIEW_LIMIT.as_secs() };
        let review = tokio::time::timeout(REVIEW_LIMIT, self.review(token, verb, path));
        let verdict = review.await.unwrap_or_else(|_| Err(late()))?;
        self.remember(question, verdict.clone(), Instant::now());
        Ok(verdict)
    }

    async fn review(&self, token: &str, verb: String, path: &str) -> Result<Verdict, Error> {
        // The semaphore is never closed.
        let _permit = self.reviews.acquire().await.ok();
        let Some(user) = self.authenticate(token).await? else { return Ok(Verdict::Unauthenticated) };
        let name = user.username.clone().unwrap_or_default();
        let allowed = self.authorize(user, verb, path.to_owned()).await?;
        Ok(if allowed { Verdict::Allowed } else { Verdict::Denied(name) })
    }

    /// The user that the token belongs to.
    async fn authenticate(&self, token: &str) -> Result<Option<UserInfo>, Error> {
        let spec = TokenReviewSpec { token: token.to_owned(), ..TokenReviewSpec::default() };
        let review = TokenReview { spec, ..TokenReview::default() };
        let answer: TokenReview = self.ask("authentication.k8s.io/v1/tokenreviews", &review).await?;
        let status = answer.status.unwrap_or_default();
        Ok(status.user.filter(|_| status.authenticated == Some(true)))
    }

    async fn authorize(&self, user: UserInfo, verb: String, path: String) -> Result<bool, Error> {
        let asked = NonResourceAttributes { path: Some(path), verb: Some(verb) };
        let spec = SubjectAccessReviewSpec {
            user: user.username,
            uid: user.uid,
            groups: user.groups,
            extra: user.extra,
            non_resource_attributes: Some(asked),
            ..SubjectAccessReviewSpec::default()
        };
        let review = SubjectAccessReview { spec, ..SubjectAccessReview::default() };
        let answer: SubjectAccessReview = self.ask("authorization.k8s.io/v1/subjectaccessreviews", &review).await?;
        Ok(answer.status.is_some_and(|status| status.allowed && status.denied != Some(true)))
    }

    async fn ask<T: serde::Serialize + serde::de::DeserializeOwned>(
        &self,
        plural: &str,
        review: &T,
    ) -> Result<T, Error> {
        let body = serde_json::to_vec(review).map_err(Error::Json)?;
        self.api.send(Call::post(format!("/apis/{plural}"), body)).await?.parse()
    }

    fn known(&self, question: &Question, now: Instant) -> Option<Verdict> {
        let mut verdicts = self.verdicts.lock().unwrap_or_else(PoisonError::into_inner);
        verdicts.get(question).filter(|(_, until)| now < *until).map(|(verdict, _)| verdict.clone())
    }

    fn remember(&self, question: Question, verdict: Verdict, now: Instant) {
        let valid = if verdict == Verdict::Allowed { ALLOWED_FOR } else { REFUSED_FOR };
        let mut verdicts = self.verdicts.lock().unwrap_or_else(PoisonError::into_inner);
        verdicts.put(question, (verdict, now + valid));
    }

    /// How many verdicts are kept.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.verdicts.lock().unwrap_or_else(PoisonError::into_inner).len()
    }
}

fn question(parts: [&str; 3]) -> Question {
    let mut all = Sha256::new();
    parts.iter().for_each(|part| all.update(Sha256::digest(part)));
    all.finalize().into()
}
