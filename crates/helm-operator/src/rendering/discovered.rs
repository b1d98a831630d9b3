//! The capabilities that charts see: the server's version and the kinds that discovery finds, or that count by now.

use std::sync::{Arc, Mutex, RwLock};
use std::time::Duration;

use controller::report::chain;
use controller::runtime::{BoxError, backoff};
use go_template::Str;
use helm::engine::{Capabilities, KubeVersion};
use helm_release::kube::{Applier, Call, digest_json};
use outside::sync;
use serde_json::json;
use tokio::time::Instant;

use super::request::RenderError;
use super::settling::Settling;
use crate::status::reason::Reason;

/// The maximum age of the discovery for a render.
pub(crate) const MAX_AGE: Duration = Duration::from_secs(5);

/// The number of attempts at startup to read the server's version, within 16 seconds.
const ATTEMPTS: u32 = 6;

/// The capabilities of the cluster for charts.
pub(crate) struct Discovered {
    pub(super) applier: Applier,
    kube_version: KubeVersion,
    known: RwLock<Option<Known>>,
    /// The capabilities for charts that render again when they change; `None` before the first discovery.
    counting: Mutex<Option<Counting>>,
}

/// What counts for charts that render again when it changes.
struct Counting {
    settling: Settling<Str>,
    /// The generation and the time of the discovery that was added last.
    added: Option<(usize, Instant)>,
    known: Known,
}

/// The capabilities as one discovery found them.
#[derive(Clone)]
pub(super) struct Known {
    /// The generation of the discovery.
    generation: usize,
    pub(super) capabilities: Arc<Capabilities>,
    pub(super) digest: Arc<str>,
}

impl Discovered {
    /// Reads the server's version. Retries a failing server a few times, because a failure here ends the process.
    ///
    /// # Errors
    /// Fails if the server does not respond, or if its version cannot be parsed.
    pub(crate) async fn read(applier: &Applier) -> Result<Discovered, BoxError> {
        let mut attempt = 1;
        let answer = loop {
            match applier.api().send(Call::get("/version")).await {
                Err(error) if error.is_transient() && attempt < ATTEMPTS => {
                    tracing::warn!(error = chain(&error), "Cannot ask the API server for its version: trying again");
                    tokio::time::sleep(backoff::wait(attempt)).await;
                    attempt += 1;
                }
                answer => break answer?,
            }
        };
        let version: serde_json::Value = answer.parse()?;
        let kube_version = KubeVersion::parse(version["gitVersion"].as_str().unwrap_or_default())?;
        let (known, counting) = (RwLock::default(), Mutex::default());
        Ok(Discovered { applier: applier.clone(), kube_version, known, counting })
    }

    /// Returns the capabilities, which are at most a few seconds old; those last known if discovery fails. Without
    /// `renderOn`, a change alone never triggers a render, because new kinds must not rotate passwords.
    ///
    /// # Errors
    /// Fails if no discovery has succeeded yet: charts would assume a server without kinds.
    pub(super) async fn current(&self) -> Result<Arc<Capabilities>, RenderError> {
        match self.applier.mapper.refresh_if_older(MAX_AGE).await {
            Err(error) if self.applier.mapper.generation() == 0 => {
                let message = format!("cannot read which kinds are served: {}", chain(&error));
                return Err(RenderError::Unanswered { reason: Reason::Unanswered.as_str(), message });
            }
            Err(error) => {
                tracing::warn!(
                    error = chain(&error),
                    "Cannot read which kinds are served: charts see those known so far"
                );
            }
            Ok(()) => {}
        }
        Ok(self.known().capabilities)
    }

    /// Returns what the last discovery found.
    pub(super) fn known(&self) -> Known {
        let generation = self.applier.mapper.generation();
        if let Some(known) = sync::read(&self.known).clone().filter(|known| known.generation == generation) {
            return known;
        }
        let (generation, api_versions, silent) = self.applier.mapper.known_to_charts();
        let silent = Arc::new(silent.iter().map(|version| Str::from(&**version)).collect());
        let known = self.with_kinds(generation, api_versions, silent);
        *sync::write(&self.known) = Some(known.clone());
        known
    }

    /// Returns the capabilities with these API versions and kinds, and with these API servers that do not answer.
    fn with_kinds(
        &self,
        generation: usize,
        api_versions: impl IntoIterator<Item = impl Into<Str>>,
        silent: Arc<Vec<Str>>,
    ) -> Known {
        let capabilities = Capabilities::new(self.kube_version.clone(), api_versions);
        let capabilities = Arc::new(Capabilities { silent, ..capabilities });
        let mut api_versions: Vec<String> = capabilities.api_versions.iter().map(ToString::to_string).collect();
        api_versions.sort();
        let digest = digest_json(&json!([capabilities.kube_version.version, api_versions])).into();
        Known { generation, capabilities, digest }
    }

    /// Returns what counts for charts that render again when it changes, and whether it has settled.
    pub(super) fn counting(&self) -> (Known, bool) {
        let mut counting = sync::lock(&self.counting);
        let known = self.known();
        let Some(at) = self.applier.mapper.discovered_at() else { return (known, false) };
        let begin = || Counting { settling: Settling::begin(at), added: None, known: known.clone() };
        let counting = counting.get_or_insert_with(begin);
        let found = (known.generation, at);
        if counting.added != Some(found) {
            // Until now, its API server had not answered.
            let was_unknown = |kind: &Str| counting.known.capabilities.hides(kind);
            counting.settling.add(known.capabilities.api_versions.iter().cloned(), at, was_unknown);
            let silent = known.capabilities.silent.clone();
            counting.known = self.with_kinds(known.generation, counting.settling.counts().cloned(), silent);
            counting.added = Some(found);
        }
        (counting.known.clone(), counting.settling.is_settled())
    }
}
