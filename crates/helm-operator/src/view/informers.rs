//! Shares one watch per kind of dependent object in the whole process, no matter how many charts have objects of that
//! kind.
//!
//! The watch selects the objects of every chart that the process serves, or that a release was deployed with. A
//! controller that joins a running watch lists its own objects, and then receives the events that arrived in the
//! meantime. The watch outlives controllers and does not keep them alive: a controller ends when another version of its
//! chart is fetched.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, Weak};

use controller::runtime::backoff;
use controller::runtime::freshness::Epoch;
use controller::runtime::reflector::{self, EventHandler, First, Stream, WatchScope};
use futures::StreamExt as _;
use futures::future::{BoxFuture, join_all};
use futures::stream::BoxStream;
use helm_release::kube::{Live, Resource};
use outside::sync::lock;
use tokio::sync::{oneshot, watch};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::Instant;

use super::coverage::{KindKey, kind_key};

/// The source of a kind's objects.
pub(crate) trait Source: Send + Sync {
    /// Returns a scope per namespace to watch; [`WatchScope::ALL`] for cluster-scoped kinds.
    fn scopes(&self, kind: &Resource) -> Vec<WatchScope>;
    /// Watches a kind's objects of these charts in a scope.
    fn watch(&self, kind: &Arc<Resource>, scope: &WatchScope, charts: &BTreeSet<String>) -> Stream<Live>;
    /// Lists a kind's objects of these charts in a scope. A page is read when it is polled.
    fn list(
        &self,
        kind: &Arc<Resource>,
        scope: &WatchScope,
        charts: &BTreeSet<String>,
    ) -> BoxStream<'static, Result<Vec<Live>, kube::Error>>;
}

/// A receiver of a kind's objects. Its owner drops it to end the subscription.
pub(crate) type Subscriber = Arc<dyn EventHandler<Arc<Live>> + Sync>;

/// A subscriber, as long as its owner keeps it.
type WeakSubscriber = Weak<dyn EventHandler<Arc<Live>> + Sync>;

/// The watched kinds of the process.
pub(crate) struct Informers {
    source: Box<dyn Source>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The names of the charts that the process serves, or that releases were deployed with.
    charts: BTreeSet<String>,
    watched: HashMap<KindKey, Vec<Arc<SharedWatch>>>,
    /// Dropped, and thereby stopped, with the process's last controller.
    tasks: JoinSet<()>,
}

/// The watch of one kind in one scope.
struct SharedWatch {
    kind: Arc<Resource>,
    scope: WatchScope,
    state: Mutex<Fanout>,
}

#[derive(Default)]
struct Fanout {
    /// The charts whose objects the running watch selects.
    charts: BTreeSet<String>,
    members: Vec<Member>,
    /// The number of watches so far. Events of earlier ones no longer count.
    run: u64,
    /// The number of lists that members made themselves.
    own_lists: u64,
    /// Number of the current list; keeps increasing across watch restarts.
    epoch: u64,
    /// What it was when the running watch began.
    before: u64,
    task: Option<AbortHandle>,
    /// How the running watch's last list ended; `None` before its first one.
    listed: watch::Sender<Option<First>>,
}

struct Member {
    subscriber: WeakSubscriber,
    /// The events since it joined, until its own list is complete.
    missed: Option<Vec<Event>>,
    /// The number of the watch's list when its events began: it may lack the first objects of that list.
    since: u64,
}

#[derive(Clone)]
enum Event {
    Changed(Arc<Live>, Epoch),
    Deleted(Arc<Live>),
    Sweep(WatchScope, Epoch),
    Lost(WatchScope),
}

impl Fanout {
    /// Resolves with the running watch's first list, or with the first list of a watch that replaces it earlier.
    fn first_list(&self) -> BoxFuture<'static, First> {
        let mut listed = self.listed.subscribe();
        Box::pin(async move {
            let first = listed.wait_for(Option::is_some).await.ok();
            first.and_then(|first| *first).unwrap_or(First::Refused)
        })
    }
}

