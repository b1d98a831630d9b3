//! Answers HTTP requests of the API server, within limits: anyone who reaches the port may send anything.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::response::{IntoResponse as _, Response};
use futures::{FutureExt as _, StreamExt as _};
use http::header::CONTENT_TYPE;
use http::{Method, StatusCode};
use kube::Client;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use super::conversion::{MAX_WEIGHT, Versions};
use super::growth;
use super::registry::{Failure, Registered, Webhooks};
use super::weight::weigh;
use crate::metrics::Metrics;
use crate::runtime::liveness::Liveness;

/// The maximum size of an admission review: the API server accepts objects of 3 MiB, and sends two.
pub(super) const MAX_ADMISSION: usize = 7 << 20;

/// The maximum size of a conversion review, which has all objects of a list or of a page.
const MAX_CONVERSION: usize = 24 << 20;

/// The maximum of what all reviews that are being read or answered take: their text; of admissions, twice what they take
/// when they are parsed; of conversions, the text of the answer and one parsed object. Calculated for a container of 128 MiB.
pub(super) const MAX_TOTAL: usize = 64 << 20;

/// The maximum of what conversions take of [`MAX_TOTAL`]: what the largest one takes. The rest is left to admissions,
/// because a conversion that never returns keeps what it took.
const MAX_CONVERSIONS: usize = 2 * MAX_CONVERSION + MAX_WEIGHT;

/// How long an admission may take in total. The API server waits for [`super::configuration::TIMEOUT`].
const ADMISSION_LIMIT: Duration = Duration::from_secs(8);

/// How long until an admission is taken for one that blocks its thread. Any other has been dropped by then.
const ADMISSION_BLOCKS: Duration = Duration::from_secs(10);

/// How long a conversion may take. The API server waits for 30 seconds.
const CONVERSION_LIMIT: Duration = Duration::from_secs(25);

pub(crate) fn router(webhooks: Webhooks, client: Client, metrics: Metrics, liveness: Liveness) -> Router {
    let [all, conversions] = [MAX_TOTAL, MAX_CONVERSIONS].map(Budget::of);
    let served = Served { webhooks, client, metrics, liveness, all, conversions };
    Router::new().fallback(count).with_state(Arc::new(served))
}

struct Served {
    webhooks: Webhooks,
    client: Client,
    metrics: Metrics,
    liveness: Liveness,
    /// The budget of all reviews.
    all: Arc<Budget>,
    /// The budget of conversions, which is a part of `all`.
    conversions: Arc<Budget>,
}

/// What a path requests.
enum Asked {
    Admission(Arc<Registered>),
    Conversion(Arc<Versions>),
}

type Refusal = (StatusCode, String);

/// Answers a request, and counts it if its path is a webhook's.
async fn count(State(served): State<Arc<Served>>, request: Request) -> Response {
    let path = request.uri().path().to_owned();
    let Some(asked) = served.find(&path) else {
        return (StatusCode::NOT_FOUND, "no webhook is here\n").into_response();
    };
    let began = Instant::now();
    let response = answer(&served, asked, &path, request).await;
    served.metrics.webhook(&path, response.status().as_u16(), began.elapsed());
    response
}

async fn answer(served: &Served, asked: Asked, path: &str, request: Request) -> Response {
    let limit = asked.limits().1;
    match timeout(limit, served.answer(asked, request)).await {
        Ok(Ok(review)) => ([(CONTENT_TYPE, "application/json")], review).into_response(),
        Ok(Err((code, why))) => {
            if code.is_server_error() {
                tracing::error!(path, error = why, "Webhook failed");
            } else {
                tracing::debug!(path, code = code.as_u16(), why, "Refused a request to a webhook");
            }
            (code, why).into_response()
        }
        Err(_) => {
            tracing::error!(path, "Webhook did not answer within {} s", limit.as_secs());
            // The API server shows the text of a 500, but not that of a 504.
            (StatusCode::INTERNAL_SERVER_ERROR, format!("the webhook did not answer within {} s", limit.as_secs()))
                .into_response()
        }
    }
}

impl Served {
    fn find(&self, path: &str) -> Option<Asked> {
        let admission = self.webhooks.admissions.iter().find(|one| one.path() == path).cloned();
        let conversion = || self.webhooks.conversions.iter().find(|one| one.path_of_webhook() == path).cloned();
        admission.map(Asked::Admission).or_else(|| conversion().map(Asked::Conversion))
    }

