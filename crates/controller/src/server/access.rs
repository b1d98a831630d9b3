//! Decides who may read `/metrics` by asking the API server: a TokenReview identifies the client, a SubjectAccessReview
//! checks its permission.
//!
//! Counterpart: controller-runtime's `pkg/metrics/filters`.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use axum::extract::{ConnectInfo, Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use http::header::{AUTHORIZATION, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderMap, StatusCode};
use k8s_openapi::api::authorization::v1::{NonResourceAttributes, SubjectAccessReviewSpec};
use outside::{Api, Error};

use super::gate::{self, Gate, question};
use super::reviews::{authenticate, authorize};
use crate::report::chain;

/// Asks the API server, and caches its verdicts for a short while.
pub(super) struct AccessReviews {
    api: Arc<dyn Api>,
    gate: Gate<()>,
}

/// The API server's answer.
pub(super) type Verdict = gate::Verdict<()>;

/// Passes on requests of clients that have the permission. If the API server fails, the response is a 500, never a
/// pass.
pub(super) async fn check(
    State(reviews): State<Arc<AccessReviews>>,
    ConnectInfo(client): ConnectInfo<SocketAddr>,
    request: Request,
    next: Next,
) -> Response {
    let verdict = match bearer_token(request.headers()) {
        None => Ok(Verdict::Unauthenticated),
        Some(token) => reviews.judge(client.ip(), token, request.method(), request.uri().path()).await,
    };
    match verdict {
        Ok(Verdict::Allowed(())) => next.run(request).await,
        Ok(Verdict::Unauthenticated) => {
            (StatusCode::UNAUTHORIZED, [(WWW_AUTHENTICATE, "Bearer")], "Unauthorized\n").into_response()
        }
        Ok(Verdict::Denied(user)) => {
            (StatusCode::FORBIDDEN, format!("Authorization denied for user {user}\n")).into_response()
        }
        Ok(Verdict::Busy) => {
            (StatusCode::TOO_MANY_REQUESTS, [(RETRY_AFTER, "1")], "Too many requests\n").into_response()
        }
        Err(error) => {
            tracing::error!(error = chain(&error), "Cannot ask the API server who may read metrics");
            (StatusCode::INTERNAL_SERVER_ERROR, "Authentication failed\n").into_response()
        }
    }
}

/// Returns the token of `Authorization: Bearer TOKEN`. The scheme's case does not matter.
pub(super) fn bearer_token(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers.get(AUTHORIZATION)?.to_str().ok()?.trim().split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

impl AccessReviews {
    pub(super) fn new(api: Arc<dyn Api>) -> AccessReviews {
        AccessReviews { api, gate: Gate::new() }
    }

    pub(super) async fn judge(
        &self,
        client: IpAddr,
        token: &str,
        method: &http::Method,
        path: &str,
    ) -> Result<Verdict, Error> {
        let verb = method.as_str().to_ascii_lowercase();
        let question = question([token, &verb, path].map(str::as_bytes));
        self.gate.judge(client, question, self.review(token, verb, path)).await
    }

    async fn review(&self, token: &str, verb: String, path: &str) -> Result<Verdict, Error> {
        let Some(user) = authenticate(&*self.api, token).await? else { return Ok(Verdict::Unauthenticated) };
        let name = user.username.clone().unwrap_or_default();
        let attributes = NonResourceAttributes { path: Some(path.to_owned()), verb: Some(verb) };
        let asked =
            SubjectAccessReviewSpec { non_resource_attributes: Some(attributes), ..SubjectAccessReviewSpec::default() };
        let allowed = authorize(&*self.api, user, asked).await?;
        Ok(if allowed { Verdict::Allowed(()) } else { Verdict::Denied(name) })
    }

    /// Returns how many verdicts are cached.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.gate.len()
    }
}