impl Member {
    /// Passes an event on, now or after the member's list. Returns whether the member still exists.
    fn take(&mut self, event: &Event) -> bool {
        let Some(subscriber) = self.subscriber.upgrade() else { return false };
        // Its events may lack the first objects of that list.
        if matches!(event, Event::Sweep(_, list) if list.number <= self.since) {
            return true;
        }
        match &mut self.missed {
            Some(missed) => missed.push(event.clone()),
            None => event.show(&subscriber),
        }
        true
    }

    /// Passes on the events that it missed. From now on, it receives each at once.
    fn follow(&mut self, subscriber: &Subscriber) {
        self.missed.take().into_iter().flatten().for_each(|event| event.show(subscriber));
    }

    fn is(&self, subscriber: &WeakSubscriber) -> bool {
        std::ptr::addr_eq(self.subscriber.as_ptr(), subscriber.as_ptr())
    }
}

impl Event {
    fn show(&self, to: &Subscriber) {
        match self {
            Event::Changed(live, epoch) => to.changed(live.clone(), *epoch),
            Event::Deleted(live) => to.deleted(live.clone()),
            Event::Sweep(scope, list) => to.sweep(scope, *list),
            Event::Lost(scope) => to.lost(scope),
        }
    }

    /// Returns how a list ended, if the event is its end.
    fn list(&self) -> Option<First> {
        match self {
            Event::Sweep(..) => Some(First::Listed),
            Event::Lost(_) => Some(First::Refused),
            Event::Changed(..) | Event::Deleted(_) => None,
        }
    }
}

impl Informers {
    pub(crate) fn new(source: impl Source + 'static) -> Informers {
        Informers { source: Box::new(source), state: Mutex::default() }
    }

    pub(crate) fn scopes(&self, kind: &Resource) -> Vec<WatchScope> {
        self.source.scopes(kind)
    }

    /// Announces a chart, so that watches that start later also select its objects.
    pub(crate) fn announce(&self, chart: &str) {
        lock(&self.state).charts.insert(chart.to_owned());
    }

    /// Feeds a kind's objects of these charts to a subscriber for as long as its owner keeps it. The future resolves
    /// when the subscriber knows all existing objects, when the server refuses to list them, or when its owner has dropped
    /// it.
    pub(crate) fn subscribe(
        self: &Arc<Self>,
        kind: &Arc<Resource>,
        own: &BTreeSet<String>,
        subscriber: &Subscriber,
    ) -> BoxFuture<'static, First> {
        let mut state = lock(&self.state);
        let State { charts, watched, tasks } = &mut *state;
        charts.extend(own.iter().cloned());
        let shared = watched.entry(kind_key(kind)).or_insert_with(|| {
            let new = |scope| Arc::new(SharedWatch { kind: kind.clone(), scope, state: Mutex::default() });
            self.source.scopes(kind).into_iter().map(new).collect()
        });
        let join = |one: &Arc<SharedWatch>| -> BoxFuture<'static, First> {
            match one.join(own, subscriber) {
                Joined::Running => {
                    Box::pin(self.clone().catch_up(one.clone(), own.clone(), Arc::downgrade(subscriber)))
                }
                Joined::Restart => one.start(&*self.source, charts, tasks),
            }
        };
        let joined: Vec<_> = shared.iter().map(join).collect();
        Box::pin(async {
            match join_all(joined).await.contains(&First::Refused) {
                true => First::Refused,
                false => First::Listed,
            }
        })
    }

    /// Lists a new member's objects, and then passes on the events that it missed. If the list is refused, the watch
    /// begins again, because its list is tried until it succeeds: the refusal may end soon. A watch that has begun since
    /// the refused list did goes on.
    async fn catch_up(
        self: Arc<Self>,
        shared: Arc<SharedWatch>,
        own: BTreeSet<String>,
        subscriber: WeakSubscriber,
    ) -> First {
        let mut attempt = 0;
        while subscriber.strong_count() > 0 {
            let list = shared.begin_list(&subscriber);
            let pages = self.source.list(&shared.kind, &shared.scope, &own);
            match shared.take_in(&subscriber, pages, &list).await {
                Ok(true) => break,
                Ok(false) => {}
                Err(kube::Error::Api(status)) if reflector::is_refusal(&status) => {
                    shared.admit_unlisted(&subscriber);
                    return self.restart(&shared, list.run).await;
                }
                Err(error) => {
                    let (kind, error) = (&shared.kind.kind, controller::report::chain(&error));
                    tracing::warn!(error, "Cannot list {kind} objects");
                    attempt += 1;
                    tokio::time::sleep(backoff::wait(attempt)).await;
                }
            }
        }
        First::Listed
    }

    /// Starts the watch with this number again, unless another one has replaced it. The future resolves with the running
    /// watch's first list.
    fn restart(&self, shared: &Arc<SharedWatch>, run: u64) -> BoxFuture<'static, First> {
        let mut state = lock(&self.state);
        if let Some(listed) = shared.listed_since(run) {
            return listed;
        }
        let State { charts, tasks, .. } = &mut *state;
        shared.start(&*self.source, charts, tasks)
    }
}

