//! The rounds of an ordered release: which objects are applied together, and how an action waits for them. The wait
//! holds no worker, and sends no request for objects that a watch covers, unless the release is about to fail because
//! of one of them: only the server's answer decides that.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use helm::sequence::{GROUP, Turn, chart_of, name};
use tokio::time::Instant;

use super::Environment;
use crate::kube::{Decoration, Error, Live, Object, ObjectKey, Pause, Unready, without_slot};

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
    /// The watch that covers it has yet to list.
    Unlisted,
    /// No watch covers it, so it must be read.
    Unwatched,
}

impl Health {
    /// Returns the health of a live object by its own fields alone.
    pub fn by_itself(key: &ObjectKey, live: &Live) -> Health {
        live.unready_as_annotated(&key.group, &key.kind).map_or(Health::Ready, Health::Unready)
    }
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
    /// The server did not answer whether an object is ready, or forbids to ask, so it may be.
    #[error("{what}")]
    Unanswered {
        /// The group, and the object that cannot be read.
        what: String,
        source: Error,
    },
    /// The wait was ended from outside ([`Slot::interruption`](crate::kube::Slot::interruption)).
    #[error("stopped waiting for group {group} ({object}): {why}")]
    Interrupted { group: String, object: String, why: &'static str },
}

impl GroupError {
    /// Returns whether it is unknown if the group is ready.
    pub(super) fn is_unanswered(&self) -> bool {
        matches!(self, GroupError::Unanswered { .. })
    }

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
    /// Whether the server deletes it once it finished: if it is missing, it is ready.
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

/// What keeps an object from counting as ready.
enum State {
    /// It is not ready.
    Unready(Unready),
    /// The objects of its kind are not listed yet.
    Unlisted,
    /// It cannot be read.
    Unread(Error),
}

impl State {
    /// Returns what keeps an object from counting as ready; `None` if it is.
    fn of(health: Health, awaited: &Awaited<'_>) -> Option<State> {
        match health {
            Health::Ready => None,
            Health::Unready(unready) => Some(State::Unready(unready)),
            // The server deletes the object once it finished, so it has finished.
            Health::Absent if awaited.expires => None,
            Health::Absent => Some(State::Unready(Unready::because("it does not exist"))),
            Health::Unlisted | Health::Unwatched => Some(State::Unlisted),
        }
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            State::Unready(unready) => f.write_str(&unready.why),
            State::Unlisted => f.write_str("the objects of its kind are not listed yet"),
            State::Unread(error) => write!(f, "it cannot be read: {}", error.named()),
        }
    }
}

/// An object that does not count as ready, and why.
struct Pending<'a> {
    awaited: Awaited<'a>,
    state: State,
}

impl Pending<'_> {
    /// Returns why it is not ready; `None` if that is not known.
    fn unready(&self) -> Option<&Unready> {
        if let State::Unready(unready) = &self.state { Some(unready) } else { None }
    }

    fn has_failed(&self) -> bool {
        self.unready().is_some_and(|unready| unready.failed)
    }

    /// Returns the part of the reason that another program wrote; may be empty.
    fn quoted(&self) -> &str {
        self.unready().filter(|unready| unready.quotes).map_or("", |unready| &unready.why)
    }
}

impl fmt::Display for Pending<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.awaited.key, self.state)
    }
}

/// How far objects are, in their order.
type Progress = Vec<(ObjectKey, u64)>;

