//! Limits how often the process diagnoses unready objects.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Duration;

use controller::runtime::throttle::{Cooldown, Throttle};
use outside::sync::lock;
use tokio::time::Instant;

/// How long to remember a denied permission.
const REFUSED: Duration = Duration::from_secs(600);

/// The cooldown that limits diagnoses to a twentieth of one connection's time, because a whole cluster may be unready
/// while its server is busy. To find the events about one object, the server reads all of the namespace's events from
/// etcd, which takes nearly a second after 1,000 rollouts.
const COOLDOWN: Cooldown = Cooldown { factor: 19, longest: Duration::from_secs(60) };

/// The process's diagnoses: a throttle, and what the server refuses to list.
pub(crate) struct Diagnoses {
    pub(crate) throttle: Throttle,
    /// When the server refused a resource in a namespace.
    refused: Mutex<HashMap<(String, &'static str), Instant>>,
}

impl Default for Diagnoses {
    fn default() -> Diagnoses {
        Diagnoses { throttle: Throttle::new(COOLDOWN), refused: Mutex::default() }
    }
}

impl Diagnoses {
    pub(crate) fn is_refused(&self, namespace: &str, resource: &'static str) -> bool {
        let refused = lock(&self.refused);
        refused.get(&(namespace.to_owned(), resource)).is_some_and(|at| at.elapsed() < REFUSED)
    }

    pub(crate) fn refuse(&self, namespace: &str, resource: &'static str) {
        let mut refused = lock(&self.refused);
        if refused.insert((namespace.to_owned(), resource), Instant::now()).is_none() {
            tracing::debug!(namespace, resource, "May not list what explains why objects are not ready");
        }
    }
}
