//! Publishes events: creates new ones and counts repeated ones, within the process's permissions and bounded memory.

use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use jiff::Timestamp;
use lru::LruCache;
use outside::sync;
use outside::{Api, Error};
use tokio::time::Instant;

use super::form::{Event, EventKey, Form};
use super::rights::EventRights;
use crate::report::chain;

/// How long after its last occurrence an event is counted as a repetition, as in client-go: well within the hour for
/// which servers keep events.
pub(crate) const SERIES: Duration = Duration::from_secs(360);
/// How many events to track. The least recently seen is dropped first.
pub(super) const MAX_TRACKED: NonZeroUsize = NonZeroUsize::new(1024).expect("1024 is not zero");

/// The publisher of the process's events.
pub(super) struct Recorder {
    api: Arc<dyn Api>,
    seen: Mutex<LruCache<EventKey, Published>>,
    rights: Mutex<EventRights>,
}

#[derive(Clone, Debug)]
struct Published {
    name: String,
    form: Form,
    count: u32,
    /// Whether the process may patch its count.
    countable: bool,
    last: Instant,
}

/// What to do with an event.
enum Publication {
    /// It has not been published recently.
    Create,
    /// It was published; increase its count.
    Count(Published),
    /// It was published, and the process may not patch its count.
    Drop,
}

impl Recorder {
    pub(super) fn new(api: Arc<dyn Api>) -> Recorder {
        Recorder { api, seen: Mutex::new(LruCache::new(MAX_TRACKED)), rights: Mutex::new(EventRights::new()) }
    }

    /// Creates the event, which happened at `at`, or increases its count.
    ///
    /// # Errors
    /// The server failed, or rejected the event for a reason other than a missing permission.
    pub(super) async fn publish(&self, event: &Event<'_>, at: Timestamp) -> Result<(), Error> {
        let key = event.key();
        match self.next(&key, Instant::now()) {
            Publication::Drop => Ok(()),
            Publication::Create => self.create(event, key, at).await,
            Publication::Count(seen) => match self.count(event, &seen, at).await {
                // The server no longer has it, or never received it.
                Err(error) if error.is_not_found() => self.create(event, key, at).await,
                Err(error) if lacks_right(&error) => {
                    self.change(&key, |seen| seen.countable = false);
                    Ok(())
                }
                answer => answer,
            },
        }
    }

    /// Takes back a repetition that was not published, because it is sent again.
    pub(super) fn uncount(&self, event: &Event<'_>) {
        self.change(&event.key(), |seen| seen.count = seen.count.saturating_sub(1).max(1));
    }

    async fn count(&self, event: &Event<'_>, seen: &Published, at: Timestamp) -> Result<(), Error> {
        let call = seen.form.repeat(event.namespace, &seen.name, seen.count, at);
        self.api.send(call).await.map(drop)
    }

    async fn create(&self, event: &Event<'_>, key: EventKey, at: Timestamp) -> Result<(), Error> {
        let forms = self.rights().forms(event.namespace, Instant::now());
        let Some(first) = forms.first() else { return Ok(()) };
        let name = event.name(at);
        // Tracked before the response, because it may be repeated in the meantime.
        let published = Published { name: name.clone(), form: *first, count: 1, countable: true, last: Instant::now() };
        self.track(key, published);
        let created = self.create_in(&forms, event, &name, at).await;
        match &created {
            Ok(Some(form)) => self.change(&key, |seen| (seen.form, seen.countable) = (*form, true)),
            Ok(None) | Err(_) => _ = self.seen().pop(&key),
        }
        created.map(drop)
    }

    /// Creates the event in the first API that the namespace allows; returns which.
    async fn create_in(
        &self,
        forms: &[Form],
        event: &Event<'_>,
        name: &str,
        at: Timestamp,
    ) -> Result<Option<Form>, Error> {
        let mut refusals = Vec::new();
        for form in forms {
            match self.api.send(form.create(event, name, at)).await {
                Err(error) if lacks_right(&error) => refusals.push(chain(&error)),
                answer => {
                    answer?;
                    self.rights().granted(event.namespace, *form);
                    return Ok(Some(*form));
                }
            }
        }
        if self.rights().refused(event.namespace, Instant::now()) {
            let (namespace, error) = (event.namespace, refusals.join("; "));
            tracing::warn!(namespace, error, "Events are not published: grant create and patch on events; logged once");
        }
        Ok(None)
    }

    fn next(&self, key: &EventKey, now: Instant) -> Publication {
        let mut all = self.seen();
        let Some(seen) = all.peek_mut(key).filter(|seen| now.saturating_duration_since(seen.last) < SERIES) else {
            return Publication::Create;
        };
        if !seen.countable {
            return Publication::Drop;
        }
        (seen.count, seen.last) = (seen.count.saturating_add(1), now);
        let seen = seen.clone();
        all.promote(key);
        Publication::Count(seen)
    }

    /// Tracks an event, and drops those whose series is over. The cache is ordered by last occurrence.
    fn track(&self, key: EventKey, published: Published) {
        let (mut all, now) = (self.seen(), published.last);
        while all.peek_lru().is_some_and(|(_, old)| now.saturating_duration_since(old.last) >= SERIES) {
            all.pop_lru();
        }
        all.put(key, published);
    }

    fn change(&self, key: &EventKey, how: impl FnOnce(&mut Published)) {
        if let Some(seen) = self.seen().peek_mut(key) {
            how(seen);
        }
    }

    fn seen(&self) -> MutexGuard<'_, LruCache<EventKey, Published>> {
        sync::lock(&self.seen)
    }

    fn rights(&self) -> MutexGuard<'_, EventRights> {
        sync::lock(&self.rights)
    }

    /// Returns how many events are tracked.
    #[cfg(test)]
    pub(super) fn tracked(&self) -> usize {
        self.seen().len()
    }
}

/// Returns whether the permission is missing. In a namespace that is being deleted, nothing can be created, with or
/// without it.
fn lacks_right(error: &Error) -> bool {
    error.code() == Some(403) && !error.is_terminating()
}