/// How a member joins a watch.
enum Joined {
    /// The watch is running, and selects the member's objects.
    Running,
    /// The watch must be started, or restarted with a wider selection.
    Restart,
}

/// A list that a joining member makes itself.
struct OwnList {
    /// The number of the last watch whose first list may have begun before it.
    run: u64,
    /// The number of the watch's list when it began.
    before: u64,
    epoch: Epoch,
}

impl SharedWatch {
    /// Adds a member, which receives everything from now on.
    fn join(&self, own: &BTreeSet<String>, subscriber: &Subscriber) -> Joined {
        let mut state = lock(&self.state);
        let is_refused = *state.listed.borrow() == Some(First::Refused);
        let running = state.task.is_some() && state.charts.is_superset(own) && !is_refused;
        let missed = running.then(Vec::new);
        state.members.retain(|member| member.subscriber.strong_count() > 0);
        let since = state.epoch;
        state.members.push(Member { subscriber: Arc::downgrade(subscriber), missed, since });
        if running { Joined::Running } else { Joined::Restart }
    }

    /// Starts a watch of these charts' objects in place of the running one. The future resolves with the watch's first
    /// list, or with the first list of a watch that replaces it earlier.
    fn start(
        self: &Arc<Self>,
        source: &dyn Source,
        charts: &BTreeSet<String>,
        tasks: &mut JoinSet<()>,
    ) -> BoxFuture<'static, First> {
        let mut state = lock(&self.state);
        if let Some(old) = state.task.take() {
            old.abort();
        }
        while tasks.try_join_next().is_some() {}
        (state.run, state.before, state.charts) = (state.run + 1, state.epoch, charts.clone());
        state.listed.send_replace(None);
        let run = Run { shared: self.clone(), number: state.run, before: state.before };
        let stream = source.watch(&self.kind, &self.scope, charts);
        state.task = Some(tasks.spawn(reflector::run(run, stream, oneshot::channel().0)));
        state.first_list()
    }

    /// Returns how the first list ends of a watch that has replaced the one with this number; `None` if none has.
    fn listed_since(&self, run: u64) -> Option<BoxFuture<'static, First>> {
        let state = lock(&self.state);
        (state.run != run).then(|| state.first_list())
    }

    /// Begins a member's own list, which will contain everything that happened before it: the events that the member
    /// missed so far are dropped, so that nothing accumulates while lists fail. The list has a number of its own: at
    /// its end, known objects that it lacks are removed, because a deletion may be among the dropped events.
    fn begin_list(&self, subscriber: &WeakSubscriber) -> OwnList {
        let mut state = lock(&self.state);
        state.own_lists += 1;
        let (before, number) = (state.epoch, u64::MAX - state.own_lists);
        if let Some(member) = state.members.iter_mut().find(|member| member.is(subscriber)) {
            (member.missed, member.since) = (Some(Vec::new()), before);
        }
        // All that a list without an object yet will contain reaches the member.
        let is_unlisted = before == state.before && state.listed.borrow().is_none();
        let run = state.run - u64::from(is_unlisted);
        OwnList { run, before, epoch: Epoch { number, began: Instant::now(), is_list: false } }
    }

    /// Passes a member's own list to it, a page before the next one is read, and then the events that it missed. Stops
    /// and returns `false` if the watch has listed since this list began: an object missing from the watch's list may be
    /// in the member's older one, and no event would ever report its deletion. Also stops if the member's owner has dropped
    /// it: a later list of another member may have the same objects and more, which the end of this one would remove.
    async fn take_in(
        &self,
        subscriber: &WeakSubscriber,
        mut pages: BoxStream<'static, Result<Vec<Live>, kube::Error>>,
        list: &OwnList,
    ) -> Result<bool, kube::Error> {
        while let Some(page) = pages.next().await {
            if !self.admit_page(subscriber, page?, list) {
                return Ok(false);
            }
        }
        Ok(self.admit(subscriber, list))
    }

    fn admit_page(&self, subscriber: &WeakSubscriber, page: Vec<Live>, list: &OwnList) -> bool {
        let state = lock(&self.state);
        let subscriber = subscriber.upgrade().filter(|_| state.epoch == list.before);
        let Some(subscriber) = subscriber else { return false };
        page.into_iter().for_each(|live| subscriber.changed(Arc::new(live), list.epoch));
        true
    }

    fn admit(&self, subscriber: &WeakSubscriber, list: &OwnList) -> bool {
        let mut state = lock(&self.state);
        if state.epoch != list.before {
            return false;
        }
        let Some(member) = state.members.iter_mut().find(|member| member.is(subscriber)) else { return true };
        let Some(subscriber) = member.subscriber.upgrade() else { return false };
        subscriber.sweep(&self.scope, list.epoch);
        member.follow(&subscriber);
        true
    }

    /// Lets a member whose list was refused receive events from now on. The member is complete after the watch's next
    /// list.
    fn admit_unlisted(&self, subscriber: &WeakSubscriber) {
        let mut state = lock(&self.state);
        let Some(member) = state.members.iter_mut().find(|member| member.is(subscriber)) else { return };
        let Some(subscriber) = member.subscriber.upgrade() else { return };
        member.follow(&subscriber);
    }
}

