//! Runs one hook: records the run, creates or finds its objects, and waits until they finish or time out.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;
use tokio::time::Instant;

use super::decide::{Absence, Evidence, Expiry, Outcome, absence, evidence, expiry, outcome};
use super::objects::{self, Stamp};
use super::{HookError, HookRun};
use crate::kube::api::{Call, Error};
use crate::kube::apply::{Applier, describe};
use crate::kube::{Object, Response, is_transient};
use crate::release::{DeletePolicy, Hook, HookPhase, LastRun, Release};

/// How long to wait for a response before sending a request again.
const REQUEST_LIMIT: Duration = Duration::from_secs(30);
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LAST_PAUSE: Duration = Duration::from_secs(2);
/// The longest pause between creates that the server keeps rejecting with transient errors.
const LAST_REFUSED_PAUSE: Duration = Duration::from_secs(15);
/// How long to retry a create that the server keeps rejecting. The server is up, so the action fails and is retried later.
const REFUSED_LIMIT: Duration = Duration::from_secs(120);

impl Applier {
    pub(super) async fn run_hook(&self, release: &mut Release, at: usize, run: &HookRun<'_>) -> Result<(), HookError> {
        let hook = &mut release.hooks[at];
        if hook.last_run.phase == HookPhase::Succeeded {
            return Ok(());
        }
        if hook.delete_policies.is_empty() {
            hook.delete_policies = vec![DeletePolicy::BeforeHookCreation];
        }
        let ended = self.start_and_wait(release, at, run).await;
        let last_run = &mut release.hooks[at].last_run;
        last_run.phase = if ended.is_ok() { HookPhase::Succeeded } else { HookPhase::Failed };
        last_run.completed_at = Some(Timestamp::now());
        ended
    }

    async fn start_and_wait(&self, release: &mut Release, at: usize, run: &HookRun<'_>) -> Result<(), HookError> {
        let objects = objects::of(&release.hooks[at])?;
        let phase = release.hooks[at].last_run.phase;
        let resumed = matches!(phase, HookPhase::Running | HookPhase::Unknown);
        let expiring = objects.iter().any(|object| expiry(&object.kind, &object.body) == Expiry::AfterFinish);
        if !resumed {
            self.delete_by_policy(&release.hooks[at], DeletePolicy::BeforeHookCreation, run).await?;
            let phase = if expiring { HookPhase::Unknown } else { HookPhase::Running };
            release.hooks[at].last_run = LastRun { started_at: Some(Timestamp::now()), completed_at: None, phase };
            record(release, at, run).await?;
        }
        let stamp = Stamp::of(release, at);
        let hook = release.hooks[at].clone();
        let clock = Clock::start(&hook, run);
        let mut awaited = Vec::new();
        for object in &objects {
            let found = if resumed { self.find_resumed(object, &stamp, phase, &clock).await? } else { None };
            match found {
                Some(Found::Ended) => {}
                Some(Found::At(path)) => awaited.push((object, path)),
                None => awaited.push((object, self.create_and_retry(object, &stamp, &clock).await?)),
            }
        }
        if release.hooks[at].last_run.phase == HookPhase::Unknown {
            release.hooks[at].last_run.phase = HookPhase::Running;
            record(release, at, run).await?;
        }
        for (object, path) in awaited {
            self.wait_for(object, &path, &clock).await?;
        }
        Ok(())
    }

    /// Finds the object of a run that an earlier process started; `None` if it has to be created.
    async fn find_resumed(
        &self,
        object: &Object,
        stamp: &Stamp,
        phase: HookPhase,
        clock: &Clock<'_>,
    ) -> Result<Option<Found>, HookError> {
        let what = format!("{} to be found", describe(object));
        if let Some(path) = clock.retry(&what, || self.find(object, stamp, clock.run)).await? {
            return Ok(Some(Found::At(path)));
        }
        let expiry = expiry(&object.kind, &object.body);
        match absence(evidence(phase, expiry), expiry) {
            Absence::Ended(Outcome::Succeeded) => Ok(Some(Found::Ended)),
            Absence::Ended(Outcome::Failed(why)) => Err(clock.failed(object, &why)),
            Absence::Create => {
                // Whatever has the name belongs to an earlier run.
                if clock.hook.delete_policies.contains(&DeletePolicy::BeforeHookCreation) && !object.name.is_empty() {
                    self.delete_hook(object, clock).await?;
                }
                Ok(None)
            }
        }
    }

