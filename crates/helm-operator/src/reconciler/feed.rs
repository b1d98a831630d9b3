//! One stream of list and watch events into the cache: mark and sweep by the list's epoch, within the stream's own scope.
//!
//! What a list does not have is gone, whether the list is the first, one after an expired watch, or empty. Nothing is judged by the
//! resource versions of the listed items: they say nothing about what the list lacks.

use std::sync::Arc;

use futures::StreamExt;
use futures::stream::BoxStream;
use kube::runtime::watcher::{self, Event};
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::stamp::Epoch;

/// What a stream covers: one namespace, or everything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Scope(Option<Arc<str>>);

impl Scope {
    /// Every namespace, and what has none.
    pub(super) const ALL: Scope = Scope(None);

    /// One namespace.
    pub(super) fn namespace(name: &str) -> Scope {
        Scope(Some(name.into()))
    }

    /// Whether objects of the namespace are in the stream.
    pub(super) fn covers(&self, namespace: &str) -> bool {
        self.0.as_deref().is_none_or(|only| only == namespace)
    }
}

/// List and watch events of one kind in one scope.
pub(super) struct Stream<T> {
    pub(super) scope: Scope,
    pub(super) events: BoxStream<'static, watcher::Result<Event<T>>>,
}

/// What became of a stream's first list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum First {
    /// It is in.
    Listed,
    /// The server does not give it to us; later it may.
    Refused,
}

/// Where the events of a stream go.
pub(super) trait Sink<T>: Send {
    /// Takes an item in that a list or an event of this epoch has.
    fn see(&self, item: T, epoch: Epoch);
    /// Takes an item's deletion in.
    fn lose(&self, item: T);
    /// Drops what the list that just ended should have had and had not.
    fn sweep(&self, scope: &Scope, list: Epoch);
    /// What is watched, for the log.
    fn what(&self) -> String;
}

/// Feeds the sink until the stream ends. `first` is told what became of the first list.
pub(super) async fn feed<T>(sink: impl Sink<T>, mut stream: Stream<T>, first: oneshot::Sender<First>) {
    let mut first = Some(first);
    let mut epoch = Epoch { number: 0, began: Instant::now() };
    let mut trouble = Trouble::default();
    while let Some(event) = stream.events.next().await {
        trouble.hear(&event, &sink.what());
        match event {
            Ok(Event::Init) => epoch = Epoch { number: epoch.number + 1, began: Instant::now() },
            Ok(Event::InitApply(item) | Event::Apply(item)) => sink.see(item, epoch),
            Ok(Event::InitDone) => {
                sink.sweep(&stream.scope, epoch);
                // Nobody may be waiting.
                _ = first.take().map(|first| first.send(First::Listed));
            }
            Ok(Event::Delete(item)) => sink.lose(item),
            Err(error) => {
                if is_refused(&error) {
                    _ = first.take().map(|first| first.send(First::Refused));
                }
            }
        }
    }
}

/// Why a stream does not come: said once, however often it is tried again, and again when the reason changes.
#[derive(Debug, Default)]
struct Trouble(Option<String>);

/// What there is to say.
#[derive(Debug, PartialEq, Eq)]
enum Saying {
    /// Nothing.
    Nothing,
    /// It does not come, for this reason.
    Trouble(String),
    /// It still does not come, for the same reason.
    Still(String),
    /// It comes again.
    Over,
}

impl Trouble {
    fn hear<T>(&mut self, event: &watcher::Result<Event<T>>, what: &str) {
        match self.judge(event) {
            Saying::Nothing => {}
            Saying::Trouble(error) => tracing::warn!(error, "Cannot watch {what}"),
            Saying::Still(error) => tracing::debug!(error, "Still cannot watch {what}"),
            Saying::Over => tracing::info!("Watching {what} again"),
        }
    }

    fn judge<T>(&mut self, event: &watcher::Result<Event<T>>) -> Saying {
        match event {
            // A list that begins may fail as the one before.
            Ok(Event::Init | Event::InitApply(_)) => Saying::Nothing,
            Ok(_) => self.0.take().map_or(Saying::Nothing, |_| Saying::Over),
            Err(error) => {
                let reason = crate::report::chain(error);
                let known = self.0.replace(reason.clone()).is_some_and(|known| known == reason);
                if known { Saying::Still(reason) } else { Saying::Trouble(reason) }
            }
        }
    }
}

