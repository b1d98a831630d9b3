//! Feeds one stream of list and watch events into a cache, as a reflector: mark and sweep by the list's epoch, within
//! the stream's scope.
//!
//! A panic, in the stream or in the handler, ends neither the task nor the process: the stream is reopened, and lists
//! again.
//!
//! An item that a list does not contain is deleted, whether the list is the first, one after an expired watch, or
//! empty. The resource versions of listed items do not matter, because they do not show what the list does not contain.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures::future::ready;
use futures::stream::BoxStream;
use futures::{FutureExt as _, StreamExt as _};
use kube::core::{ApiResource, DynamicResourceScope};
use kube::runtime::watcher::{self, Event};
use kube::{Api, Client, Resource};
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::freshness::Epoch;
use super::last_error::{LastError, Transition};
use super::readiness::Requirement;
use super::refusals::Refusals;
use crate::metrics::WATCH_PANICS;

/// The objects that a stream covers: one namespace, or everything.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct WatchScope(Option<Arc<str>>);

impl WatchScope {
    /// Returns the only namespace; `None` for everything.
    pub fn only(&self) -> Option<&str> {
        self.0.as_deref()
    }

    /// All namespaces, and cluster-scoped objects.
    pub const ALL: WatchScope = WatchScope(None);

    /// Returns the scope of one namespace.
    pub fn namespace(name: &str) -> WatchScope {
        WatchScope(Some(name.into()))
    }

    /// Describes a kind in this scope for readers: `release records in namespace demo`.
    pub fn of(&self, kind: &str) -> String {
        match self.only() {
            Some(namespace) => format!("{kind} in namespace {namespace}"),
            None => format!("{kind} in the whole cluster"),
        }
    }

    /// Returns the API of a kind's objects in this scope.
    pub fn api<K>(&self, client: &Client, kind: &ApiResource) -> Api<K>
    where
        K: Resource<Scope = DynamicResourceScope, DynamicType = ApiResource>,
    {
        match self.only() {
            Some(namespace) => Api::namespaced_with(client.clone(), namespace, kind),
            None => Api::all_with(client.clone(), kind),
        }
    }

    /// Returns whether the stream covers objects in the namespace.
    pub fn covers(&self, namespace: &str) -> bool {
        self.0.as_deref().is_none_or(|only| only == namespace)
    }
}

/// List and watch events, starting with the first list.
type Events<T> = BoxStream<'static, watcher::Result<Event<T>>>;

/// List and watch events of one kind in one scope.
pub struct Stream<T> {
    /// The objects that it covers.
    pub scope: WatchScope,
    open: Box<dyn FnMut() -> Events<T> + Send>,
    /// The requirement that the first list meets.
    requirement: Option<Requirement>,
}

impl<T> Stream<T> {
    /// Creates a stream without a requirement. `open` starts a new list and watch each time.
    pub fn new(scope: WatchScope, open: impl FnMut() -> Events<T> + Send + 'static) -> Stream<T> {
        Stream { scope, open: Box::new(open), requirement: None }
    }

    /// Sets the requirement that the first list meets.
    pub fn required(self, requirement: Requirement) -> Stream<T> {
        Stream { requirement: Some(requirement), ..self }
    }
}

/// The result of a stream's first list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum First {
    /// The list is complete.
    Listed,
    /// The server refuses the list, which may change later.
    Refused,
}

/// Handles a stream's events.
pub trait EventHandler<T>: Send {
    /// Stores an item from a list or an event of this epoch.
    fn changed(&self, item: T, epoch: Epoch);
    /// Handles an item's deletion.
    fn deleted(&self, item: T);
    /// Removes the items of the scope that the completed list did not contain.
    fn sweep(&self, scope: &WatchScope, list: Epoch);
    /// Records that the server refuses to watch the scope. Until the next list ends, items that are missing may exist.
    fn lost(&self, _scope: &WatchScope) {}
    /// Returns the kind of item, for the log.
    fn description(&self) -> String;
}

impl<T, H: EventHandler<T> + Sync> EventHandler<T> for Arc<H> {
    fn changed(&self, item: T, epoch: Epoch) {
        H::changed(self, item, epoch);
    }

    fn deleted(&self, item: T) {
        H::deleted(self, item);
    }

    fn sweep(&self, scope: &WatchScope, list: Epoch) {
        H::sweep(self, scope, list);
    }

    fn lost(&self, scope: &WatchScope) {
        H::lost(self, scope);
    }

    fn description(&self) -> String {
        H::description(self)
    }
}

