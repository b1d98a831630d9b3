//! Tests of one watch of a kind for several controllers: who gets which events, in which order.

use std::collections::BTreeSet;
use std::sync::atomic::AtomicBool;

use controller::runtime::reflector::{First, Stream};
use futures::StreamExt as _;
use futures::channel::mpsc::{UnboundedReceiver, UnboundedSender, unbounded};
use futures::stream::{self, BoxStream};
use kube::runtime::watcher::{self, Event};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::charts::object_watches::ObjectWatches;
use crate::charts::tests::*;
use crate::reconcile::controller_context::WatchRequest;
use crate::view::coverage::Watching;
use crate::view::informers::{Informers, Source, Subscriber};

type Events = UnboundedSender<watcher::Result<Event<Live>>>;

/// The charts of a watch, and the sender of its events.
type OpenedWatch = (Vec<String>, Events);

/// A server whose events and responses the test determines.
#[derive(Clone, Default)]
pub(super) struct Server {
    /// The watches that were started, with their charts.
    watches: Arc<Mutex<Vec<OpenedWatch>>>,
    listed: Arc<Mutex<Vec<Live>>>,
    /// Whether lists are rejected.
    refuses: Arc<AtomicBool>,
    /// Whether lists are not answered.
    fails: Arc<AtomicBool>,
    /// Whether each page of a list has one object.
    is_paged: Arc<AtomicBool>,
    /// Pages of lists wait for its permits.
    lists: Arc<OpenGate>,
}

struct OpenGate(Semaphore);

impl Default for OpenGate {
    fn default() -> OpenGate {
        OpenGate(Semaphore::new(0))
    }
}

impl Source for Server {
    fn scopes(&self, _: &Resource) -> Vec<WatchScope> {
        vec![WatchScope::ALL]
    }

    fn watch(&self, _: &Arc<Resource>, scope: &WatchScope, charts: &BTreeSet<String>) -> Stream<Live> {
        let (send, events): (Events, UnboundedReceiver<_>) = unbounded();
        self.watches.lock().unwrap().push((charts.iter().cloned().collect(), send));
        let mut events = Some(events);
        Stream::new(scope.clone(), move || events.take().unwrap().boxed())
    }

    fn list(
        &self,
        _: &Arc<Resource>,
        _: &WatchScope,
        _: &BTreeSet<String>,
    ) -> BoxStream<'static, Result<Vec<Live>, kube::Error>> {
        let server = self.clone();
        let pages = stream::try_unfold(Some(0), move |from| {
            let server = server.clone();
            async move {
                let Some(from) = from else { return Ok(None) };
                server.lists.0.acquire().await.unwrap().forget();
                let error = |code| kube::Error::Api(Box::new(kube::core::Status::failure("no", "no").with_code(code)));
                match (server.refuses.load(Ordering::Relaxed), server.fails.load(Ordering::Relaxed)) {
                    (true, _) => Err(error(404)),
                    (false, true) => Err(error(500)),
                    (false, false) => Ok(Some(server.page(from))),
                }
            }
        });
        pages.boxed()
    }
}

impl Server {
    /// Returns the objects of the page that starts here, and where the next one does.
    fn page(&self, from: usize) -> (Vec<Live>, Option<usize>) {
        let listed = self.listed.lock().unwrap();
        let most = if self.is_paged.load(Ordering::Relaxed) { 1 } else { usize::MAX };
        let next = from.saturating_add(most);
        (listed.iter().skip(from).take(most).cloned().collect(), (next < listed.len()).then_some(next))
    }

    /// Answers the next page, and all others that come, from these objects.
    fn answer(&self, names: &[&str]) {
        self.answer_with(names.iter().map(|name| of(name)).collect());
    }

    pub(super) fn answer_with(&self, objects: Vec<Live>) {
        self.fails.store(false, Ordering::Relaxed);
        *self.listed.lock().unwrap() = objects;
        self.lists.0.add_permits(1);
    }

    /// Fails the next page, and all others until there is an answer.
    pub(super) fn fail(&self) {
        self.fails.store(true, Ordering::Relaxed);
        self.lists.0.add_permits(1);
    }

    /// Refuses the next page, and all others.
    pub(super) fn refuse_lists(&self) {
        self.refuses.store(true, Ordering::Relaxed);
        self.lists.0.add_permits(1);
    }

