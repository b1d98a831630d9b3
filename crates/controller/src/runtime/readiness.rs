//! Tracks the requirements that must be met once before the process is ready. `/readyz` names what is missing, and so
//! does the log, repeatedly.
//!
//! A requirement that was met stays met. A later outage is no reason to report the process as unready, because it would
//! only be restarted (docs/decisions/0049-mistakes-at-run-time.md).
//!
//! A process that answers webhooks is ready before it can reconcile: the API server sends requests only to ready pods,
//! and may need the process's own conversions to list what it waits for.

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
#[derive(Clone, Default)]
pub struct Readiness(Arc<watch::Sender<State>>);

#[derive(Default)]
struct State {
    /// The unmet requirements, by name.
    unmet: BTreeMap<Arc<str>, Unmet>,
    /// What the process must be able to do when it is ready.
    task: Task,
}

struct Unmet {
    why: String,
    task: Task,
}

/// What a process cannot do before a requirement is met.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Task {
    /// Answer webhooks, or anything else.
    Answer,
    #[default]
    Reconcile,
}

/// Something that must work once.
#[derive(Clone)]
pub struct Requirement {
    readiness: Readiness,
    what: Arc<str>,
}

impl Readiness {
    /// Adds a requirement, or replaces the one of this name, even if it was met. `why` is the reason why it is not met
    /// yet.
    pub fn require(&self, what: &str, why: &str) -> Requirement {
        self.require_for(Task::Answer, what, why)
    }

    /// Adds a requirement that only controllers have, such as a list. It does not keep a process unready that answers
    /// webhooks.
    pub fn require_to_reconcile(&self, what: &str, why: &str) -> Requirement {
        self.require_for(Task::Reconcile, what, why)
    }

    fn require_for(&self, task: Task, what: &str, why: &str) -> Requirement {
        let requirement = Requirement { readiness: self.clone(), what: what.into() };
        let unmet = Unmet { why: why.to_owned(), task };
        self.0.send_modify(|state| _ = state.unmet.insert(requirement.what.clone(), unmet));
        requirement
    }

    /// Makes the process ready as soon as it can answer webhooks.
    pub(crate) fn answer_webhooks(&self) {
        self.0.send_modify(|state| state.task = Task::Answer);
    }

    /// Returns whether a kind, as [`kind`] names it, is not served yet, or one of its lists has never been complete.
    pub fn awaits(&self, kind: &str) -> bool {
        self.0.borrow().unmet.keys().any(|what| what.starts_with(kind))
    }

    /// Returns the unmet requirements with their reasons: `Shop in v1: not listed yet`.
    pub fn unmet(&self) -> Vec<String> {
        self.0.borrow().lines(Task::Reconcile)
    }

    /// Returns the unmet requirements that keep the process unready, with their reasons.
    pub fn unready(&self) -> Vec<String> {
        let state = self.0.borrow();
        state.lines(state.task)
    }

    /// Logs the unmet requirements at intervals, for as long as there are any. Never returns.
    pub async fn remind(&self) {
        let mut state = self.0.subscribe();
        // This never fails: the sender, `self`, is alive.
        while state.wait_for(|state| !state.unmet.is_empty()).await.is_ok() {
            let mut pause = FIRST;
            let mut reminded = false;
            while timeout(pause, state.wait_for(|state| state.unmet.is_empty())).await.is_err() {
                let waits_for = summary(&self.unmet());
                match self.unready().is_empty() {
                    true => tracing::warn!(waits_for, "Ready for webhooks, but not to reconcile everything"),
                    false => tracing::warn!(waits_for, "Still not ready"),
                }
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
        self.readiness.0.send_if_modified(|state| match state.unmet.get_mut(&self.what) {
            Some(known) if known.why != why => {
                known.why = why.to_owned();
                true
            }
            _ => false,
        });
    }

    /// Records that it was met, permanently.
    pub fn meet(&self) {
        self.readiness.0.send_if_modified(|state| state.unmet.remove(&self.what).is_some());
    }

    /// Returns whether it was met.
    pub fn is_met(&self) -> bool {
        !self.readiness.0.borrow().unmet.contains_key(&self.what)
    }
}

impl State {
    /// Returns what keeps the process from a task.
    fn lines(&self, task: Task) -> Vec<String> {
        let unmet = self.unmet.iter().filter(|(_, unmet)| unmet.task <= task);
        unmet.map(|(what, unmet)| format!("{what}: {}", unmet.why)).collect()
    }
}

/// Returns a kind's name in requirements: `Shop (apps.example.com/v1)`.
pub fn kind(kind: &str, api_version: &str) -> String {
    format!("{kind} ({api_version})")
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
    fn a_requirement_that_is_added_again_replaces_the_one_before() {
        let readiness = Readiness::default();
        let before = readiness.require_to_reconcile("Shop", LISTING);
        before.fails("forbidden");
        let again = readiness.require_to_reconcile("Shop", LISTING);
        assert_eq!(readiness.unmet(), ["Shop: not listed yet"]);
        again.meet();
        assert!(readiness.unmet().is_empty() && before.is_met());
        assert!(!readiness.require_to_reconcile("Shop", LISTING).is_met());
    }

    #[test]
    fn a_kind_is_awaited_until_it_is_served_and_all_its_lists_are_complete() {
        let readiness = Readiness::default();
        let [shops, newer, others] = [("Shop", "g/v1"), ("Shop", "g/v2"), ("BigShop", "g/v1")].map(|(k, v)| kind(k, v));
        let require = |what: &str| readiness.require_to_reconcile(what, LISTING);
        let (served, _newer, _others) = (require(&shops), require(&newer), require(&others));
        assert!(readiness.awaits(&shops));
        let lists = ["a", "b"].map(|namespace| require(&format!("{shops} in namespace {namespace}")));
        served.meet();
        lists[0].meet();
        assert!(readiness.awaits(&shops));
        lists[1].meet();
        assert!(!readiness.awaits(&shops) && readiness.awaits(&newer) && readiness.awaits(&others));
    }

    #[test]
    fn a_process_that_answers_webhooks_is_ready_before_it_can_reconcile() {
        let readiness = Readiness::default();
        let (shops, lease) = (readiness.require_to_reconcile("Shop", "x"), readiness.require("lease", "y"));
        assert_eq!(readiness.unready(), ["Shop: x", "lease: y"]);
        readiness.answer_webhooks();
        assert_eq!((readiness.unready(), readiness.unmet().len()), (vec!["lease: y".into()], 2));
        lease.meet();
        assert!(readiness.unready().is_empty() && !shops.is_met());
        assert_eq!(readiness.unmet(), ["Shop: x"]);
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