/// Passes events to the handler until the stream ends. `first` receives the result of the first list.
pub async fn run<T>(handler: impl EventHandler<T>, stream: Stream<T>, first: oneshot::Sender<First>) {
    let Stream { scope, open, requirement } = stream;
    let epoch = Epoch { number: 0, began: Instant::now(), is_list: false };
    let (first, last_error) = (Some(first), LastError::default());
    let mut reflector = Reflector { handler, open, scope, requirement, epoch, first, last_error };
    let mut panics = Refusals::default();
    loop {
        let opened = Instant::now();
        if AssertUnwindSafe(reflector.pass()).catch_unwind().await.is_ok() {
            return;
        }
        reflector.panicked();
        panics.add(opened.elapsed());
        tokio::time::sleep(panics.pause()).await;
    }
}

/// A handler, and the state of its stream.
struct Reflector<T, H> {
    handler: H,
    open: Box<dyn FnMut() -> Events<T> + Send>,
    scope: WatchScope,
    requirement: Option<Requirement>,
    epoch: Epoch,
    first: Option<oneshot::Sender<First>>,
    last_error: LastError,
}

impl<T, H: EventHandler<T>> Reflector<T, H> {
    /// Passes events on until the stream ends.
    async fn pass(&mut self) {
        let mut events = (self.open)();
        while let Some(event) = events.next().await {
            log_change(&mut self.last_error, &event, &self.handler.description(), self.requirement.as_ref());
            follow(self.requirement.as_ref(), &event);
            self.take(event);
        }
    }

    fn take(&mut self, event: watcher::Result<Event<T>>) {
        match event {
            Ok(Event::Init) => {
                self.epoch = Epoch { number: self.epoch.number + 1, began: Instant::now(), is_list: true };
            }
            Ok(Event::InitApply(item) | Event::Apply(item)) => self.handler.changed(item, self.epoch),
            Ok(Event::InitDone) => {
                self.epoch.is_list = false;
                self.handler.sweep(&self.scope, self.epoch);
                self.listed(First::Listed);
            }
            Ok(Event::Delete(item)) => self.handler.deleted(item),
            Err(error) if is_refused(&error) => self.lose(),
            Err(_) => {}
        }
    }

    fn lose(&mut self) {
        self.handler.lost(&self.scope);
        self.listed(First::Refused);
    }

    /// Sends the result of the first list. The receiver may have been dropped.
    fn listed(&mut self, result: First) {
        _ = self.first.take().map(|first| first.send(result));
    }

    /// Records that what was seen last may be incomplete. Until the next list ends, items that are missing may exist.
    fn panicked(&mut self) {
        WATCH_PANICS.inc();
        let what = self.handler.description();
        tracing::error!("Watching {what} panicked, which is a bug; it is listed again");
        if std::panic::catch_unwind(AssertUnwindSafe(|| self.lose())).is_err() {
            tracing::error!("Giving up what was known of {what} panicked, too");
        }
    }
}

/// Records that the first list is complete, or why it is not.
fn follow<T>(requirement: Option<&Requirement>, event: &watcher::Result<Event<T>>) {
    match (requirement, event) {
        (Some(requirement), Ok(Event::InitDone)) => requirement.meet(),
        (Some(requirement), Err(error)) => requirement.fails(&crate::report::chain(error)),
        _ => {}
    }
}

/// Logs why a stream fails, once per reason and again at intervals, no matter how often the watch retries. While a
/// requirement is unmet, the readiness repeats the reason.
fn log_change<T>(
    last: &mut LastError,
    event: &watcher::Result<Event<T>>,
    what: &str,
    requirement: Option<&Requirement>,
) {
    match change(last, event) {
        Transition::Nothing => {}
        Transition::Failed(error) => tracing::warn!(error, "Cannot watch {what}"),
        Transition::Reminder(error) if requirement.is_none_or(Requirement::is_met) => {
            tracing::warn!(error, "Still cannot watch {what}");
        }
        Transition::StillFailing(error) | Transition::Reminder(error) => {
            tracing::debug!(error, "Still cannot watch {what}")
        }
        Transition::Recovered => tracing::info!("Watching {what} again"),
    }
}

fn change<T>(last: &mut LastError, event: &watcher::Result<Event<T>>) -> Transition {
    match event {
        // A list that has only started may fail like the previous one.
        Ok(Event::Init | Event::InitApply(_)) => Transition::Nothing,
        Ok(_) => last.recover(),
        Err(error) if is_expired(error) => Transition::Nothing,
        Err(error) => last.fail(crate::report::chain(error), Instant::now()),
    }
}

/// Returns whether the server no longer has the events since the last one seen. A list follows, as after any long
/// pause.
pub fn is_expired(error: &watcher::Error) -> bool {
    matches!(error, watcher::Error::WatchError(status) if status.code == 410) || is_unknown_version(error)
}

