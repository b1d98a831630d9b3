//! The rounds of an ordered release: which objects are applied together, and how an action waits for them. The wait
//! holds no worker, and sends no request for objects that a watch covers.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use helm::sequence::{GROUP, Turn, chart_of, name};
use tokio::time::Instant;

use super::Environment;
use crate::kube::{Decoration, Object, ObjectKey, Pause, Unready, without_slot};

/// The pause between two reads of objects that no watch covers.
const READ_AGAIN: Duration = Duration::from_secs(10);

/// Whether an object is ready, as far as is known without a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Health {
    /// It is ready.
    Ready,
    /// It is not ready.
    Unready(Unready),
    /// It does not exist.
    Absent,
    /// No watch covers it, so it must be read.
    Unwatched,
}

/// Why an ordered release stopped between two rounds.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // The messages say it.
pub enum GroupError {
    #[error("group {group} failed: {object}: {why}; correct it in spec or the chart, or look at its events and logs")]
    Failed {
        /// The group, after its chart's name.
        group: String,
        object: String,
        why: String,
    },
    #[error(
        "group {group} is not ready: {object}: {why}, and for {limit} nothing changed; look at its events and logs, or raise \
         progressTimeout in watches.yaml if it needs longer"
    )]
    TimedOut {
        group: String,
        object: String,
        why: String,
        /// The limit in Go's notation.
        limit: String,
    },
    /// The wait was ended from outside ([`Slot::group_interruption`](crate::kube::Slot::group_interruption)).
    #[error("stopped waiting for group {group} ({object}): {why}")]
    Interrupted { group: String, object: String, why: &'static str },
}

impl GroupError {
    /// Returns whether the wait was ended from outside.
    pub(super) fn is_interruption(&self) -> bool {
        matches!(self, GroupError::Interrupted { .. })
    }
}

/// Returns the sort key of a turn; objects without one come last.
pub(super) fn order(turn: Turn) -> u16 {
    if turn.round() == 0 { u16::MAX } else { turn.round() }
}

/// Returns the positions of the objects of each round. Without an order, there is one round.
pub(super) fn rounds(objects: &[Object]) -> Vec<Vec<usize>> {
    let mut rounds: BTreeMap<u16, Vec<usize>> = BTreeMap::new();
    for (at, object) in objects.iter().enumerate() {
        rounds.entry(order(object.turn)).or_default().push(at);
    }
    rounds.into_values().collect()
}

/// An object that later rounds wait for.
#[derive(Clone, Copy)]
pub(super) struct Awaited<'a> {
    pub(super) object: &'a Object,
    pub(super) key: &'a ObjectKey,
    /// Whether the server deletes it once it finished: a missing one is ready.
    pub(super) expires: bool,
}

impl Awaited<'_> {
    /// Returns the group for people: `"shop database"`, or `"shop"` for the chart's other objects. A post-renderer may
    /// have dropped which template an object is from.
    fn group(&self, decoration: &Decoration) -> String {
        let group = self.object.annotation(GROUP).filter(|group| !group.is_empty());
        let chart = chart_of(&self.object.template);
        format!("{:?}", name(if chart.is_empty() { &decoration.chart } else { &chart }, group))
    }
}

/// An object that is not ready, and why.
struct Pending<'a> {
    awaited: Awaited<'a>,
    unready: Unready,
}

impl fmt::Display for Pending<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.awaited.key, self.unready.why)
    }
}

/// Waits until objects are ready. `round` is the number of their round, and how many there are.
///
/// # Errors
/// An object failed, nothing changed for too long, or the slot ended the wait.
pub(super) async fn until_ready(
    env: &Environment<'_>,
    awaited: &[Awaited<'_>],
    round: (usize, usize),
) -> Result<(), GroupError> {
    let mut wait = Wait { env, round, since: Instant::now(), seen: Vec::new() };
    let (pending, is_watched) = pending(env, awaited).await;
    if wait.goes_on(&pending)? {
        without_slot(env.slot, wait.until_ready(awaited, is_watched)).await?;
    }
    Ok(())
}

struct Wait<'a> {
    env: &'a Environment<'a>,
    round: (usize, usize),
    /// When something changed last.
    since: Instant,
    seen: Vec<(ObjectKey, u64)>,
}

impl Wait<'_> {
    async fn until_ready(&mut self, awaited: &[Awaited<'_>], is_watched: bool) -> Result<(), GroupError> {
        let mut pause = if is_watched { Pause::default() } else { Pause::up_to(READ_AGAIN) };
        loop {
            self.env.slot.pause(pause.next()).await;
            let (pending, _) = pending(self.env, awaited).await;
            if !self.goes_on(&pending)? {
                return Ok(());
            }
        }
    }

    /// Returns whether to wait any longer for these objects.
    fn goes_on(&mut self, pending: &[Pending<'_>]) -> Result<bool, GroupError> {
        let failed = pending.iter().find(|one| one.unready.failed);
        let Some(first) = failed.or(pending.first()) else { return Ok(false) };
        let (group, object, why) =
            (first.awaited.group(&self.env.decoration), first.awaited.key.to_string(), first.unready.why.clone());
        if failed.is_some() {
            return Err(GroupError::Failed { group, object, why });
        }
        let now: Vec<(ObjectKey, u64)> =
            pending.iter().map(|one| (one.awaited.key.clone(), one.unready.progress)).collect();
        if now != self.seen {
            (self.since, self.seen) = (Instant::now(), now);
        }
        let limit = self.env.options.group_timeout;
        if let Some(limit) = limit.filter(|limit| self.since.elapsed() >= *limit) {
            let limit = golibs::time::Duration::from(limit).to_string();
            return Err(GroupError::TimedOut { group, object, why, limit });
        }
        if let Some(why) = self.env.slot.group_interruption() {
            return Err(GroupError::Interrupted { group, object, why });
        }
        let (number, of) = self.round;
        let more = if pending.len() > 1 { format!(" and {} more", pending.len() - 1) } else { String::new() };
        let quoted = if first.unready.quotes { &*first.unready.why } else { "" };
        self.env.slot.waiting_for(&format!("group {group} (round {number} of {of}): {first}{more}"), quoted);
        Ok(true)
    }
}

/// Returns the objects that are not ready, and whether watches cover all of them.
async fn pending<'a>(env: &Environment<'_>, awaited: &[Awaited<'a>]) -> (Vec<Pending<'a>>, bool) {
    let (mut all, mut is_watched) = (Vec::new(), true);
    for one in awaited {
        let unready = match env.live.health(one.key) {
            Health::Ready => None,
            Health::Unready(unready) => Some(unready),
            Health::Absent => absent(one),
            Health::Unwatched => {
                is_watched = false;
                read(env, one).await
            }
        };
        all.extend(unready.map(|unready| Pending { awaited: *one, unready }));
    }
    (all, is_watched)
}

/// Reads why an object is not ready; `None` if it is. A failed request is repeated, as part of the wait.
async fn read(env: &Environment<'_>, awaited: &Awaited<'_>) -> Option<Unready> {
    let (object, key) = (awaited.object, awaited.key);
    match env.applier.read_live(key, &object.api_version).await {
        Ok(Some(live)) => live.unready_as_annotated(&key.group, &key.kind),
        Ok(None) => absent(awaited),
        Err(error) => Some(Unready::because(format!("it cannot be read: {}", error.named()))),
    }
}

/// Returns why an object that does not exist is not ready; `None` if it has finished.
fn absent(awaited: &Awaited<'_>) -> Option<Unready> {
    (!awaited.expires).then(|| Unready::because("it does not exist"))
}
