//! Caches what the API server says about tokens for a short while, and limits how many of them are reviewed
//! concurrently: anyone who reaches a port could otherwise load the API server in our name.

use std::collections::HashMap;
use std::hash::Hash;
use std::net::IpAddr;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lru::LruCache;
use outside::Error;
use outside::sync::lock;
use sha2::{Digest as _, Sha256};
use tokio::sync::Semaphore;
use tokio::time::Instant;

/// How long a verdict is cached, as in the API server's own token cache: a revoked token soon stops working, and a new
/// permission soon works.
pub(super) const VALID_FOR: Duration = Duration::from_secs(10);
/// How many verdicts of each kind to cache. The least recently used is dropped first.
const MAX_VERDICTS: NonZeroUsize = NonZeroUsize::new(256).expect("256 is not zero");
/// How many clients' tokens are reviewed concurrently.
const MAX_REVIEWS: usize = 8;
/// How many reviews one address may have running or waiting. One client with invented tokens could otherwise keep
/// others waiting.
const MAX_REVIEWS_PER_ADDRESS: usize = 2;
/// How many previously allowed tokens are reviewed concurrently, in addition to the others.
const MAX_RENEWALS: usize = 4;
/// How long a review may take, as upstream.
pub(super) const REVIEW_LIMIT: Duration = Duration::from_secs(10);

/// Lets clients with reviewed tokens pass, each with the review's findings.
pub(super) struct Gate<T> {
    verdicts: Mutex<Verdicts<T>>,
    reviews: Semaphore,
    renewals: Semaphore,
    asking: Tickets<IpAddr>,
}

/// The cached verdicts and their expiry. Refusals, which anyone can cause, never evict permissions.
struct Verdicts<T> {
    allowed: LruCache<Question, (T, Instant)>,
    refused: LruCache<Question, (Verdict<T>, Instant)>,
}

/// The digest of the request. Tokens themselves are not kept.
pub(super) type Question = [u8; 32];

/// The API server's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict<T> {
    Allowed(T),
    /// The token belongs to no user.
    Unauthenticated,
    /// The user lacks the permission.
    Denied(String),
    /// The client's other tokens are still being reviewed.
    Busy,
}

/// Returns the digest of a question's parts.
pub(super) fn question<'p>(parts: impl IntoIterator<Item = &'p [u8]>) -> Question {
    let mut all = Sha256::new();
    parts.into_iter().for_each(|part| all.update(Sha256::digest(part)));
    all.finalize().into()
}

impl<T: Clone> Gate<T> {
    pub(super) fn new() -> Gate<T> {
        let verdicts =
            Mutex::new(Verdicts { allowed: LruCache::new(MAX_VERDICTS), refused: LruCache::new(MAX_VERDICTS) });
        let (reviews, renewals) = (Semaphore::new(MAX_REVIEWS), Semaphore::new(MAX_RENEWALS));
        Gate { verdicts, reviews, renewals, asking: Tickets::at_most(MAX_REVIEWS_PER_ADDRESS) }
    }

    /// Returns the cached verdict, or else that of the review.
    ///
    /// # Errors
    /// The review fails, or takes too long.
    pub(super) async fn judge(
        &self,
        client: IpAddr,
        question: Question,
        review: impl Future<Output = Result<Verdict<T>, Error>>,
    ) -> Result<Verdict<T>, Error> {
        let (known, is_renewal) = lock(&self.verdicts).known(&question, Instant::now());
        if let Some(verdict) = known {
            return Ok(verdict);
        }
        let asking = (!is_renewal).then(|| self.asking.begin(client));
        if matches!(asking, Some(None)) {
            return Ok(Verdict::Busy);
        }
        let permits = if is_renewal { &self.renewals } else { &self.reviews };
        let late = || Error::TimedOut { seconds: REVIEW_LIMIT.as_secs() };
        let review = async {
            // The semaphore is never closed.
            let _permit = permits.acquire().await.ok();
            review.await
        };
        let verdict = tokio::time::timeout(REVIEW_LIMIT, review).await.unwrap_or_else(|_| Err(late()))?;
        lock(&self.verdicts).remember(question, verdict.clone(), Instant::now() + VALID_FOR);
        Ok(verdict)
    }

    /// Returns how many verdicts are cached.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        let verdicts = lock(&self.verdicts);
        verdicts.allowed.len() + verdicts.refused.len()
    }
}

impl<T: Clone> Verdicts<T> {
    /// Returns the cached verdict unless it has expired, and whether the last verdict allowed the request.
    fn known(&mut self, question: &Question, now: Instant) -> (Option<Verdict<T>>, bool) {
        match self.allowed.get(question) {
            Some((what, until)) => ((now < *until).then(|| Verdict::Allowed(what.clone())), true),
            None => (self.refused.get(question).filter(|(_, until)| now < *until).map(|(is, _)| is.clone()), false),
        }
    }

    fn remember(&mut self, question: Question, verdict: Verdict<T>, until: Instant) {
        if let Verdict::Allowed(what) = verdict {
            self.allowed.put(question, (what, until));
        } else {
            self.allowed.pop(&question);
            self.refused.put(question, (verdict, until));
        }
    }
}

/// Counts what each client has under way, and limits it.
pub(super) struct Tickets<K: Eq + Hash> {
    most: usize,
    counts: Counts<K>,
}

type Counts<K> = Arc<Mutex<HashMap<K, usize>>>;

/// One of the things that a client has under way, counted until it is dropped.
pub(super) struct Ticket<K: Eq + Hash>(Counts<K>, K);

impl<K: Copy + Eq + Hash> Tickets<K> {
    pub(super) fn at_most(most: usize) -> Tickets<K> {
        Tickets { most, counts: Arc::default() }
    }

    /// Returns a ticket for this client, or `None` if it has too many.
    pub(super) fn begin(&self, client: K) -> Option<Ticket<K>> {
        let mut counts = lock(&self.counts);
        let count = counts.entry(client).or_default();
        if *count >= self.most {
            return None;
        }
        *count += 1;
        Some(Ticket(self.counts.clone(), client))
    }
}

impl<K: Eq + Hash> Drop for Ticket<K> {
    fn drop(&mut self) {
        let Ticket(counts, client) = self;
        lock(counts).retain(|key, count| {
            if key == client {
                *count -= 1;
            }
            *count > 0
        });
    }
}
