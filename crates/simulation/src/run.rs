//! Plays a script on one thread with paused time; the seed decides everything.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use outside::Simulation;
use tokio::time::{Instant, sleep_until};

use crate::actors::Deployments;
use crate::checks::Checks;
use crate::faults::Which;
use crate::names::RECORDS;
use crate::overrides::Overrides;
use crate::process::{Process, Setup};
use crate::quiet::End;
use crate::script::{Action, Script};
use crate::trace::{Trace, Violation};
use crate::world::World;
use crate::{actors, helm, registry};

/// Maximum time until a cluster without faults stops writing. Four resources whose upgrades take turns, and of which none
/// becomes ready, take more than ten minutes each.
const BOUND: Duration = Duration::from_secs(3600);

/// How long only leases may be written before the cluster counts as quiet. Longer than any reconcile period, and than
/// the time for which an unfinished command of a person is left alone, and the limit after which the server is asked
/// once about what is not ready.
const QUIET: Duration = Duration::from_secs(800);

/// How long a quiet cluster must then receive no requests at all.
const SILENT: Duration = Duration::from_secs(130);

/// The result of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// The number of requests, events and polls, and their hash.
    pub steps: (u64, u64),
    /// The simulated time.
    pub simulated: Duration,
    /// The first violation.
    pub violation: Option<Violation>,
}

/// Plays a script on a separate thread.
pub fn play(script: &Script) -> Report {
    record(script, Trace::default()).0
}

/// Plays a script on a separate thread; also prints its steps.
pub fn play_printed(script: &Script) -> Report {
    record(script, Trace::printed()).0
}

/// Plays a script on a separate thread; also returns its steps as text.
pub fn play_kept(script: &Script) -> (Report, Vec<String>) {
    record(script, Trace::kept())
}

fn record(script: &Script, trace: Trace) -> (Report, Vec<String>) {
    let script = script.clone();
    let thread = std::thread::Builder::new().stack_size(16 << 20).spawn(move || {
        fastrand::seed(script.seed);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        runtime.map(|runtime| runtime.block_on(simulate(script, trace)))
    });
    let played = thread.ok().and_then(|thread| thread.join().ok()).and_then(Result::ok);
    played.unwrap_or_else(|| (Report::of_panic(), Vec::new()))
}

impl Report {
    fn of_panic() -> Report {
        let violation = Some(Violation { at: Duration::ZERO, what: "the simulation itself panicked".into() });
        Report { steps: (0, 0), simulated: Duration::ZERO, violation }
    }
}

struct Processes {
    world: Arc<World>,
    all: Vec<Slot>,
}

struct Slot {
    setup: Setup,
    running: Option<Process>,
    /// The time of its next start.
    starts: Instant,
    /// How long it stays away once a write has killed it.
    down: Duration,
}

impl Processes {
    fn new(world: &Arc<World>, setups: &[Setup]) -> Processes {
        let place =
            |setup: &Setup| Slot { setup: setup.clone(), running: None, starts: Instant::now(), down: Duration::ZERO };
        Processes { world: world.clone(), all: setups.iter().map(place).collect() }
    }

    /// Starts the processes that should run. Restarts a process that ended by itself after a second.
    fn tend(&mut self) {
        for (number, place) in self.all.iter_mut().enumerate() {
            if let Some(process) = place.running.take_if(|process| process.is_cut()) {
                process.kill();
                self.world.state().checks.process_ends();
                place.starts = place.starts.max(Instant::now() + place.down);
            }
            if place.running.as_ref().is_some_and(Process::has_ended) {
                place.running = None;
                self.world.state().checks.process_ends();
                place.starts = place.starts.max(Instant::now() + Duration::from_secs(1));
            }
            if place.running.is_none() && place.starts <= Instant::now() {
                match Process::start(&self.world, &format!("op-{number}"), &place.setup) {
                    Ok(process) => place.running = Some(process),
                    Err(error) => {
                        let elapsed = self.world.elapsed();
                        self.world.state().trace.violation(elapsed, format!("a process cannot start: {error:#}"));
                    }
                }
            }
        }
    }

    fn kill(&mut self, number: usize, down: u64) {
        let Some(place) = self.all.get_mut(number) else { return };
        if let Some(process) = place.running.take() {
            process.kill();
            self.world.state().checks.process_ends();
        }
        place.starts = Instant::now() + Duration::from_millis(down);
    }