/// Whether trying again helps only after someone has changed rights or kinds.
fn is_refused(error: &watcher::Error) -> bool {
    match error {
        watcher::Error::InitialListFailed(kube::Error::Api(status))
        | watcher::Error::WatchStartFailed(kube::Error::Api(status)) => matches!(status.code, 403..=405),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use futures::stream;

    use super::*;

    /// Writes down what it is told.
    #[derive(Clone, Default)]
    struct Told(Arc<Mutex<Vec<String>>>);

    impl Told {
        fn note(&self, text: String) {
            self.0.lock().unwrap().push(text);
        }
    }

    impl Sink<&'static str> for Told {
        fn see(&self, item: &'static str, epoch: Epoch) {
            self.note(format!("{item} in {}", epoch.number));
        }

        fn lose(&self, item: &'static str) {
            self.note(format!("{item} gone"));
        }

        fn sweep(&self, scope: &Scope, list: Epoch) {
            self.note(format!("sweep {} of {}", list.number, scope.0.as_deref().unwrap_or("all")));
        }

        fn what(&self) -> String {
            "tests".into()
        }
    }

    #[tokio::test]
    async fn every_list_ends_with_a_sweep_of_its_own_epoch_even_an_empty_one() {
        let expired = watcher::Error::NoResourceVersion;
        let events = [
            Ok(Event::Init),
            Ok(Event::InitApply("a")),
            Ok(Event::InitDone),
            Ok(Event::Apply("b")),
            Ok(Event::Delete("a")),
            Err(expired),
            Ok(Event::Init),
            Ok(Event::InitDone),
            Ok(Event::Apply("c")),
        ];
        let told = Told::default();
        let (first, listed) = oneshot::channel();
        feed(told.clone(), Stream { scope: Scope::namespace("ns"), events: stream::iter(events).boxed() }, first).await;
        assert_eq!(listed.await, Ok(First::Listed));
        let expected = ["a in 1", "sweep 1 of ns", "b in 1", "a gone", "sweep 2 of ns", "c in 2"];
        assert_eq!(*told.0.lock().unwrap(), expected);
    }

    #[tokio::test]
    async fn a_list_that_is_cut_off_sweeps_nothing_and_tells_nobody() {
        let events = [Ok(Event::Init), Ok(Event::InitApply("a")), Ok(Event::Init), Ok(Event::InitApply("b"))];
        let told = Told::default();
        let (first, listed) = oneshot::channel();
        feed(told.clone(), Stream { scope: Scope::ALL, events: stream::iter(events).boxed() }, first).await;
        assert!(listed.await.is_err());
        assert_eq!(*told.0.lock().unwrap(), ["a in 1", "b in 2"]);
    }

    #[tokio::test]
    async fn a_list_that_the_server_refuses_is_told_at_once_and_an_outage_is_not() {
        for (code, expected) in [(403, true), (404, true), (405, true), (500, false), (429, false)] {
            let status = kube::core::Status::failure("no", "no").with_code(code);
            let error = watcher::Error::InitialListFailed(kube::Error::Api(Box::new(status)));
            let (first, listed) = oneshot::channel();
            let events = stream::iter([Err(error)]).boxed();
            feed(Told::default(), Stream { scope: Scope::ALL, events }, first).await;
            assert_eq!(listed.await.ok(), expected.then_some(First::Refused), "{code}");
        }
    }

    #[test]
    fn a_reason_is_said_once_and_again_when_it_changes() {
        let refused = |message: &str| {
            let status = kube::core::Status::failure(message, "Forbidden").with_code(403);
            Err(watcher::Error::InitialListFailed(kube::Error::Api(Box::new(status))))
        };
        let mut trouble = Trouble::default();
        let mut said = |event: watcher::Result<Event<&'static str>>| match trouble.judge(&event) {
            Saying::Nothing => "nothing".to_owned(),
            Saying::Trouble(why) => {
                format!("trouble: {}", why.split("refused ").nth(1).unwrap_or(&why).get(..1).unwrap())
            }
            Saying::Still(_) => "still".into(),
            Saying::Over => "over".into(),
        };
        let events = [
            (Ok(Event::Init), "nothing"),
            (refused("refused a"), "trouble: a"),
            (Ok(Event::Init), "nothing"),
            (Ok(Event::InitApply("x")), "nothing"),
            (refused("refused a"), "still"),
            (refused("refused b"), "trouble: b"),
            (Ok(Event::InitDone), "over"),
            (Ok(Event::Apply("x")), "nothing"),
            (refused("refused b"), "trouble: b"),
            (Ok(Event::Delete("x")), "over"),
        ];
        for (event, expected) in events {
            assert_eq!(said(event), expected);
        }
    }

    #[test]
    fn a_scope_covers_its_namespace_or_everything() {
        assert!(Scope::ALL.covers("a") && Scope::ALL.covers(""));
        assert!(Scope::namespace("a").covers("a"));
        assert!(!Scope::namespace("a").covers("b") && !Scope::namespace("a").covers(""));
    }
}
