//! A model of the protocol between shards and the sharder, every run of which is checked: three shards, two resources,
//! crashes, pauses, orderly ends, restarts under the same name, drains, late moves and clocks that differ.
//!
//! A step of time is 5 s. Whether a process may take a lease is decided by [`next_step`] itself.

use stateright::{Checker as _, Model, Property};

use super::*;

const SHARDS: usize = 3;
const RESOURCES: usize = 2;
/// How long a term lasts after a renewal, in steps: the renew deadline.
const TERM: i8 = 2;
/// When the sharder takes a lease, in steps after its renew time: twice the lease's duration.
const TAKEN_AFTER: i8 = 6;
/// How long the sharder takes at most from the decision to move a resource to the write.
const MOVING: i8 = 6;

/// What is checked.
#[derive(Clone)]
struct Ring {
    /// How far each shard's clock is ahead of the sharder's, in steps.
    skews: [i8; SHARDS],
    /// How many crashes, pauses and orderly ends there are.
    faults: u8,
    drains: u8,
    /// How long it all lasts, in steps.
    until: i8,
    /// How long a process waits before it takes a lease with its own name, by who holds it.
    waits: [i8; 3],
    /// How long it waits before it lists its resources.
    settles: i8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Process {
    Gone,
    /// It has seen the lease unchanged since then.
    Waiting(i8),
    Serving {
        until: i8,
        paused: bool,
        /// If it took the lease over, it lists its resources at this time.
        lists: Option<i8>,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Holder {
    Nobody,
    Shard,
    Sharder,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Held {
    by: Holder,
    /// By the holder's clock.
    renewed: i8,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct World {
    now: i8,
    processes: [Process; SHARDS],
    /// Which resources a process believes to be its own.
    serves: [[bool; RESOURCES]; SHARDS],
    leases: [Held; SHARDS],
    labels: [usize; RESOURCES],
    drained: [bool; RESOURCES],
    /// Moves that the sharder has decided, and when.
    moving: [Option<i8>; RESOURCES],
    faults: u8,
    drains: u8,
}

#[derive(Clone, Debug, PartialEq)]
enum Event {
    Tick,
    Crash(usize),
    Pause(usize),
    Resume(usize),
    /// Ends in an orderly way, and releases its lease.
    End(usize),
    Restart(usize),
    /// A shard's watch reports a resource.
    See(usize, usize),
    /// A shard gives a resource up, and the webhook assigns it.
    GiveUp(usize, usize, usize),
    Drain(usize),
    /// The sharder takes the lease of a silent shard.
    Take(usize),
    DecideMove(usize),
    Move(usize, usize),
}

impl World {
    fn may_write(&self, shard: usize, resource: usize) -> bool {
        let is_within =
            matches!(self.processes[shard], Process::Serving { until, paused: false, .. } if self.now < until);
        is_within && self.serves[shard][resource]
    }

    fn writers(&self, resource: usize) -> usize {
        (0..SHARDS).filter(|shard| self.may_write(*shard, resource)).count()
    }

    /// Returns whether a process runs its controllers: it is not paused, its term lasts, and it has listed.
    fn acts(&self, shard: usize) -> bool {
        let process = self.processes[shard];
        matches!(process, Process::Serving { until, paused: false, lists: None } if self.now < until)
    }

    fn is_available(&self, shard: usize) -> bool {
        self.leases[shard].by == Holder::Shard
    }

    fn own(&self, shard: usize) -> [bool; RESOURCES] {
        self.labels.map(|label| label == shard)
    }

    fn assign(&mut self, resource: usize, to: usize) {
        (self.labels[resource], self.drained[resource], self.moving[resource]) = (to, false, None);
    }

    fn start(&mut self, shard: usize) {
        (self.processes[shard], self.serves[shard]) = (Process::Waiting(self.now), [false; RESOURCES]);
    }
}

impl Ring {
    /// Returns whether a process that has seen this lease unchanged since then takes it now.
    fn takes(&self, held: Held, since: i8, now: i8) -> bool {
        now - since >= self.waits[held.by as usize]
    }

    /// Lets 5 s pass: running processes renew, take or lose their leases.
    fn tick(&self, world: &mut World) {
        world.now += 1;
        for shard in 0..SHARDS {
            let held = world.leases[shard];
            match world.processes[shard] {
                Process::Serving { until, paused: false, .. } if world.now >= until || held.by != Holder::Shard => {
                    world.start(shard);
                }
                Process::Serving { paused: false, lists, .. } => {
                    world.leases[shard].renewed = world.now + self.skews[shard];
                    self.hold(world, shard, lists);
                }
                Process::Waiting(since) if self.takes(held, since, world.now) => {
                    world.leases[shard] = Held { by: Holder::Shard, renewed: world.now + self.skews[shard] };
                    self.hold(world, shard, Some(world.now + self.settles));
                }
                _ => {}
            }
        }
    }

    /// Begins or prolongs a term, and lists the shard's resources if that is due.
    fn hold(&self, world: &mut World, shard: usize, lists: Option<i8>) {
        let is_due = lists.is_some_and(|at| world.now >= at);
        let lists = lists.filter(|_| !is_due);
        world.processes[shard] = Process::Serving { until: world.now + TERM, paused: false, lists };
        if is_due {
            world.serves[shard] = world.own(shard);
        }
    }

    fn may_take(&self, world: &World, shard: usize) -> bool {
        world.is_available(shard) && world.now >= world.leases[shard].renewed + TAKEN_AFTER
    }

    fn take(&self, world: &mut World, shard: usize) {
        world.leases[shard] = Held { by: Holder::Sharder, renewed: world.now };
        if let Process::Waiting(_) = world.processes[shard] {
            world.processes[shard] = Process::Waiting(world.now);
        }
    }

    /// Lets everything that is due happen, without a fault, until nothing changes for long; returns the end.
    fn end_of(&self, world: &World) -> World {
        let mut world = world.clone();
        for _ in 0..24 {
            for shard in 0..SHARDS {
                if let Process::Serving { until, paused: true, lists } = world.processes[shard] {
                    world.processes[shard] = Process::Serving { until, paused: false, lists };
                }
                if self.may_take(&world, shard) {
                    self.take(&mut world, shard);
                }
            }
            for resource in 0..RESOURCES {
                let (of, to) = (world.labels[resource], (0..SHARDS).find(|shard| world.is_available(*shard)));
                let gives_up = world.drained[resource] && world.acts(of);
                if let Some(to) = to.filter(|_| gives_up || !world.is_available(of)) {
                    world.serves[of][resource] &= !gives_up;
                    world.assign(resource, to);
                }
            }
            for shard in 0..SHARDS {
                if world.acts(shard) {
                    world.serves[shard] = world.own(shard);
                }
            }
            self.tick(&mut world);
        }
        world
    }
}

impl Model for Ring {
    type State = World;
    type Action = Event;

    fn init_states(&self) -> Vec<World> {
        vec![World {
            now: 0,
            processes: [Process::Serving { until: TERM, paused: false, lists: None }; SHARDS],
            serves: [[true, false], [false, true], [false, false]],
            leases: self.skews.map(|skew| Held { by: Holder::Shard, renewed: skew }),
            labels: [0, 1],
            drained: [false; RESOURCES],
            moving: [None; RESOURCES],
            faults: self.faults,
            drains: self.drains,
        }]
    }

    fn actions(&self, world: &World, events: &mut Vec<Event>) {
        let is_late = world.moving.iter().flatten().any(|decided| world.now - decided >= MOVING);
        if world.now < self.until && !is_late {
            events.push(Event::Tick);
        }
        for shard in 0..SHARDS {
            match world.processes[shard] {
                Process::Gone => events.push(Event::Restart(shard)),
                Process::Serving { paused: true, .. } => events.push(Event::Resume(shard)),
                Process::Serving { .. } if world.faults > 0 => {
                    events.extend([Event::Crash(shard), Event::Pause(shard), Event::End(shard)]);
                }
                _ => {}
            }
            if self.may_take(world, shard) {
                events.push(Event::Take(shard));
            }
        }
        for resource in 0..RESOURCES {
            let of = world.labels[resource];
            let others = (0..SHARDS).filter(|shard| world.is_available(*shard));
            for shard in (0..SHARDS).filter(|shard| world.acts(*shard)) {
                if world.serves[shard][resource] != (of == shard) {
                    events.push(Event::See(shard, resource));
                }
            }
            if world.drained[resource] && world.acts(of) && world.serves[of][resource] {
                events.extend(others.clone().map(|to| Event::GiveUp(of, resource, to)));
            }
            if world.drains > 0 && !world.drained[resource] && world.is_available(of) {
                events.push(Event::Drain(resource));
            }
            match world.moving[resource] {
                None if !world.is_available(of) => events.push(Event::DecideMove(resource)),
                Some(_) => events.extend(others.map(|to| Event::Move(resource, to))),
                None => {}
            }
        }
    }

    fn next_state(&self, world: &World, event: Event) -> Option<World> {
        let mut world = world.clone();
        match event {
            Event::Tick => self.tick(&mut world),
            Event::Crash(shard) => {
                world.faults -= 1;
                (world.processes[shard], world.serves[shard]) = (Process::Gone, [false; RESOURCES]);
            }
            Event::Pause(shard) => {
                world.faults -= 1;
                let Process::Serving { until, lists, .. } = world.processes[shard] else { return None };
                world.processes[shard] = Process::Serving { until, paused: true, lists };
            }
            Event::Resume(shard) => {
                let Process::Serving { until, lists, .. } = world.processes[shard] else { return None };
                world.processes[shard] = Process::Serving { until, paused: false, lists };
            }
            Event::End(shard) => {
                world.faults -= 1;
                if !world.acts(shard) || !world.is_available(shard) {
                    return None;
                }
                (world.processes[shard], world.serves[shard]) = (Process::Gone, [false; RESOURCES]);
                world.leases[shard].by = Holder::Nobody;
            }
            Event::Restart(shard) => world.start(shard),
            Event::See(shard, resource) => world.serves[shard][resource] = world.labels[resource] == shard,
            Event::GiveUp(shard, resource, to) => {
                world.serves[shard][resource] = false;
                world.assign(resource, to);
            }
            Event::Drain(resource) => {
                world.drains -= 1;
                (world.drained[resource], world.moving[resource]) = (true, None);
            }
            Event::Take(shard) => self.take(&mut world, shard),
            Event::DecideMove(resource) => world.moving[resource] = Some(world.now),
            Event::Move(resource, to) => world.assign(resource, to),
        }
        Some(world)
    }

    fn properties(&self) -> Vec<Property<Ring>> {
        vec![
            Property::always("never two writers", |_, world: &World| (0..RESOURCES).all(|r| world.writers(r) <= 1)),
            Property::always("one writer in the end", |ring: &Ring, world: &World| {
                let end = ring.end_of(world);
                (0..RESOURCES).all(|r| end.writers(r) == 1)
            }),
        ]
    }
}

/// Checks every run; returns how many states there are, and for each property that does not hold its name with the
/// events of a run that shows it.
fn check(ring: Ring) -> (usize, Vec<String>) {
    let checked = ring.checker().threads(2).spawn_bfs().join();
    let broken = checked.discoveries().into_iter().map(|(name, path)| format!("{name}: {:?}", path.into_actions()));
    (checked.unique_state_count(), broken.collect())
}

fn has_two_writers(broken: &[String]) -> bool {
    broken.iter().any(|one| one.starts_with("never two writers"))
}

/// Returns after how many steps [`next_step`] takes a lease that this one holds.
fn wait(holder: &str, seconds: i32) -> i8 {
    let (wall, start) = (Timestamp::UNIX_EPOCH, Instant::now());
    let mut spec = decide::spec(holder, &Timing::default(), wall, wall, 0);
    spec.lease_duration_seconds = Some(seconds);
    let observed = Seen { lease: Lease { spec: Some(spec), ..Lease::default() }, at: start };
    let claimant = Claimant { identity: "me".into(), rule: Rule::Shard { acquired: None } };
    let takes = |steps: i8| {
        let now = start + Duration::from_secs(5 * u64::from(steps.unsigned_abs()));
        matches!(next_step(Some(&observed), &claimant, &Timing::default(), now, wall), Step::Update(_))
    };
    (0..).find(|steps| takes(*steps)).unwrap_or_default()
}

fn usual() -> Ring {
    let waits = [wait("", 1), wait("me", 15), wait("shardlease-controller", 30)];
    Ring { waits, ..USUAL }
}

const USUAL: Ring = Ring { skews: [-3, 0, 3], faults: 1, drains: 1, until: 16, waits: [0; 3], settles: 6 };

#[test]
fn whatever_happens_a_resource_never_has_two_writers_and_has_one_in_the_end() {
    let (states, broken) = check(usual());
    assert!(broken.is_empty(), "{broken:?}");
    assert!(states > 10_000, "{states}");
    eprintln!("{states} states");
}

#[test]
fn clocks_that_differ_by_more_than_the_fence_allows_make_two_writers() {
    let (_, broken) = check(Ring { skews: [-5, 0, 0], faults: 1, drains: 0, until: 8, ..usual() });
    assert!(has_two_writers(&broken), "{broken:?}");
}

#[test]
fn a_process_that_lists_while_the_sharder_moves_makes_two_writers() {
    let (_, broken) = check(Ring { skews: [0; SHARDS], faults: 1, drains: 0, until: 10, settles: 2, ..usual() });
    assert!(has_two_writers(&broken), "{broken:?}");
}