    async fn answer(&self, asked: Asked, request: Request) -> Result<String, Refusal> {
        if request.method() != Method::POST {
            return Err((StatusCode::METHOD_NOT_ALLOWED, "webhooks answer POST\n".into()));
        }
        let (body, mut share) = self.read(&asked, request.into_body()).await?;
        let weight = weigh(&body);
        share.take(match &asked {
            Asked::Admission(_) => 2 * weight,
            Asked::Conversion(_) => body.len() + weight.min(MAX_WEIGHT),
        })?;
        if let Asked::Admission(_) = &asked {
            growth::check(&body, weight).map_err(|why| (StatusCode::PAYLOAD_TOO_LARGE, why.to_owned()))?;
        }
        // A separate task, so that a panic or a blocking call affects only this request. Work that blocks its thread
        // outlives its time limit. It keeps its share until it ends, and a conversion ends soon unless the author's code
        // never returns. Admissions run on the threads of the controllers.
        let (client, liveness, abandoned) = (self.client.clone(), self.liveness.clone(), CancellationToken::new());
        let _abandons_when_dropped = abandoned.clone().drop_guard();
        let work = match asked {
            Asked::Admission(hook) => {
                let work = liveness.begin(hook.path(), ADMISSION_BLOCKS);
                AbortOnDropHandle::new(tokio::spawn(async move {
                    let (_share, _work, body) = (share, work, body);
                    let asked = AssertUnwindSafe(hook.review(&body, client)).catch_unwind().await;
                    asked.unwrap_or_else(|_| Err(Failure::Webhook(PANICKED.into()))).map_err(refusal)
                }))
            }
            Asked::Conversion(versions) => AbortOnDropHandle::new(tokio::task::spawn_blocking(move || {
                let (_share, body) = (share, body);
                let _work = liveness.begin(versions.path_of_webhook(), CONVERSION_LIMIT);
                let converted = std::panic::catch_unwind(AssertUnwindSafe(|| versions.review(&body, &abandoned)));
                let converted = converted.map_err(|_| Failure::Webhook(PANICKED.into()));
                converted.and_then(|converted| converted.map_err(Failure::Review)).map_err(refusal)
            })),
        };
        work.await.unwrap_or_else(|error| Err((StatusCode::INTERNAL_SERVER_ERROR, error.to_string())))
    }

    /// Reads a body, whose bytes count in the budgets of what is asked until the share is dropped.
    async fn read(&self, asked: &Asked, body: Body) -> Result<(Bytes, Share), Refusal> {
        let (mut pieces, mut read) = (body.into_data_stream(), Vec::new());
        let (most, mut share) = (asked.limits().0, self.share(asked));
        while let Some(piece) = pieces.next().await {
            let piece = piece.map_err(|error| (StatusCode::BAD_REQUEST, error.to_string()))?;
            if read.len() + piece.len() > most {
                let why = format!("the review is larger than {most} bytes");
                return Err((StatusCode::PAYLOAD_TOO_LARGE, why));
            }
            share.take(piece.len())?;
            read.extend_from_slice(&piece);
        }
        Ok((read.into(), share))
    }

    /// Returns an empty share of the budgets that a review counts in.
    fn share(&self, asked: &Asked) -> Share {
        let budgets = match asked {
            Asked::Admission(_) => vec![self.all.clone()],
            Asked::Conversion(_) => vec![self.all.clone(), self.conversions.clone()],
        };
        Share { budgets, taken: 0 }
    }
}

const PANICKED: &str = "the webhook panicked";

impl Asked {
    /// Returns how large a review may be, and how long the answer may take.
    fn limits(&self) -> (usize, Duration) {
        match self {
            Asked::Admission(_) => (MAX_ADMISSION, ADMISSION_LIMIT),
            Asked::Conversion(_) => (MAX_CONVERSION, CONVERSION_LIMIT),
        }
    }
}

fn refusal(failure: Failure) -> Refusal {
    match failure {
        Failure::Review(why) => (StatusCode::BAD_REQUEST, format!("cannot read the review: {why}")),
        Failure::Webhook(why) => (StatusCode::INTERNAL_SERVER_ERROR, why),
    }
}

/// The bytes that reviews take, and how many they may take.
struct Budget {
    taken: AtomicUsize,
    most: usize,
}

impl Budget {
    fn of(most: usize) -> Arc<Budget> {
        Arc::new(Budget { taken: AtomicUsize::new(0), most })
    }

    /// Adds bytes; returns whether all are within the maximum.
    fn add(&self, bytes: usize) -> bool {
        self.taken.fetch_add(bytes, Ordering::Relaxed) + bytes <= self.most
    }
}

/// The part of its budgets that one review takes.
struct Share {
    budgets: Vec<Arc<Budget>>,
    taken: usize,
}

impl Share {
    fn take(&mut self, bytes: usize) -> Result<(), Refusal> {
        self.taken += bytes;
        let exceeded = self.budgets.iter().filter(|budget| !budget.add(bytes)).count();
        // Alone, no other review will give way.
        match (exceeded > 0, self.budgets.iter().any(|budget| self.taken > budget.most)) {
            (_, true) => Err((StatusCode::PAYLOAD_TOO_LARGE, "the review has too many values".into())),
            (true, false) => Err((StatusCode::SERVICE_UNAVAILABLE, "too many large reviews at once".into())),
            (false, false) => Ok(()),
        }
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        for budget in &self.budgets {
            budget.taken.fetch_sub(self.taken, Ordering::Relaxed);
        }
    }
}
