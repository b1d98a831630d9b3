//! Sends one batch to the collector, and says once why it fails.

use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::{HeaderValue, Request, Response, header};
use kube::Config;
use kube::client::Body;
use opentelemetry_http::{Bytes, HttpError};
use outside::sync::lock;
use tokio::runtime::{Builder, Runtime};
use tokio::time::{Instant, timeout};

use super::{Error, Settings};
use crate::client::{HttpClient, to_others};
use crate::runtime::last_error::{LastError, Transition};

/// How long the collector may take to answer.
const ANSWER_LIMIT: Duration = Duration::from_secs(10);

/// The receiver of traces.
pub(super) struct Collector {
    client: HttpClient,
    agent: HeaderValue,
    /// The collector's connections live here, not among the reconciles.
    runtime: Runtime,
    last_error: Arc<Mutex<LastError>>,
}

impl Collector {
    pub(super) fn new(settings: &Settings, program: &str) -> Result<Collector, Error> {
        let mut config = Config::new(settings.endpoint.clone());
        config.connect_timeout = Some(ANSWER_LIMIT);
        config.root_cert = settings.ca_file.as_deref().map(crate::client::certificates).transpose()?;
        let agent = format!("{program}/{}", env!("CARGO_PKG_VERSION"));
        Ok(Collector {
            client: to_others(&config).map_err(Error::Tls)?,
            agent: HeaderValue::from_str(&agent).unwrap_or(HeaderValue::from_static("controller")),
            runtime: Builder::new_multi_thread().worker_threads(1).enable_all().build().map_err(Error::Thread)?,
            last_error: Arc::default(),
        })
    }
}

/// The answer to a batch. Its body is dropped.
type Sent = Result<Response<Bytes>, HttpError>;

impl opentelemetry_http::HttpClient for Collector {
    fn send_bytes<'c, 'sent>(&'c self, request: Request<Bytes>) -> Pin<Box<dyn Future<Output = Sent> + Send + 'sent>>
    where
        'c: 'sent,
        Self: 'sent,
    {
        let (mut head, body) = request.into_parts();
        head.headers.insert(header::USER_AGENT, self.agent.clone());
        let answer = self.client.request(Request::from_parts(head, Body::from(body.to_vec())));
        let last_error = self.last_error.clone();
        let sending = self.runtime.spawn(async move {
            let result = match timeout(ANSWER_LIMIT, answer).await {
                Ok(Ok(answer)) if answer.status().is_success() => Ok(answer.map(|_| Bytes::new())),
                Ok(Ok(answer)) => Err(format!("it answered {}", answer.status())),
                Ok(Err(error)) => Err(crate::report::chain(&error)),
                Err(_) => Err(format!("no answer within {ANSWER_LIMIT:?}")),
            };
            report(&mut lock(&last_error), result.as_ref().err().cloned());
            result.map_err(HttpError::from)
        });
        Box::pin(async move { sending.await.unwrap_or_else(|error| Err(error.into())) })
    }
}

/// Logs a batch's failure once for each reason, and that the collector takes batches again.
fn report(last: &mut LastError, failure: Option<String>) {
    let transition = match failure {
        Some(reason) => last.fail(reason, Instant::now()),
        None => last.recover(),
    };
    match transition {
        Transition::Nothing => {}
        Transition::Failed(error) | Transition::Reminder(error) => {
            tracing::warn!(error, "Cannot send traces; spans are dropped until the collector takes them");
        }
        Transition::StillFailing(error) => tracing::debug!(error, "Still cannot send traces"),
        Transition::Recovered => tracing::info!("Sending traces again"),
    }
}

impl fmt::Debug for Collector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Collector")
    }
}