    /// Creates an object, retrying while the server is unavailable.
    async fn create_and_retry(&self, object: &Object, stamp: &Stamp, clock: &Clock<'_>) -> Result<String, HookError> {
        let what = format!("{} to be created", describe(object));
        clock.retry_until(&what, Some(REFUSED_LIMIT), || self.create_once(object, stamp, clock.run)).await
    }

    /// Waits until a Job or Pod finishes.
    async fn wait_for(&self, object: &Object, path: &str, clock: &Clock<'_>) -> Result<(), HookError> {
        let name = format!("{} {:?}", object.kind, path.rsplit('/').next().unwrap_or_default());
        let what = format!("{name} to finish");
        let (mut seen, mut pause) = (Value::Null, Pause::default());
        loop {
            let live = clock.retry(&what, || self.get(path)).await?;
            let ended = match live {
                Some(live) => {
                    seen = live["status"].clone();
                    outcome(&object.kind, &seen)
                }
                None => match absence(Evidence::Seen(&seen), expiry(&object.kind, &object.body)) {
                    Absence::Ended(outcome) => Some(outcome),
                    Absence::Create => Some(Outcome::Succeeded),
                },
            };
            match ended {
                Some(Outcome::Succeeded) => return Ok(()),
                Some(Outcome::Failed(why)) => {
                    return Err(HookError::Failed { path: clock.hook.path.clone(), why: format!("{name}: {why}") });
                }
                None => clock.wait(&what, None, &mut pause).await?,
            }
        }
    }

    /// Reads an object; `None` if it does not exist.
    pub(super) async fn get(&self, path: &str) -> Result<Option<Value>, Error> {
        let answer: Result<Response, Error> = self.api().send(Call::get(path)).await;
        match answer {
            Err(error) if error.is_not_found() => Ok(None),
            answer => answer?.parse().map(Some),
        }
    }
}

/// The hook object of an earlier process.
enum Found {
    /// It exists, at this path.
    At(String),
    /// It finished, and the server deleted it.
    Ended,
}

async fn record(release: &Release, at: usize, run: &HookRun<'_>) -> Result<(), HookError> {
    let clock = Clock::start(&release.hooks[at], run);
    let mut pause = Pause::default();
    loop {
        match run.journal.record(release).await {
            Ok(()) => return Ok(()),
            Err(error) if is_transient(&*error) => {
                clock.wait("the release to be recorded", Some(&error.to_string()), &mut pause).await?;
            }
            Err(source) => return Err(HookError::Record { path: clock.hook.path.clone(), source }),
        }
    }
}

/// The time budget of a hook.
pub(super) struct Clock<'a> {
    pub(super) hook: &'a Hook,
    pub(super) run: &'a HookRun<'a>,
    started: Instant,
    /// The time that passed before this process started to wait.
    before: Duration,
}

