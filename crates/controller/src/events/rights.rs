//! Tracks which events API each namespace allows, so that it is tried first from then on.

use std::num::NonZeroUsize;
use std::time::Duration;

use lru::LruCache;
use tokio::time::Instant;

use super::form::Form;

/// How long to wait after both APIs refused: the permission may have been granted since.
const RETRY: Duration = Duration::from_secs(600);
/// How many namespaces to remember. The least recently used is dropped first, and tried again.
const MAX_NAMESPACES: NonZeroUsize = NonZeroUsize::new(1024).expect("1024 is not zero");

/// What is known about the permission to create events.
pub(super) struct EventRights {
    known: LruCache<String, EventRight>,
    warned: bool,
}

#[derive(Clone, Copy, Debug)]
enum EventRight {
    /// This API accepted an event.
    Granted(Form),
    /// Both APIs refused; holds the time of the next attempt.
    Refused(Instant),
}

impl EventRights {
    pub(super) fn new() -> EventRights {
        EventRights { known: LruCache::new(MAX_NAMESPACES), warned: false }
    }

    /// Returns the APIs to try, in order.
    pub(super) fn forms(&mut self, namespace: &str, now: Instant) -> Vec<Form> {
        match self.known.get(namespace) {
            Some(EventRight::Refused(until)) if now < *until => Vec::new(),
            Some(EventRight::Granted(form)) => vec![*form, form.other()],
            _ => vec![Form::Events, Form::Core],
        }
    }

    pub(super) fn granted(&mut self, namespace: &str, form: Form) {
        self.known.put(namespace.to_owned(), EventRight::Granted(form));
    }

    /// Records that both APIs refused. Returns whether this is the first refusal in the process.
    pub(super) fn refused(&mut self, namespace: &str, now: Instant) -> bool {
        self.known.put(namespace.to_owned(), EventRight::Refused(now + RETRY));
        !std::mem::replace(&mut self.warned, true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_api_that_took_an_event_is_tried_first_in_its_namespace() {
        let (mut rights, now) = (EventRights::new(), Instant::now());
        assert_eq!(rights.forms("a", now), [Form::Events, Form::Core]);
        rights.granted("a", Form::Core);
        assert_eq!(rights.forms("a", now), [Form::Core, Form::Events]);
        assert_eq!(rights.forms("b", now), [Form::Events, Form::Core]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_refusal_is_new_once_per_process_and_holds_ten_minutes_in_its_namespace() {
        let (mut rights, now) = (EventRights::new(), Instant::now());
        assert!(rights.refused("a", now));
        assert!(!rights.refused("a", now) && !rights.refused("b", now));
        let at = |seconds| now + Duration::from_secs(seconds);
        assert_eq!(rights.forms("a", at(599)), []);
        assert_eq!(rights.forms("c", at(599)).len(), 2);
        assert_eq!(rights.forms("a", at(600)).len(), 2);
    }
}