    fn stall(&mut self, number: usize, time: Duration) {
        if let Some(process) = self.all.get(number).and_then(|place| place.running.as_ref()) {
            process.stall(time);
        }
    }

    fn kill_after(&mut self, number: usize, writes: u64, down: u64) {
        let Some(place) = self.all.get_mut(number) else { return };
        place.down = Duration::from_millis(down);
        if let Some(process) = &place.running {
            process.kill_after(writes);
        }
    }

    /// Changes the configuration of a process, effective from its next start.
    fn configure(&mut self, number: usize, setup: &Setup) {
        let Some(place) = self.all.get_mut(number) else { return };
        let before = std::mem::replace(&mut place.setup, setup.clone());
        let moves = before.place() != setup.place();
        let changes = !moves || before.at(None) != setup.at(None);
        let (is_mixed, is_limited) = (self.is_mixed(), self.is_limited());
        let (is_ordered, may_fail) = (self.is_ordered(), self.may_fail());
        let (is_pulled, is_pinned) = (self.is_pulled(), self.is_pinned());
        let (limits_hooks, is_overridden) = (self.limits_hooks(), self.is_overridden());
        let takes_back = self.takes_back();
        let checks = &mut self.world.state().checks;
        checks.is_overridden |= is_overridden;
        if moves {
            checks.places.moves += 2;
            checks.rollout.forget_all();
        }
        if changes {
            checks.setup_changes();
        }
        checks.is_mixed = is_mixed;
        checks.rollout.is_limited = is_limited;
        checks.rollout.takes_back |= takes_back;
        checks.order.is_on &= is_ordered;
        checks.order.may_fail |= may_fail;
        checks.limits_hooks |= limits_hooks;
        checks.is_pulled |= is_pulled;
        checks.is_pinned &= is_pinned;
    }

    fn is_ordered(&self) -> bool {
        self.all.iter().all(|place| place.setup.is_ordered())
    }

    fn may_fail(&self) -> bool {
        self.all.iter().any(|place| place.setup.is_ordered())
    }

    fn is_pulled(&self) -> bool {
        self.all.iter().any(|place| place.setup.is_pulled())
    }

    fn is_pinned(&self) -> bool {
        self.all.iter().all(|place| place.setup.chart == "pinned")
    }

    fn limits_hooks(&self) -> bool {
        self.all.iter().any(|place| place.setup.limits_hooks())
    }

    fn is_overridden(&self) -> bool {
        self.all.iter().any(|place| !place.setup.overrides().is_empty())
    }

    fn is_limited(&self) -> bool {
        self.all.iter().all(|place| place.setup.watch.contains("maxParallelUpgrades: 1"))
    }

    fn is_mixed(&self) -> bool {
        // Processes may have found different versions in the registry.
        let first = self.all[0].setup.at(None);
        self.all.iter().any(|place| place.setup.at(None) != first || place.setup.is_pulled())
    }

    fn any(&self, key: &str) -> bool {
        self.all.iter().any(|place| place.setup.watch.contains(key))
    }

    /// Returns whether a process takes a chart back that fails in a step of its rollout.
    fn takes_back(&self) -> bool {
        self.all.iter().any(|place| place.setup.takes_back())
    }

    /// Returns whether the processes' entries in watches.yaml have a key; `None` if only some do.
    fn agree(&self, key: &str) -> Option<bool> {
        let is_in_all = self.all.iter().all(|place| place.setup.watch.contains(key));
        (is_in_all || !self.any(key)).then_some(is_in_all)
    }

    /// Returns the override values of the leader, unless releases may wait for a chart that never becomes ready.
    fn overrides(&self, checks: &Checks) -> Option<Overrides> {
        let number = |name: &str| name.strip_prefix("op-")?.parse::<usize>().ok();
        let leader = checks.holder.as_deref().and_then(number).unwrap_or(0);
        let may_wait = checks.is_overridden && self.all.iter().any(|place| place.setup.chart.ends_with('3'));
        self.all.get(leader).filter(|_| !may_wait).map(|place| place.setup.overrides())
    }