/// Returns whether the server cannot start a watch at the last seen version: it no longer has the events since then, or
/// it was restored from a backup and does not know the version yet.
fn is_unknown_version(error: &watcher::Error) -> bool {
    let watcher::Error::WatchStartFailed(kube::Error::Api(status)) = error else { return false };
    let causes = status.details.iter().flat_map(|details| &details.causes);
    status.code == 410 || causes.into_iter().any(|cause| cause.reason == "ResourceVersionTooLarge")
}

/// Returns whether a retry helps only once someone has changed permissions or kinds.
pub fn is_refused(error: &watcher::Error) -> bool {
    match error {
        watcher::Error::InitialListFailed(kube::Error::Api(status))
        | watcher::Error::WatchStartFailed(kube::Error::Api(status)) => is_refusal(status),
        _ => false,
    }
}

/// Returns whether a list was refused because permissions or its kind are missing.
pub fn is_refusal(status: &kube::core::Status) -> bool {
    matches!(status.code, 403..=405)
}

/// Maps each event's object; drops the events of objects that map to nothing.
pub fn mapped<A: 'static, B: Send + 'static>(
    events: impl futures::Stream<Item = watcher::Result<Event<A>>> + Send + 'static,
    read: impl Fn(A) -> Option<B> + Send + 'static,
) -> BoxStream<'static, watcher::Result<Event<B>>> {
    events.filter_map(move |event| ready(reduce(event, &read))).boxed()
}