/// The handler of one watch, which passes events to the members.
struct Run {
    shared: Arc<SharedWatch>,
    number: u64,
    /// The number of lists of earlier watches.
    before: u64,
}

impl Run {
    /// Passes an event on, unless another watch has replaced this one. Whoever waits for a list is woken once the members
    /// know that it ended.
    fn pass(&self, event: &Event) {
        let mut state = lock(&self.shared.state);
        if state.run != self.number {
            return;
        }
        state.members.retain_mut(|member| member.take(event));
        if let Some(list) = event.list() {
            state.listed.send_replace(Some(list));
        }
    }

    fn number(&self, epoch: Epoch) -> Epoch {
        let number = self.before + epoch.number;
        let mut state = lock(&self.shared.state);
        if state.run == self.number {
            state.epoch = number;
        }
        Epoch { number, ..epoch }
    }
}

impl EventHandler<Live> for Run {
    fn changed(&self, live: Live, epoch: Epoch) {
        let epoch = self.number(epoch);
        self.pass(&Event::Changed(Arc::new(live), epoch));
    }

    fn deleted(&self, live: Live) {
        self.pass(&Event::Deleted(Arc::new(live)));
    }

    fn sweep(&self, scope: &WatchScope, list: Epoch) {
        let list = self.number(list);
        self.pass(&Event::Sweep(scope.clone(), list));
    }

    fn lost(&self, scope: &WatchScope) {
        self.pass(&Event::Lost(scope.clone()));
    }

    fn description(&self) -> String {
        self.shared.kind.full_name()
    }
}