    /// Returns the final configuration of the processes.
    fn end(&self) -> End {
        let state = self.world.state();
        let faults = &state.faults;
        let is_blind = faults.has_forbidden(Which::Sources);
        let first = &self.all[0].setup.chart;
        let goes_back = self.takes_back() && state.checks.resources.values().any(|resource| resource.failed_hooks > 0);
        let is_known = !goes_back && self.all.iter().all(|place| place.setup.chart == *first);
        let chart = Some(&**first).filter(|_| is_known);
        let version = match chart {
            Some("range") => Some(state.registry.newest().to_owned()),
            Some("pinned") => Some(registry::FIRST.to_owned()),
            _ => None,
        };
        End {
            chart: version.as_deref().map(|version| format!("web{}", &version[..1])).or(chart.map(str::to_owned)),
            version,
            overrides: self.overrides(&state.checks),
            gives_up: self.any("retries") || self.any("uninstall") || goes_back,
            goes_back,
            takes_sources: self.agree("valuesFrom"),
            merges: self.all.iter().any(|place| place.setup.watch.contains("apply: client")),
            looks: !is_blind && !faults.has_forbidden(Which::Maps)
                || self.all.iter().all(|place| place.setup.period > 0),
            is_blind,
            sees_maps: !faults.has_forbidden(Which::Maps),
        }
    }

    fn stop(&mut self, number: usize, down: u64) {
        let Some(place) = self.all.get_mut(number) else { return };
        if let Some(process) = &place.running {
            process.stop();
        }
        place.starts = Instant::now() + Duration::from_millis(down);
    }

    /// Waits until `at`, and restarts processes while waiting.
    async fn until(&mut self, at: Instant) {
        loop {
            self.tend();
            if Instant::now() >= at {
                return;
            }
            sleep_until(at.min(Instant::now() + Duration::from_millis(250))).await;
        }
    }
}

async fn simulate(script: Script, trace: Trace) -> (Report, Vec<String>) {
    let start: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap_or_default();
    let _simulation = Simulation::begin(start, script.seed);
    let world = World::new(script.seed, trace);
    let mut processes = Processes::new(&world, &script.setups);
    let deployments = if processes.is_ordered() { Deployments::Slow } else { Deployments::Prompt };
    let controllers = tokio::spawn(actors::control(world.clone(), deployments));
    {
        let checks = &mut world.state().checks;
        checks.elects = script.setups.iter().all(|setup| setup.elects);
        checks.is_mixed = processes.is_mixed();
        checks.rollout.is_limited = processes.is_limited();
        checks.rollout.takes_back = processes.takes_back();
        checks.order.is_on = processes.is_ordered();
        checks.order.may_fail = processes.may_fail();
        checks.limits_hooks = processes.limits_hooks();
        checks.is_overridden = processes.is_overridden();
        checks.is_pulled = processes.is_pulled();
        checks.is_pinned = processes.is_pinned();
    }
    let watched = script.setups.iter().flat_map(|setup| setup.namespaces.split(',').filter(|name| *name == RECORDS));
    for namespace in script.places().into_iter().chain(watched).collect::<BTreeSet<_>>() {
        world.add_namespace(namespace);
    }
    let mut began = Instant::now();
    for step in &script.steps {
        processes.until(began + step.at()).await;
        if world.state().trace.found().is_some() {
            break;
        }
        perform(&world, &mut processes, &step.what);
        if let Action::Suspend(ms) = step.what {
            // No task runs until the time has passed.
            tokio::time::advance(Duration::from_millis(ms)).await;
        }
        if step.what == Action::Rest {
            let rests = Instant::now();
            settle(&world, &mut processes).await;
            began += rests.elapsed();
        }
    }
    processes.until(began + script.end()).await;
    world.state().faults.end();
    world.state().hooks.end();
    world.state().registry.recover();
    settle(&world, &mut processes).await;
    controllers.abort();
    let elapsed = world.elapsed();
    let trace = &mut world.state().trace;
    let report = Report { steps: trace.sum(), simulated: elapsed, violation: trace.found().cloned() };
    (report, trace.take_kept())
}

/// Restarts the server, which is away and then loading for so many milliseconds.
fn restart(world: &World, (away, loading): (u64, u64), elapsed: Duration) {
    let state = &mut *world.state();
    state.faults.restart(away, loading, elapsed);
    state.checks.contact_is_lost();
}