    pub(super) fn send(&self, watch: usize, event: Event<Live>) {
        // An abandoned watch has no receiver.
        _ = self.watches.lock().unwrap()[watch].1.unbounded_send(Ok(event));
    }

    /// Refuses the first list of a watch.
    fn refuse(&self, watch: usize) {
        let status = kube::core::Status::failure("no", "Forbidden").with_code(403);
        let error = watcher::Error::InitialListFailed(kube::Error::Api(Box::new(status)));
        self.watches.lock().unwrap()[watch].1.unbounded_send(Err(error)).unwrap();
    }

    fn charts(&self) -> Vec<String> {
        self.watches.lock().unwrap().iter().map(|(charts, _)| charts.join(" ")).collect()
    }
}

/// A controller that records what it gets.
#[derive(Default)]
pub(super) struct Seen(Mutex<Vec<String>>);

impl EventHandler<Arc<Live>> for Seen {
    fn changed(&self, live: Arc<Live>, epoch: Epoch) {
        self.note(format!("{} in {}", name(&live), number(epoch)));
    }

    fn deleted(&self, live: Arc<Live>) {
        self.note(format!("{} gone", name(&live)));
    }

    fn sweep(&self, _: &WatchScope, list: Epoch) {
        self.note(format!("sweep {}", number(list)));
    }

    fn lost(&self, _: &WatchScope) {
        self.note("lost".into());
    }

    fn description(&self) -> String {
        "tests".into()
    }
}

impl Seen {
    fn note(&self, text: String) {
        self.0.lock().unwrap().push(text);
    }

