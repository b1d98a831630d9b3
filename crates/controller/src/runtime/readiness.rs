//! Tracks the requirements that must be met once before the process is ready. `/readyz` names what is missing, and so
//! does the log, repeatedly.
//!
//! A requirement that was met stays met. A later outage is no reason to report the process as unready, because it would
//! only be restarted (docs/decisions/0049-mistakes-at-run-time.md).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::timeout;

/// The first pause between two reminders. Each pause is twice as long as the one before.
const FIRST: Duration = Duration::from_secs(30);

/// The maximum pause between two reminders.
const LONGEST: Duration = Duration::from_secs(600);

/// How many requirements a log line names.
const NAMED: usize = 5;

/// Why a list is missing before its first attempt.
pub const LISTING: &str = "not listed yet";

/// The requirements that keep the process unready until they are met.
#[derive(Clone)]
pub struct Readiness(Arc<watch::Sender<Unmet>>);

/// The reason for each unmet requirement.
type Unmet = BTreeMap<Arc<str>, String>;

/// Something that must work once.
#[derive(Clone)]
pub struct Requirement {
    readiness: Readiness,
    what: Arc<str>,
}

impl Default for Readiness {
    fn default() -> Readiness {
        Readiness(Arc::new(watch::Sender::new(Unmet::new())))
    }
}

impl Readiness {
    /// Adds a requirement. `why` is the reason why it is not met yet.
    pub fn require(&self, what: &str, why: &str) -> Requirement {
        let requirement = Requirement { readiness: self.clone(), what: what.into() };
        self.0.send_modify(|unmet| _ = unmet.insert(requirement.what.clone(), why.to_owned()));
        requirement
    }

    /// Returns the unmet requirements with their reasons: `Shop in v1: not listed yet`.
    pub fn unmet(&self) -> Vec<String> {
        lines(&self.0.borrow())
    }

    /// Logs the unmet requirements at intervals, for as long as there are any. Never returns.
    pub async fn remind(&self) {
        let mut state = self.0.subscribe();
        // This never fails: the sender, `self`, is alive.
        while state.wait_for(|unmet| !unmet.is_empty()).await.is_ok() {
            let mut pause = FIRST;
            let mut reminded = false;
            while timeout(pause, state.wait_for(Unmet::is_empty)).await.is_err() {
                tracing::warn!(waits_for = summary(&self.unmet()), "Still not ready");
                (pause, reminded) = ((pause * 2).min(LONGEST), true);
            }
            if reminded {
                tracing::info!("Ready: everything has been listed");
            }
        }
    }
}

impl Requirement {
    /// Records why it is not met. Does nothing if it was met before.
    pub fn fails(&self, why: &str) {
        self.readiness.0.send_if_modified(|unmet| match unmet.get_mut(&self.what) {
            Some(known) if known != why => {
                *known = why.to_owned();
                true
            }
            _ => false,
        });
    }

    /// Records that it was met, permanently.
    pub fn meet(&self) {
        self.readiness.0.send_if_modified(|unmet| unmet.remove(&self.what).is_some());
    }

    /// Returns whether it was met.
    pub fn is_met(&self) -> bool {
        !self.readiness.0.borrow().contains_key(&self.what)
    }
}

/// Returns a kind's name in requirements: `Shop (apps.example.com/v1)`.
pub fn kind(kind: &str, api_version: &str) -> String {
    format!("{kind} ({api_version})")
}

fn lines(unmet: &Unmet) -> Vec<String> {
    unmet.iter().map(|(what, why)| format!("{what}: {why}")).collect()
}

fn summary(lines: &[String]) -> String {
    let named = lines.iter().take(NAMED).map(String::as_str).collect::<Vec<_>>().join("; ");
    match lines.len().saturating_sub(NAMED) {
        0 => named,
        more => format!("{named}; and {more} more"),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use tokio::time::Instant;
    use tracing_subscriber::Layer;
    use tracing_subscriber::layer::{Context, SubscriberExt as _};

    use super::*;

    #[test]
    fn what_was_met_once_stays_met() {
        let readiness = Readiness::default();
        assert!(readiness.unmet().is_empty());
        let (shops, secrets) = (readiness.require("Shop", "not listed yet"), readiness.require("records", "x"));
        shops.fails("forbidden");
        assert_eq!(readiness.unmet(), ["Shop: forbidden", "records: x"]);
        secrets.meet();
        secrets.fails("away");
        assert_eq!(
            (readiness.unmet(), shops.is_met(), secrets.is_met()),
            (vec!["Shop: forbidden".into()], false, true)
        );
        shops.meet();
        assert!(readiness.unmet().is_empty());
    }

    #[test]
    fn a_reminder_names_some_and_counts_the_rest() {
        let lines: Vec<String> = (0..7).map(|n| n.to_string()).collect();
        assert_eq!(summary(&lines), "0; 1; 2; 3; 4; and 2 more");
        assert_eq!(summary(&lines[..5]), "0; 1; 2; 3; 4");
    }

    /// When each line was logged, in seconds.
    struct Times(Arc<Mutex<Vec<u64>>>, Instant);

    impl<S: tracing::Subscriber> Layer<S> for Times {
        fn on_event(&self, _: &tracing::Event<'_>, _: Context<'_, S>) {
            self.0.lock().unwrap().push(self.1.elapsed().as_secs());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn reminders_come_at_growing_bounded_intervals_until_everything_is_met() {
        let seen = Arc::<Mutex<Vec<u64>>>::default();
        let _guard =
            tracing::subscriber::set_default(tracing_subscriber::registry().with(Times(seen.clone(), Instant::now())));
        let readiness = Readiness::default();
        let shops = readiness.require("Shop", "not listed yet");
        let quick = readiness.clone();
        tokio::spawn(async move { quick.remind().await });
        tokio::time::sleep(Duration::from_secs(2400)).await;
        shops.meet();
        tokio::time::sleep(Duration::from_secs(3600)).await;
        let soon = readiness.require("Tool", "not listed yet");
        tokio::time::sleep(Duration::from_secs(5)).await;
        soon.meet();
        tokio::time::sleep(Duration::from_secs(3600)).await;
        assert_eq!(
            *seen.lock().unwrap(),
            [30, 90, 210, 450, 930, 1530, 2130, 2400],
            "the last one says that it is ready"
        );
    }
}