/// Returns how far these objects are; `None` if that is not known of one.
fn progress(pending: &[Pending<'_>]) -> Option<Progress> {
    pending.iter().map(|one| Some((one.awaited.key.clone(), one.unready()?.progress))).collect()
}

/// Waits until objects are ready. `round` is the number of their round, and the number of rounds.
///
/// # Errors
/// An object failed, nothing changed for too long, the server did not answer whether that is so, or the slot ended the
/// wait.
pub(super) async fn until_ready(
    env: &Environment<'_>,
    awaited: &[Awaited<'_>],
    round: (usize, usize),
) -> Result<(), GroupError> {
    let mut wait = Wait { env, round, since: Instant::now(), seen: Progress::new() };
    let (pending, is_watched) = pending(env, awaited).await;
    if wait.goes_on(&pending).await? {
        without_slot(env.slot, wait.until_ready(awaited, is_watched)).await?;
    }
    Ok(())
}

struct Wait<'a> {
    env: &'a Environment<'a>,
    round: (usize, usize),
    /// When something changed last, as far as is known.
    since: Instant,
    seen: Progress,
}

impl Wait<'_> {
    async fn until_ready(&mut self, awaited: &[Awaited<'_>], is_watched: bool) -> Result<(), GroupError> {
        let mut pause = if is_watched { Pause::default() } else { Pause::up_to(READ_AGAIN) };
        loop {
            self.env.slot.pause(pause.next()).await;
            let (pending, _) = pending(self.env, awaited).await;
            if !self.goes_on(&pending).await? {
                return Ok(());
            }
        }
    }

    /// Returns whether to wait any longer for these objects. Before the release fails because of them, the server is asked:
    /// what is known may be outdated, because a watch is interrupted.
    async fn goes_on(&mut self, pending: &[Pending<'_>]) -> Result<bool, GroupError> {
        if let Some(now) = progress(pending) {
            self.note(now);
        }
        if pending.iter().any(Pending::has_failed) || self.reached_limit().is_some() {
            let Some(asked) = ask_all(self.env, pending).await else { return self.waits_for(pending) };
            let unready = self.judge(asked)?;
            return self.waits_for(&unready);
        }
        self.waits_for(pending)
    }

    fn note(&mut self, now: Progress) {
        if now != self.seen {
            (self.since, self.seen) = (Instant::now(), now);
        }
    }

    /// Returns the limit once nothing has changed for that long.
    fn reached_limit(&self) -> Option<Duration> {
        self.env.options.group_timeout.filter(|limit| self.since.elapsed() >= *limit)
    }

    /// Judges objects as the server has just described them. Returns those that are not ready, if the wait goes on.
    fn judge<'p>(&mut self, asked: Vec<Pending<'p>>) -> Result<Vec<Pending<'p>>, GroupError> {
        if let Some(failed) = asked.iter().find(|one| one.has_failed()) {
            let (group, object, why) = self.named(failed);
            return Err(GroupError::Failed { group, object, why });
        }
        let Some(now) = progress(&asked) else { return self.known(asked) };
        self.note(now);
        if let (Some(limit), Some(first)) = (self.reached_limit(), asked.first()) {
            let (group, object, why) = self.named(first);
            let limit = golibs::time::Duration::from(limit).to_string();
            return Err(GroupError::TimedOut { group, object, why, limit });
        }
        Ok(asked)
    }

    /// Fails with the first of these objects that could not be read.
    fn known<'p>(&self, asked: Vec<Pending<'p>>) -> Result<Vec<Pending<'p>>, GroupError> {
        let mut known = Vec::with_capacity(asked.len());
        for one in asked {
            match one.state {
                State::Unread(source) => {
                    let (group, object) = (one.awaited.group(&self.env.decoration), one.awaited.key);
                    let what = format!("group {group} is not known to be ready: cannot read {object}");
                    return Err(GroupError::Unanswered { what, source });
                }
                state => known.push(Pending { awaited: one.awaited, state }),
            }
        }
        Ok(known)
    }

    /// Returns the group of an object, the object, and why it does not count as ready.
    fn named(&self, one: &Pending<'_>) -> (String, String, String) {
        (one.awaited.group(&self.env.decoration), one.awaited.key.to_string(), one.state.to_string())
    }

    /// Returns whether there are objects to wait for, and reports the first.
    fn waits_for(&self, pending: &[Pending<'_>]) -> Result<bool, GroupError> {
        let Some(first) = pending.first() else { return Ok(false) };
        let (group, object, _) = self.named(first);
        if let Some(why) = self.env.slot.interruption() {
            return Err(GroupError::Interrupted { group, object, why });
        }
        let (number, of) = self.round;
        let more = if pending.len() > 1 { format!(" and {} more", pending.len() - 1) } else { String::new() };
        let what = format!("group {group} (round {number} of {of}): {first}{more}");
        self.env.slot.waiting_for(&what, first.quoted());
        Ok(true)
    }
}

/// Returns the objects that do not count as ready, and whether watches cover all of them.
async fn pending<'a>(env: &Environment<'_>, awaited: &[Awaited<'a>]) -> (Vec<Pending<'a>>, bool) {
    let (mut all, mut is_watched) = (Vec::new(), true);
    for one in awaited {
        let state = match env.live.health(one.key) {
            Health::Unwatched => {
                is_watched = false;
                ask(env, one).await
            }
            health => State::of(health, one),
        };
        all.extend(state.map(|state| Pending { awaited: *one, state }));
    }
    (all, is_watched)
}

/// Asks the server for these objects. Returns those that do not count as ready; `None` if the wait is interrupted. Stops at
/// the first request without a response, because the others would have none either.
async fn ask_all<'a>(env: &Environment<'_>, pending: &[Pending<'a>]) -> Option<Vec<Pending<'a>>> {
    let mut all = Vec::new();
    for Pending { awaited, .. } in pending {
        if env.slot.interruption().is_some() {
            return None;
        }
        let state = ask(env, awaited).await;
        let is_lost = matches!(&state, Some(State::Unread(error)) if error.code().is_none());
        all.extend(state.map(|state| Pending { awaited: *awaited, state }));
        if is_lost {
            break;
        }
    }
    Some(all)
}

/// Asks the server what keeps an object from counting as ready; returns `None` if it is. A failed request is repeated, as
/// part of the wait.
async fn ask(env: &Environment<'_>, awaited: &Awaited<'_>) -> Option<State> {
    let (key, api_version) = (awaited.key, &awaited.object.api_version);
    let answer = match (env.applier.ask(key, api_version).await, env.live.reader()) {
        (Err(error), Some(reader)) if error.is_forbidden() => reader.ask(key, api_version).await,
        (answer, _) => answer,
    };
    match answer {
        Ok(live) => State::of(env.live.answered(awaited.key, live.as_ref()), awaited),
        Err(error) => Some(State::Unread(error)),
    }
}
