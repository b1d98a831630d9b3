//! Decides when `/healthz` fails, so that the kubelet restarts the process. Nothing can interrupt an author's code
//! once it runs on its thread: code that never returns keeps the thread and its memory until the process ends.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use outside::sync;
use tokio::time::{Instant, sleep_until};
use tokio_util::task::AbortOnDropHandle;

/// How long work may be overdue before `/healthz` fails. A restart also ends reconciles, so work that is merely slow
/// may take this long.
pub(crate) const OVERDUE: Duration = Duration::from_secs(300);

/// The work that `/healthz` depends on.
#[derive(Clone, Default)]
pub struct Liveness(Arc<Mutex<Unfinished>>);

/// Work in progress. Dropping it records that it has ended.
pub struct Work {
    liveness: Liveness,
    number: u64,
    _logs: AbortOnDropHandle<()>,
}

#[derive(Default)]
struct Unfinished {
    /// The number of the last work that began.
    last: u64,
    /// When each work is due, by its number.
    due: BTreeMap<u64, Instant>,
}

impl Liveness {
    /// Registers work that begins now and may take `limit`. If it takes longer, logs this as an error, with its name.
    /// Needs a tokio runtime.
    pub fn begin(&self, name: String, limit: Duration) -> Work {
        let due = Instant::now() + limit;
        let number = {
            let mut unfinished = sync::lock(&self.0);
            unfinished.last += 1;
            let number = unfinished.last;
            unfinished.due.insert(number, due);
            number
        };
        let logs = AbortOnDropHandle::new(tokio::spawn(async move {
            sleep_until(due).await;
            tracing::error!(work = name, "Still runs after {} s, and keeps its thread and its memory", limit.as_secs());
            sleep_until(due + OVERDUE).await;
            let seconds = (limit + OVERDUE).as_secs();
            tracing::error!(
                work = name,
                "Still runs after {seconds} s: /healthz fails, because only a restart ends it"
            );
        }));
        Work { liveness: self.clone(), number, _logs: logs }
    }

    /// Returns why the process must be restarted, if it must.
    pub fn failure(&self) -> Option<String> {
        let due = sync::lock(&self.0).due.values().min().copied()?;
        let overdue = Instant::now().saturating_duration_since(due);
        (overdue >= OVERDUE).then(|| format!("work that cannot be interrupted is overdue by {} s", overdue.as_secs()))
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        sync::lock(&self.liveness.0).due.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    const LIMIT: Duration = Duration::from_secs(25);

    #[tokio::test(start_paused = true)]
    async fn a_process_fails_while_any_work_is_overdue_for_too_long() {
        let liveness = Liveness::default();
        assert_eq!(liveness.failure(), None);
        let first = liveness.begin("first".to_owned(), LIMIT);
        advance(Duration::from_secs(100)).await;
        let second = liveness.begin("second".to_owned(), LIMIT);
        advance(OVERDUE - Duration::from_secs(76)).await;
        assert_eq!(liveness.failure(), None, "one second before");
        advance(Duration::from_secs(1)).await;
        let why = "work that cannot be interrupted is overdue by 300 s";
        assert_eq!(liveness.failure().as_deref(), Some(why));
        drop(first);
        assert_eq!(liveness.failure(), None, "the other one is not overdue for so long");
        advance(Duration::from_secs(100)).await;
        assert_eq!(liveness.failure().as_deref(), Some(why));
        drop(second);
        assert_eq!(liveness.failure(), None);
    }
}
