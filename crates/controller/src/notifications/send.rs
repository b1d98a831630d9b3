//! Sends one message, and decides from the answer whether to send it again.

use std::time::Duration;

use http::{HeaderValue, Request, StatusCode, header};
use kube::Config;
use kube::client::Body;
use tokio::sync::Mutex;
use tokio::time::timeout;

use super::form::Message;
use super::signature::{self, Secret};
use super::{Error, Settings};
use crate::client::HttpClient;
use crate::events::Notice;

/// How long the sink may take to answer.
const ANSWER_LIMIT: Duration = Duration::from_secs(10);

/// The outcome of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Sent {
    Delivered,
    /// The sink will never take it: its answer.
    Refused(StatusCode),
    /// The sink may take it later: why not now.
    Failed(String),
}

/// Sends messages to the sink.
pub(super) struct Sender {
    settings: Settings,
    agent: HeaderValue,
    client: HttpClient,
    secret: Option<Mutex<Secret>>,
}

impl Sender {
    pub(super) fn new(settings: &Settings, program: &str) -> Result<Sender, Error> {
        settings.check()?;
        let mut config = Config::new(settings.sink.uri().clone());
        config.connect_timeout = Some(ANSWER_LIMIT);
        config.root_cert = settings.ca_file.as_deref().map(crate::client::certificates).transpose()?;
        let agent = format!("{program}/{}", env!("CARGO_PKG_VERSION"));
        Ok(Sender {
            settings: settings.clone(),
            agent: HeaderValue::from_str(&agent).unwrap_or(HeaderValue::from_static("controller")),
            client: crate::client::to_others(&config).map_err(Error::Tls)?,
            secret: settings.secret_file.as_deref().map(Secret::read).transpose()?.map(Mutex::new),
        })
    }

    /// Sends an event once. Follows no redirect, because it could lead to an unencrypted place.
    pub(super) async fn send(&self, notice: &Notice) -> Sent {
        let Message { headers, body } = Message::new(notice, &self.settings);
        let mut request = Request::post(self.settings.sink.uri().clone());
        if let Some(all) = request.headers_mut() {
            all.extend(headers);
            all.insert(header::USER_AGENT, self.agent.clone());
            if let Some(secret) = &self.secret {
                all.extend(secret.lock().await.sign(&body).map(|value| (signature::HEADER, value)));
            }
        }
        let Ok(request) = request.body(Body::from(body)) else { return Sent::Refused(StatusCode::BAD_REQUEST) };
        match timeout(ANSWER_LIMIT, self.client.request(request)).await {
            Ok(Ok(answer)) => judge(answer.status()),
            // The client's messages name neither path nor query.
            Ok(Err(error)) => Sent::Failed(crate::report::chain(&error)),
            Err(_) => Sent::Failed(format!("no answer within {ANSWER_LIMIT:?}")),
        }
    }
}

fn judge(status: StatusCode) -> Sent {
    let is_busy = matches!(status, StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_EARLY | StatusCode::TOO_MANY_REQUESTS);
    match status {
        status if status.is_success() => Sent::Delivered,
        status if status.is_server_error() || is_busy => Sent::Failed(format!("it answered {status}")),
        status => Sent::Refused(status),
    }
}
