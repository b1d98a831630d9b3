//! Decides who may read `/metrics` by asking the API server: a TokenReview identifies the client, a SubjectAccessReview
//! checks its permission.
//!
//! Counterpart: controller-runtime's `pkg/metrics/filters`.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::extract::{ConnectInfo, Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use http::header::{AUTHORIZATION, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderMap, StatusCode};
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec, UserInfo};
use k8s_openapi::api::authorization::v1::{NonResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec};
use lru::LruCache;
use outside::sync::lock;
use outside::{Api, Call, Error};
use sha2::{Digest as _, Sha256};
use tokio::sync::Semaphore;
use tokio::time::Instant;

use crate::report::chain;

/// How long a verdict is cached, as in the API server's own token cache: a revoked token soon stops working, and a new
/// permission soon works.
pub(super) const VALID_FOR: Duration = Duration::from_secs(10);
/// How many verdicts of each kind to cache. The least recently used is dropped first.
const MAX_VERDICTS: NonZeroUsize = NonZeroUsize::new(256).expect("256 is not zero");
/// How many clients' tokens are reviewed concurrently. Anyone who reaches the port could otherwise load the API server
/// in our name.
const MAX_REVIEWS: usize = 8;
/// How many reviews one address may have running or waiting. One client with invented tokens could otherwise keep
/// others waiting.
const MAX_REVIEWS_PER_ADDRESS: usize = 2;
/// How many previously allowed tokens are reviewed concurrently, in addition to the others.
const MAX_RENEWALS: usize = 4;
/// How long a review may take, as upstream.
const REVIEW_LIMIT: Duration = Duration::from_secs(10);

/// Asks the API server, and caches its verdicts for a short while.
pub(super) struct Access {
    api: Arc<dyn Api>,
    verdicts: Mutex<Verdicts>,
    reviews: Semaphore,
    renewals: Semaphore,
    asking: Mutex<HashMap<IpAddr, usize>>,
}

/// The cached verdicts and their expiry. Refusals, which anyone can cause, never evict permissions.
struct Verdicts {
    allowed: LruCache<Question, Instant>,
    refused: LruCache<Question, (Verdict, Instant)>,
}

/// A counted review of an address, until it is dropped.
struct Asking<'a>(&'a Access, IpAddr);

/// The digest of a token, verb and path. The token itself is not kept.
type Question = [u8; 32];

/// The API server's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Allowed,
    /// The token belongs to no user.
    Unauthenticated,
    /// This user lacks the permission.
    Denied(String),
    /// The client's other tokens are still being reviewed.
    Busy,
}

/// Passes on requests of clients that have the permission. If the API server fails, the response is a 500, never a
/// pass.
pub(super) async fn check(
    State(access): State<Arc<Access>>,
    ConnectInfo(client): ConnectInfo<SocketAddr>,
    request: Request,
    next: Next,
) -> Response {
    let verdict = match bearer_token(request.headers()) {
        None => Ok(Verdict::Unauthenticated),
        Some(token) => access.judge(client.ip(), token, request.method(), request.uri().path()).await,
    };
    match verdict {
        Ok(Verdict::Allowed) => next.run(request).await,
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
fn bearer_token(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers.get(AUTHORIZATION)?.to_str().ok()?.trim().split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

impl Access {
    pub(super) fn new(api: Arc<dyn Api>) -> Access {
        let verdicts =
            Mutex::new(Verdicts { allowed: LruCache::new(MAX_VERDICTS), refused: LruCache::new(MAX_VERDICTS) });
        let (reviews, renewals) = (Semaphore::new(MAX_REVIEWS), Semaphore::new(MAX_RENEWALS));
        Access { api, verdicts, reviews, renewals, asking: Mutex::default() }
    }

    pub(super) async fn judge(
        &self,
        client: IpAddr,
        token: &str,
        method: &http::Method,
        path: &str,
    ) -> Result<Verdict, Error> {
        let verb = method.as_str().to_ascii_lowercase();
        let question = question([token, &verb, path]);
        let (known, is_renewal) = lock(&self.verdicts).known(&question, Instant::now());
        if let Some(verdict) = known {
            return Ok(verdict);
        }
        let asking = (!is_renewal).then(|| self.begin_asking(client));
        if matches!(asking, Some(None)) {
            return Ok(Verdict::Busy);
        }
        let permits = if is_renewal { &self.renewals } else { &self.reviews };
        let late = || Error::TimedOut { seconds: REVIEW_LIMIT.as_secs() };
        let review = async {
            // The semaphore is never closed.
            let _permit = permits.acquire().await.ok();
            self.review(token, verb, path).await
        };
        let verdict = tokio::time::timeout(REVIEW_LIMIT, review).await.unwrap_or_else(|_| Err(late()))?;
        lock(&self.verdicts).remember(question, verdict.clone(), Instant::now() + VALID_FOR);
        Ok(verdict)
    }

    /// Counts a review of this client; returns `None` if it has too many.
    fn begin_asking(&self, client: IpAddr) -> Option<Asking<'_>> {
        let mut asking = lock(&self.asking);
        let count = asking.entry(client).or_default();
        if *count >= MAX_REVIEWS_PER_ADDRESS {
            return None;
        }
        *count += 1;
        Some(Asking(self, client))
    }

    async fn review(&self, token: &str, verb: String, path: &str) -> Result<Verdict, Error> {
        let Some(user) = self.authenticate(token).await? else { return Ok(Verdict::Unauthenticated) };
        let name = user.username.clone().unwrap_or_default();
        let allowed = self.authorize(user, verb, path.to_owned()).await?;
        Ok(if allowed { Verdict::Allowed } else { Verdict::Denied(name) })
    }

    /// Returns the user that the token belongs to.
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

    /// Returns how many verdicts are cached.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        let verdicts = lock(&self.verdicts);
        verdicts.allowed.len() + verdicts.refused.len()
    }
}

impl Verdicts {
    /// Returns the verdict if it has not expired, and whether the last one was a permission.
    fn known(&mut self, question: &Question, now: Instant) -> (Option<Verdict>, bool) {
        match self.allowed.get(question) {
            Some(until) => ((now < *until).then_some(Verdict::Allowed), true),
            None => (self.refused.get(question).filter(|(_, until)| now < *until).map(|(is, _)| is.clone()), false),
        }
    }

    fn remember(&mut self, question: Question, verdict: Verdict, until: Instant) {
        if verdict == Verdict::Allowed {
            self.allowed.put(question, until);
        } else {
            self.allowed.pop(&question);
            self.refused.put(question, (verdict, until));
        }
    }
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        let Asking(access, client) = self;
        let mut asking = lock(&access.asking);
        if let Entry::Occupied(mut count) = asking.entry(*client) {
            *count.get_mut() -= 1;
            if *count.get() == 0 {
                count.remove();
            }
        }
    }
}

fn question(parts: [&str; 3]) -> Question {
    let mut all = Sha256::new();
    parts.iter().for_each(|part| all.update(Sha256::digest(part)));
    all.finalize().into()
}