fn reduce<A, B>(
    event: watcher::Result<Event<A>>,
    reduce: impl Fn(A) -> Option<B>,
) -> Option<watcher::Result<Event<B>>> {
    match event {
        Ok(Event::Init) => Some(Ok(Event::Init)),
        Ok(Event::InitDone) => Some(Ok(Event::InitDone)),
        Ok(Event::InitApply(object)) => reduce(object).map(|o| Ok(Event::InitApply(o))),
        Ok(Event::Apply(object)) => reduce(object).map(|o| Ok(Event::Apply(o))),
        Ok(Event::Delete(object)) => reduce(object).map(|o| Ok(Event::Delete(o))),
        Err(error) => Some(Err(error)),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use futures::stream;

    use super::*;

    /// Returns a stream of these events, which ends.
    fn once(
        scope: WatchScope,
        events: impl IntoIterator<Item = watcher::Result<Event<&'static str>>>,
    ) -> Stream<&'static str> {
        let mut events = Some(events.into_iter().collect::<Vec<_>>());
        Stream::new(scope, move || stream::iter(events.take().unwrap_or_default()).boxed())
    }

    /// A handler that records every call.
    #[derive(Clone, Default)]
    struct Calls(Arc<Mutex<Vec<String>>>);

    impl Calls {
        fn note(&self, text: String) {
            self.0.lock().unwrap().push(text);
        }
    }

    impl EventHandler<&'static str> for Calls {
        fn changed(&self, item: &'static str, epoch: Epoch) {
            assert_ne!(item, "bomb", "a bug");
            self.note(format!("{item} in {}", epoch.number));
        }

        fn deleted(&self, item: &'static str) {
            self.note(format!("{item} gone"));
        }

        fn sweep(&self, scope: &WatchScope, list: Epoch) {
            self.note(format!("sweep {} of {}", list.number, scope.0.as_deref().unwrap_or("all")));
        }

        fn lost(&self, scope: &WatchScope) {
            self.note(format!("lost {}", scope.0.as_deref().unwrap_or("all")));
        }

        fn description(&self) -> String {
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
        let calls = Calls::default();
        let (first, listed) = oneshot::channel();
        run(calls.clone(), once(WatchScope::namespace("ns"), events), first).await;
        assert_eq!(listed.await, Ok(First::Listed));
        let expected = ["a in 1", "sweep 1 of ns", "b in 1", "a gone", "sweep 2 of ns", "c in 2"];
        assert_eq!(*calls.0.lock().unwrap(), expected);
    }

    #[tokio::test]
    async fn an_interrupted_list_sweeps_nothing_and_reports_nothing() {
        let events = [Ok(Event::Init), Ok(Event::InitApply("a")), Ok(Event::Init), Ok(Event::InitApply("b"))];
        let calls = Calls::default();
        let (first, listed) = oneshot::channel();
        run(calls.clone(), once(WatchScope::ALL, events), first).await;
        assert!(listed.await.is_err());
        assert_eq!(*calls.0.lock().unwrap(), ["a in 1", "b in 2"]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_watch_that_panics_lists_again_and_ends_nothing() {
        let list = |items: &[&'static str]| {
            let items = items.iter().map(|item| Ok(Event::InitApply(*item)));
            std::iter::once(Ok(Event::Init)).chain(items).chain([Ok(Event::InitDone)]).collect::<Vec<_>>()
        };
        let panics_in_the_stream = || stream::once(async { unreachable!("a bug") }).boxed();
        let mut runs = vec![
            stream::iter(list(&["a"]).into_iter().chain([Ok(Event::Apply("bomb"))])).boxed(),
            panics_in_the_stream(),
            stream::iter(list(&["b"])).boxed(),
        ];
        let open = move || runs.remove(0);
        let (calls, before) = (Calls::default(), WATCH_PANICS.get());
        let (first, listed) = oneshot::channel();
        let began = Instant::now();
        run(calls.clone(), Stream::new(WatchScope::ALL, open), first).await;
        assert_eq!(listed.await, Ok(First::Listed));
        let expected = ["a in 1", "sweep 1 of all", "lost all", "lost all", "b in 2", "sweep 2 of all"];
        assert_eq!(*calls.0.lock().unwrap(), expected);
        assert!(WATCH_PANICS.get() >= before + 2);
        assert!(began.elapsed() >= std::time::Duration::from_secs(1), "not at once: {:?}", began.elapsed());
    }

    #[tokio::test]
    async fn a_refused_list_is_reported_at_once_and_an_outage_is_not() {
        for (code, expected) in [(403, true), (404, true), (405, true), (500, false), (429, false)] {
            let status = kube::core::Status::failure("no", "no").with_code(code);
            let error = watcher::Error::InitialListFailed(kube::Error::Api(Box::new(status)));
            let (first, listed) = oneshot::channel();
            let calls = Calls::default();
            run(calls.clone(), once(WatchScope::ALL, [Err(error)]), first).await;
            assert_eq!(listed.await.ok(), expected.then_some(First::Refused), "{code}");
            assert_eq!(*calls.0.lock().unwrap() == ["lost all"], expected, "{code}");
        }
    }

    #[test]
    fn a_reason_is_logged_once_until_it_changes() {
        let refused = |message: &str| {
            let status = kube::core::Status::failure(message, "Forbidden").with_code(403);
            Err(watcher::Error::InitialListFailed(kube::Error::Api(Box::new(status))))
        };
        let expired = || Box::new(kube::core::Status::failure("too old resource version", "Expired").with_code(410));
        let mut last_error = LastError::default();
        let mut said = |event: watcher::Result<Event<&'static str>>| match change(&mut last_error, &event) {
            Transition::Nothing => "nothing".to_owned(),
            Transition::Failed(why) => {
                format!("failed: {}", why.split("refused ").nth(1).unwrap_or(&why).get(..1).unwrap())
            }
            Transition::StillFailing(_) | Transition::Reminder(_) => "still".into(),
            Transition::Recovered => "over".into(),
        };
        let events = [
            (Ok(Event::Init), "nothing"),
            (refused("refused a"), "failed: a"),
            (Ok(Event::Init), "nothing"),
            (Ok(Event::InitApply("x")), "nothing"),
            (refused("refused a"), "still"),
            (refused("refused b"), "failed: b"),
            (Ok(Event::InitDone), "over"),
            (Ok(Event::Apply("x")), "nothing"),
            (refused("refused b"), "failed: b"),
            (Err(watcher::Error::WatchError(expired())), "nothing"),
            (Ok(Event::Delete("x")), "over"),
        ];
        for (event, expected) in events {
            assert_eq!(said(event), expected);
        }
    }

    #[test]
    fn a_scope_covers_its_namespace_or_everything() {
        assert!(WatchScope::ALL.covers("a") && WatchScope::ALL.covers(""));
        assert!(WatchScope::namespace("a").covers("a"));
        assert!(!WatchScope::namespace("a").covers("b") && !WatchScope::namespace("a").covers(""));
    }

    #[test]
    fn events_are_mapped_except_those_of_objects_that_map_to_nothing() {
        let even = |n: u32| n.is_multiple_of(2).then(|| n.to_string());
        let mapped = |event| reduce(event, even).map(|event| format!("{event:?}"));
        for (event, expected) in [
            (Event::Init, Some("Ok(Init)")),
            (Event::InitDone, Some("Ok(InitDone)")),
            (Event::InitApply(2), Some("Ok(InitApply(\"2\"))")),
            (Event::Apply(4), Some("Ok(Apply(\"4\"))")),
            (Event::Delete(6), Some("Ok(Delete(\"6\"))")),
            (Event::InitApply(1), None),
            (Event::Apply(1), None),
            (Event::Delete(1), None),
        ] {
            assert_eq!(mapped(Ok(event)).as_deref(), expected);
        }
        assert_eq!(mapped(Err(watcher::Error::NoResourceVersion)).as_deref(), Some("Err(NoResourceVersion)"));
    }
}