/// Drops the versions that watches would resume from.
fn expire(world: &World) {
    {
        let mut server = world.server();
        let version = server.version();
        server.compact(version);
    }
    let state = &mut *world.state();
    state.faults.breaks.expiries += 1;
    state.checks.contact_is_lost();
}

/// Returns whether everyone who waits for changes is to notice the action at once.
fn is_news(action: &Action) -> bool {
    matches!(
        action,
        Action::Forbid(..)
            | Action::Cut
            | Action::Backup
            | Action::RestartServer(..)
            | Action::Restore(..)
            | Action::Expire
            | Action::Operator(_)
    )
}

fn perform(world: &Arc<World>, processes: &mut Processes, action: &Action) {
    let what = serde_json::to_string(action).unwrap_or_default();
    let elapsed = world.elapsed();
    {
        let state = &mut *world.state();
        state.trace.step(elapsed, "script", || what);
        state.stirred = Some(Instant::now());
    }
    match action {
        Action::Fault(fault) => world.state().faults.begin(fault.clone(), elapsed),
        Action::Hooks(trouble, for_ms) => world.state().hooks.begin(*trouble, *for_ms),
        Action::Forbid(which, namespace) => world.state().faults.forbid(*which, namespace),
        Action::RestartServer(away, loading) => restart(world, (*away, *loading), elapsed),
        Action::Lag(versions) => world.server().set_lag(*versions),
        Action::Backup => world.back_up(),
        Action::Restore(away, loading) => {
            if world.restore() {
                restart(world, (*away, *loading), elapsed);
            }
        }
        Action::Cut => {
            let state = &mut *world.state();
            state.faults.breaks.cuts += 1;
            state.checks.contact_is_lost();
        }
        Action::Expire => expire(world),
        Action::Kill(number, down) => processes.kill(*number, *down),
        Action::Push(version) => {
            let state = &mut *world.state();
            state.registry.push(version, version);
            state.checks.setup_changes();
        }
        Action::MoveTag => world.state().registry.push(registry::FIRST, registry::WRONG),
        Action::Registry(mood, for_ms) => {
            let state = &mut *world.state();
            state.registry.fail(*mood, *for_ms);
            // A process that starts during this time may find an older version, and a newer one afterwards.
            state.checks.setup_changes();
            state.checks.setup_changes();
        }
        Action::ForgetCharts => world.forget_charts(),
        Action::Stall(number, ms) => processes.stall(*number, Duration::from_millis(*ms)),
        Action::KillAfter(number, writes, down) => processes.kill_after(*number, *writes, *down),
        Action::Stop(number, down) => processes.stop(*number, *down),
        Action::Restart(number, down, setup) => {
            processes.kill(*number, *down);
            processes.configure(*number, setup);
        }
        Action::Helm(release, command, steps) => {
            world.state().checks.helm_acts(release, *command);
            _ = tokio::spawn(helm::run(world.clone(), release.clone(), *command, *steps));
        }
        other => {
            world.state().checks.acts(other);
            actors::act(world, other);
        }
    }
    if is_news(action) {
        world.wake();
    }
}

/// Waits until writes stop, then checks the invariants of a quiet cluster.
async fn settle(world: &Arc<World>, processes: &mut Processes) {
    let bound = Instant::now() + BOUND;
    loop {
        if world.state().trace.found().is_some() {
            return;
        }
        let last = world.state().stirred;
        if last.is_some_and(|last| last.elapsed() >= QUIET) {
            break;
        }
        if Instant::now() >= bound {
            let elapsed = world.elapsed();
            world.state().trace.violation(elapsed, format!("(i) not quiet after {} s", BOUND.as_secs()));
            return;
        }
        let next = Instant::now() + Duration::from_secs(1);
        processes.until(next).await;
    }
    let elapsed = world.elapsed();
    let end = processes.end();
    let state = &mut *world.state();
    for what in state.checks.quiet(&state.objects, &end) {
        state.trace.violation(elapsed, what);
    }
    // Processes must poll what they cannot watch, and repeat what another owner prevents.
    let may_ask = state.checks.is_contested(&state.objects)
        || state.faults.has_forbidden(Which::Sources)
        || state.faults.has_forbidden(Which::Maps);
    if let Some((_, what)) = state.asked.take().filter(|(at, _)| at.elapsed() < SILENT && !may_ask) {
        state.trace.violation(elapsed, format!("(i) all is quiet, and still: {what}"));
    }
}