impl<'a> Clock<'a> {
    /// Starts the clock: at the recorded start of a running hook, whichever process started it, otherwise now.
    pub(super) fn start(hook: &'a Hook, run: &'a HookRun<'a>) -> Clock<'a> {
        let running = matches!(hook.last_run.phase, HookPhase::Running | HookPhase::Unknown);
        let before = hook.last_run.started_at.filter(|_| running).map(|at| Timestamp::now().duration_since(at));
        let before = before.and_then(|passed| Duration::try_from(passed).ok()).unwrap_or_default();
        Clock { hook, run, started: Instant::now(), before }
    }

    fn elapsed(&self) -> Duration {
        self.before + self.started.elapsed()
    }

    /// Repeats a request until it succeeds or fails permanently.
    pub(super) async fn retry<T, F>(&self, what: &str, ask: impl FnMut() -> F) -> Result<T, HookError>
    where
        F: Future<Output = Result<T, Error>>,
    {
        self.retry_until(what, None, ask).await
    }

    /// As [`Clock::retry`], but gives up once the server has rejected the request for as long as `refused`.
    async fn retry_until<T, F>(
        &self,
        what: &str,
        refused: Option<Duration>,
        mut ask: impl FnMut() -> F,
    ) -> Result<T, HookError>
    where
        F: Future<Output = Result<T, Error>>,
    {
        let mut pause = if refused.is_some() { Pause::up_to(LAST_REFUSED_PAUSE) } else { Pause::default() };
        let mut refused_since: Option<Instant> = None;
        loop {
            let answer = tokio::time::timeout(REQUEST_LIMIT, ask()).await;
            let is_refusal = matches!(answer, Ok(Err(Error::Refused { .. })));
            refused_since = is_refusal.then(|| refused_since.unwrap_or_else(Instant::now));
            let over = refused.zip(refused_since).is_some_and(|(limit, since)| since.elapsed() >= limit);
            let trouble = match answer {
                Ok(Ok(answer)) => return Ok(answer),
                Ok(Err(error)) if error.is_transient() && !over => error.to_string(),
                Ok(Err(source)) => return Err(HookError::Api { path: self.hook.path.clone(), source }),
                Err(_) => format!("no answer within {} s", REQUEST_LIMIT.as_secs()),
            };
            tracing::debug!(hook = self.hook.path, what, trouble, "waiting for the API server");
            self.wait(what, Some(&trouble), &mut pause).await?;
        }
    }

    /// Pauses before the next poll; fails if the hook timed out.
    pub(super) async fn wait(&self, what: &str, trouble: Option<&str>, pause: &mut Pause) -> Result<(), HookError> {
        let what = trouble.map_or_else(|| what.to_owned(), |trouble| format!("{what} ({trouble})"));
        let (elapsed, limit) = (self.elapsed(), self.run.timeout);
        let left = limit.map(|limit| limit.saturating_sub(elapsed));
        if left == Some(Duration::ZERO) {
            let limit = go_duration(limit.unwrap_or_default());
            return Err(HookError::TimedOut { path: self.hook.path.clone(), limit, what });
        }
        self.run.slot.waiting_for(&format!("hook {}: waiting for {what} ({})", self.hook.path, passed(elapsed, limit)));
        tokio::time::sleep(pause.next().min(left.unwrap_or(Duration::MAX))).await;
        Ok(())
    }

    pub(super) fn failed(&self, object: &Object, why: &str) -> HookError {
        HookError::Failed { path: self.hook.path.clone(), why: format!("{}: {why}", describe(object)) }
    }
}

/// Formats `2m0s of 1h0m0s`.
fn passed(elapsed: Duration, limit: Option<Duration>) -> String {
    let elapsed = go_duration(Duration::from_secs(elapsed.as_secs()));
    limit.map_or(elapsed.clone(), |limit| format!("{elapsed} of {}", go_duration(limit)))
}

/// Formats a duration as Go does: `1h0m0s`.
fn go_duration(duration: Duration) -> String {
    golibs::time::Duration(i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX)).to_string()
}

/// Growing pauses between polls.
pub(super) struct Pause {
    next: Duration,
    last: Duration,
}

impl Default for Pause {
    fn default() -> Self {
        Pause::up_to(LAST_PAUSE)
    }
}

impl Pause {
    fn up_to(last: Duration) -> Pause {
        Pause { next: FIRST_PAUSE, last }
    }

    fn next(&mut self) -> Duration {
        let now = self.next;
        self.next = (now * 2).min(self.last);
        now
    }
}