    pub(super) async fn until(&self, last: &str) -> Vec<String> {
        let is_there = async {
            while self.0.lock().unwrap().last().is_none_or(|seen| seen != last) {
                tokio::time::sleep(SECOND / 10).await;
            }
        };
        let all = || self.0.lock().unwrap().clone();
        tokio::time::timeout(60 * SECOND, is_there).await.unwrap_or_else(|_| panic!("{last}: {:?}", all()));
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

fn name(live: &Live) -> &str {
    live.metadata.name.as_deref().unwrap()
}

/// Returns the number of a list. Those that controllers make themselves count down from the largest number.
fn number(list: Epoch) -> String {
    match u64::MAX - list.number {
        own @ ..=999 => format!("own {own}"),
        _ => list.number.to_string(),
    }
}

fn of(name: &str) -> Live {
    serde_json::from_value(json!({"metadata": {"name": name, "namespace": "ns"}})).unwrap()
}

pub(super) struct Process {
    pub(super) server: Server,
    pub(super) kinds: Arc<Informers>,
}

impl Process {
    /// Creates a process that serves the charts `a` and `b`.
    pub(super) fn new() -> Process {
        let server = Server::default();
        let kinds = Arc::new(Informers::new(server.clone()));
        kinds.announce("a");
        kinds.announce("b");
        Process { server, kinds }
    }

    /// Starts a controller with objects of these charts.
    fn subscribe(&self, charts: &str) -> (Arc<Seen>, tokio::task::JoinHandle<First>) {
        let seen = Arc::new(Seen::default());
        let subscriber: Subscriber = seen.clone();
        let charts = charts.split(' ').map(str::to_owned).collect();
        let listed = self.kinds.subscribe(&Arc::new(config_maps()), &charts, &subscriber);
        (seen, tokio::spawn(listed))
    }

    /// Creates a controller that has received the first list, which contains the object `one`.
    pub(super) async fn first(&self) -> Arc<Seen> {
        let (seen, listed) = self.subscribe("a");
        for event in [Event::Init, Event::InitApply(of("one")), Event::InitDone] {
            self.server.send(0, event);
        }
        assert_eq!(listed.await.unwrap(), First::Listed);
        assert_eq!(seen.until("sweep 1").await, ["one in 1", "sweep 1"]);
        seen
    }
}

#[tokio::test(start_paused = true)]
async fn what_happens_while_a_list_fails_does_not_pile_up() {
    let process = Process::new();
    let first = process.first().await;
    process.server.fail();
    let (second, listed) = process.subscribe("b");
    for name in ["two", "three", "four"] {
        process.server.send(0, Event::Apply(of(name)));
    }
    first.until("four in 1").await;
    process.server.answer(&["four"]);
    assert_eq!(listed.await.unwrap(), First::Listed);
    let seen = second.until("sweep own 2").await;
    assert_eq!(seen, ["four in own 2", "sweep own 2"], "the list has what happened before it");
}

#[tokio::test(start_paused = true)]
async fn controllers_share_one_watch_and_one_that_joins_lists_what_exists_first() {
    let process = Process::new();
    let first = process.first().await;
    let (second, listed) = process.subscribe("b");
    process.server.send(0, Event::Apply(of("two")));
    process.server.send(0, Event::Delete(of("one")));
    assert_eq!(first.until("one gone").await, ["two in 1", "one gone"]);
    assert!(second.0.lock().unwrap().is_empty(), "its own list is not complete");
    process.server.answer(&["one", "two"]);
    assert_eq!(listed.await.unwrap(), First::Listed);
    let seen = second.until("one gone").await;
    let expected = ["one in own 1", "two in own 1", "sweep own 1", "two in 1", "one gone"];
    assert_eq!(seen, expected, "events come after the list");
    process.server.send(0, Event::Apply(of("three")));
    assert_eq!((first.until("three in 1").await.len(), second.until("three in 1").await.len()), (1, 1));
    assert_eq!(process.server.charts(), ["a b"]);
}

#[tokio::test(start_paused = true)]
async fn a_list_that_ends_while_another_controller_joins_is_seen_by_both() {
    let process = Process::new();
    let first = process.first().await;
    let (second, listed) = process.subscribe("b");
    for event in [Event::Init, Event::InitApply(of("two")), Event::InitDone] {
        process.server.send(0, event);
    }
    assert_eq!(first.until("sweep 2").await, ["two in 2", "sweep 2"]);
    // This list began before the watch's, and `gone` was deleted in between.
    process.server.answer(&["gone"]);
    while process.server.lists.0.available_permits() > 0 {
        tokio::task::yield_now().await;
    }
    process.server.answer(&["two"]);
    assert_eq!(listed.await.unwrap(), First::Listed);
    let seen = second.until("sweep own 2").await;
    assert_eq!(seen, ["two in own 2", "sweep own 2"], "an object that is gone is never seen");
}

#[tokio::test(start_paused = true)]
async fn a_page_of_a_list_is_seen_before_the_next_one_is_read() {
    let process = Process::new();
    process.first().await;
    process.server.is_paged.store(true, Ordering::Relaxed);
    process.server.answer(&["one", "two", "three"]);
    let (second, listed) = process.subscribe("b");
    assert_eq!(second.until("one in own 1").await, ["one in own 1"]);
    assert!(!listed.is_finished(), "two pages are left");
    process.server.lists.0.add_permits(2);
    assert_eq!(listed.await.unwrap(), First::Listed);
    assert_eq!(second.until("sweep own 1").await, ["two in own 1", "three in own 1", "sweep own 1"]);
}

#[tokio::test(start_paused = true)]
async fn an_object_that_goes_after_a_list_failed_at_a_late_page_does_not_survive_the_next_one() {
    let process = Process::new();
    let first = process.first().await;
    process.server.is_paged.store(true, Ordering::Relaxed);
    process.server.answer(&["gone", "stays"]);
    let (second, listed) = process.subscribe("b");
    assert_eq!(second.until("gone in own 1").await, ["gone in own 1"]);
    process.server.fail();
    process.server.send(0, Event::Delete(of("gone")));
    first.until("gone gone").await;
    process.server.answer(&["stays"]);
    assert_eq!(listed.await.unwrap(), First::Listed);
    let seen = second.until("sweep own 2").await;
    assert_eq!(seen, ["stays in own 2", "sweep own 2"], "only what is in a sweep's own list stays");
}

#[tokio::test(start_paused = true)]
async fn no_two_lists_that_controllers_make_have_the_same_number() {
    let process = Process::new();
    process.first().await;
    for (charts, sweep) in [("a", "sweep own 1"), ("b", "sweep own 2")] {
        process.server.answer(&["one"]);
        let (seen, listed) = process.subscribe(charts);
        assert_eq!(listed.await.unwrap(), First::Listed);
        assert_eq!(seen.until(sweep).await.len(), 2);
    }
}

/// Otherwise, the end of the watch's list would remove the objects that only the controller's own list has.
#[tokio::test(start_paused = true)]
async fn a_controller_that_joins_during_a_list_does_not_see_its_end() {
    let process = Process::new();
    let first = process.first().await;
    process.server.send(0, Event::Init);
    process.server.send(0, Event::InitApply(of("one")));
    first.until("one in 2").await;
    let (second, listed) = process.subscribe("b");
    process.server.answer(&["one", "two"]);
    assert_eq!(listed.await.unwrap(), First::Listed);
    second.until("sweep own 1").await;
    process.server.send(0, Event::InitApply(of("two")));
    process.server.send(0, Event::InitDone);
    assert_eq!(first.until("sweep 2").await, ["two in 2", "sweep 2"]);
    assert_eq!(second.until("two in 2").await, ["two in 2"]);
    process.server.send(0, Event::Init);
    process.server.send(0, Event::InitDone);
    assert_eq!(second.until("sweep 3").await, ["sweep 3"], "it has seen all of the next one");
}

#[tokio::test(start_paused = true)]
async fn a_controller_that_gives_its_subscription_up_sees_no_more_of_its_list() {
    let process = Process::new();
    process.first().await;
    process.server.is_paged.store(true, Ordering::Relaxed);
    process.server.answer(&["one", "two"]);
    let (second, listed) = process.subscribe("b");
    second.until("one in own 1").await;
    let ended = Arc::downgrade(&second);
    drop(second);
    assert_eq!(ended.strong_count(), 0, "the list does not keep it");
    process.server.lists.0.add_permits(1);
    assert_eq!(listed.await.unwrap(), First::Listed, "it ends");
}

#[tokio::test(start_paused = true)]
async fn an_unannounced_chart_widens_the_watch_and_lists_are_numbered_on() {
    let process = Process::new();
    let first = process.first().await;
    let (second, listed) = process.subscribe("c");
    assert_eq!(process.server.charts(), ["a b", "a b c"]);
    process.server.send(0, Event::Apply(of("late")));
    for event in [Event::Init, Event::InitApply(of("two")), Event::InitDone] {
        process.server.send(1, event);
    }
    assert_eq!(listed.await.unwrap(), First::Listed);
    assert_eq!(first.until("sweep 2").await, ["two in 2", "sweep 2"], "the first watch no longer counts");
    assert_eq!(second.until("sweep 2").await, ["two in 2", "sweep 2"]);
}

#[tokio::test(start_paused = true)]
async fn a_chart_that_only_releases_have_widens_the_watch() {
    let process = Process::new();
    process.first().await;
    let (second, listed) = process.subscribe("b old");
    assert_eq!(process.server.charts(), ["a b", "a b old"]);
    for event in [Event::Init, Event::InitApply(of("two")), Event::InitDone] {
        process.server.send(1, event);
    }
    assert_eq!(listed.await.unwrap(), First::Listed);
    assert_eq!(second.until("sweep 2").await, ["two in 2", "sweep 2"]);
}

#[tokio::test(start_paused = true)]
async fn a_controller_whose_first_list_is_cut_off_by_a_restart_waits_for_that_of_the_new_watch() {
    let process = Process::new();
    let (first, listed) = process.subscribe("a");
    let _second = process.subscribe("b old");
    assert_eq!(process.server.charts(), ["a b", "a b old"]);
    for event in [Event::Init, Event::InitApply(of("one")), Event::InitDone] {
        process.server.send(1, event);
    }
    assert_eq!(listed.await.unwrap(), First::Listed);
    assert_eq!(first.until("sweep 1").await, ["one in 1", "sweep 1"]);
    let _third = process.subscribe("a");
    assert_eq!(process.server.charts().len(), 2, "it lists its own objects, and the watch goes on");
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_was_refused_counts_as_listed_once_the_server_lists_it() {
    let (world, process) = (World::unwatched(World::new(spec()).server, |_| {}), Process::new());
    let (kind, mut tasks) = (Arc::new(config_maps()), JoinSet::new());
    let mut watches = ObjectWatches::new(&world.shared, process.kinds.clone());
    world.shared.cache.start_kind(&kind);
    watches.cover(WatchRequest::Kind(kind), &mut tasks);
    process.server.refuse(0);
    tasks.join_next().await.unwrap().unwrap();
    let is_all = |state: Watching| world.shared.cache.watched().iter().all(|(_, known)| *known == state);
    assert!(is_all(Watching::Refused));
    process.server.send(0, Event::Init);
    process.server.send(0, Event::InitDone);
    let listed = async {
        while !is_all(Watching::Listed) {
            tokio::time::sleep(SECOND / 10).await;
        }
    };
    tokio::time::timeout(60 * SECOND, listed).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_refused_kind_is_tried_again_by_the_next_controller() {
    let process = Process::new();
    let (first, listed) = process.subscribe("a");
    process.server.refuse(0);
    assert_eq!(listed.await.unwrap(), First::Refused);
    assert_eq!(first.until("lost").await, ["lost"]);
    let (second, listed) = process.subscribe("b");
    process.server.send(1, Event::Init);
    process.server.send(1, Event::InitDone);
    assert_eq!(listed.await.unwrap(), First::Listed);
    assert_eq!(second.until("sweep 1").await, ["sweep 1"]);
}

#[tokio::test(start_paused = true)]
async fn every_controller_hears_of_a_watch_that_is_refused_later() {
    let process = Process::new();
    let first = process.first().await;
    let (second, listed) = process.subscribe("b");
    process.server.lists.0.add_permits(1);
    assert_eq!(listed.await.unwrap(), First::Listed);
    let status = kube::core::Status::failure("404 page not found", "").with_code(404);
    let error = watcher::Error::WatchStartFailed(kube::Error::Api(Box::new(status)));
    process.server.watches.lock().unwrap()[0].1.unbounded_send(Err(error)).unwrap();
    assert!(first.until("lost").await.contains(&"lost".to_owned()) && second.until("lost").await.len() > 1);
}

#[tokio::test(start_paused = true)]
async fn a_controller_whose_list_is_refused_knows_all_after_a_list_of_the_watch_which_begins_again() {
    let process = Process::new();
    let first = process.first().await;
    process.server.send(0, Event::Init);
    process.server.send(0, Event::InitApply(of("one")));
    assert_eq!(first.until("one in 2").await, ["one in 2"]);
    let (second, listed) = process.subscribe("b");
    process.server.send(0, Event::InitDone);
    process.server.send(0, Event::Apply(of("two")));
    first.until("two in 2").await;
    process.server.refuse_lists();
    assert_eq!(second.until("two in 2").await, ["two in 2"], "the list that ended began before it joined");
    assert_eq!(process.server.charts(), ["a b"; 2]);
    for event in [Event::Init, Event::InitApply(of("one")), Event::InitDone] {
        process.server.send(1, event);
    }
    assert_eq!(listed.await.unwrap(), First::Listed);
    assert_eq!(second.until("sweep 3").await, ["one in 3", "sweep 3"]);
}

/// Otherwise, many controllers that join at once would keep each other's lists from ending.
#[tokio::test(start_paused = true)]
async fn controllers_whose_lists_are_refused_together_begin_the_watch_again_once() {
    let process = Process::new();
    process.first().await;
    let ((second, of_second), (third, of_third)) = (process.subscribe("a"), process.subscribe("b"));
    process.server.refuse_lists();
    process.server.refuse_lists();
    let refused = async {
        while process.server.lists.0.available_permits() > 0 {
            tokio::time::sleep(SECOND / 10).await;
        }
    };
    tokio::time::timeout(60 * SECOND, refused).await.unwrap();
    assert_eq!(process.server.charts(), ["a b"; 2]);
    for event in [Event::Init, Event::InitApply(of("one")), Event::InitDone] {
        process.server.send(1, event);
    }
    for (seen, listed) in [(second, of_second), (third, of_third)] {
        assert_eq!(listed.await.unwrap(), First::Listed);
        assert_eq!(seen.until("sweep 2").await, ["one in 2", "sweep 2"]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_controller_that_has_ended_is_dropped_even_in_the_middle_of_its_list() {
    let process = Process::new();
    let first = process.first().await;
    let (second, listed) = process.subscribe("b");
    listed.abort();
    assert!(listed.await.unwrap_err().is_cancelled());
    let ended = Arc::downgrade(&second);
    drop(second);
    process.server.send(0, Event::Apply(of("two")));
    assert_eq!(first.until("two in 1").await, ["two in 1"]);
    assert_eq!(ended.strong_count(), 0);
}
