//! The time budget of a hook: retries of requests, pauses between polls, and the timeout.

use std::time::Duration;

use golibs::time;
use outside::Error;
use tokio::time::Instant;

use super::{HookError, HookRun, Patience};
use crate::kube::objects::object::Object;
use crate::kube::waiting::pause::Pause;
use crate::kube::waiting::slot::HookObject;
use crate::kube::writes::apply::describe;
use crate::release::{Hook, HookPhase};

/// How long to wait for a response before sending a request again.
const REQUEST_LIMIT: Duration = Duration::from_secs(30);
/// Maximum pause between creates that the server keeps rejecting with transient errors.
const LAST_REFUSED_PAUSE: Duration = Duration::from_secs(15);
/// How long the server may keep rejecting a request with transient errors before the action gives up, or before an
/// interruption is heeded. The server is up, so what would follow may be answered.
pub(super) const REFUSED_LIMIT: Duration = Duration::from_secs(120);

/// The time budget of a hook.
pub(super) struct Clock<'a> {
    pub(super) hook: &'a Hook,
    pub(super) run: &'a HookRun<'a>,
    started: Instant,
    /// The time that passed before this process began to wait.
    before: Duration,
    /// How long the server may keep rejecting a request with transient errors; `None` sets no other limit than the hook's.
    refused: Option<Duration>,
}

impl<'a> Clock<'a> {
    /// Starts the clock: for a running hook at its recorded start, whichever process started it, otherwise now.
    pub(super) fn start(hook: &'a Hook, run: &'a HookRun<'a>) -> Clock<'a> {
        let running = matches!(hook.last_run.phase, HookPhase::Running | HookPhase::Unknown);
        let before = hook.last_run.started_at.filter(|_| running).map(|at| outside::now().duration_since(at));
        let before = before.and_then(|passed| Duration::try_from(passed).ok()).unwrap_or_default();
        Clock { hook, run, started: Instant::now(), before, refused: None }
    }

    /// Limits how long the server may keep rejecting each request with transient errors.
    pub(super) fn refused_for(&self, limit: Duration) -> Clock<'a> {
        Clock { refused: Some(limit), ..*self }
    }

    fn elapsed(&self) -> Duration {
        self.before + self.started.elapsed()
    }

    /// Repeats a request until it succeeds or fails permanently. Once the server has rejected it for [`REFUSED_LIMIT`], for
    /// example because a webhook fails, the hook may be interrupted.
    pub(super) async fn retry<T, F>(&self, what: &str, ask: impl FnMut() -> F) -> Result<T, HookError>
    where
        F: Future<Output = Result<T, Error>>,
    {
        self.retry_until(what, self.refused, ask).await
    }

    /// Repeats a request as [`Clock::retry`] does, but gives up once the server has rejected it for as long as
    /// `refused`.
    pub(super) async fn retry_until<T, F>(
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
            let is_over = |limit: Duration| refused_since.is_some_and(|since| since.elapsed() >= limit);
            let over = refused.is_some_and(is_over);
            let trouble = match answer {
                Ok(Ok(answer)) => return Ok(answer),
                Ok(Err(error)) if error.is_transient() && !over => error.named(),
                Ok(Err(source)) => return Err(HookError::Api { path: self.hook.path.clone(), source }),
                Err(_) => format!("no answer within {} s", REQUEST_LIMIT.as_secs()),
            };
            tracing::debug!(hook = self.hook.path, what, trouble, "waiting for the API server");
            if is_over(REFUSED_LIMIT) {
                self.check(&format!("{what} ({trouble})"))?;
            }
            self.wait(what, Some(&trouble), &mut pause).await.map_err(|error| error.with_answer(is_refusal))?;
        }
    }

    /// Pauses before the next poll; fails if the hook timed out or was interrupted. Ignores interruptions in `trouble`: if
    /// the server does not answer, it would not answer the action that would follow either.
    pub(super) async fn wait(&self, what: &str, trouble: Option<&str>, pause: &mut Pause) -> Result<(), HookError> {
        self.wait_on(what, trouble, None, pause).await
    }

    /// Pauses like [`Clock::wait`], and names the object of the hook that it waits for.
    pub(super) async fn wait_on(
        &self,
        what: &str,
        trouble: Option<&str>,
        object: Option<&HookObject>,
        pause: &mut Pause,
    ) -> Result<(), HookError> {
        let answered = trouble.is_none();
        let what = trouble.map_or_else(|| what.to_owned(), |trouble| format!("{what} ({trouble})"));
        let (elapsed, limit) = (self.elapsed(), self.run.timeout);
        let left = limit.map(|limit| limit.saturating_sub(elapsed));
        if left == Some(Duration::ZERO) {
            let limit = time::Duration::from(limit.unwrap_or_default()).to_string();
            let path = self.hook.path.clone();
            return Err(match answered {
                true => HookError::TimedOut { path, limit, what },
                false => HookError::Unanswered { path, limit, what, was_answered: false },
            });
        }
        if answered {
            self.check(&what)?;
        }
        let text = format!("hook {}: waiting for {what} ({})", self.hook.path, passed(elapsed, limit));
        match object {
            Some(object) => self.run.slot.hook_waits(object, &text),
            None => self.run.slot.waiting_for(&text, ""),
        }
        self.run.slot.pause(pause.next().min(left.unwrap_or(Duration::MAX))).await;
        Ok(())
    }

    /// Fails if the hook is interrupted: then nothing is worth waiting for or creating again.
    pub(super) fn check(&self, what: &str) -> Result<(), HookError> {
        let interruption = match self.run.patience {
            Patience::UntilInterrupted => self.run.slot.interruption(),
            Patience::Full => None,
        };
        let failed = |why| HookError::Interrupted { path: self.hook.path.clone(), what: what.to_owned(), why };
        interruption.map_or(Ok(()), |why| Err(failed(why)))
    }

    pub(super) fn failed(&self, object: &Object, why: &str) -> HookError {
        HookError::Failed { path: self.hook.path.clone(), why: format!("{}: {why}", describe(object)) }
    }
}

/// Formats progress as `2m0s of 1h0m0s`.
fn passed(elapsed: Duration, limit: Option<Duration>) -> String {
    let elapsed = time::Duration::from(Duration::from_secs(elapsed.as_secs()));
    limit.map_or(elapsed.to_string(), |limit| format!("{elapsed} of {}", time::Duration::from(limit)))
}
