//! The invariants of Jobs: no hook runs twice for one revision, and a finished Job does not run again.

use std::time::Duration;

use helm_release::storage::{MARKS_ANNOTATION, Marks};
use serde_json::Value;
use tokio::time::Instant;

use crate::checks::{Checks, Resource};
use crate::names::{self, JOBS};
use crate::quiet::status_of;
use crate::world::Change;

/// How long a write of a process that ended may be on the way.
const ON_THE_WAY: Duration = Duration::from_secs(1);

/// A Job that the server deletes once it finished.
#[derive(Clone)]
pub(crate) struct Task {
    /// What it runs, which the server does not change.
    template: Option<Value>,
    has_finished: bool,
    /// How many processes had ended when it was created.
    ends: u32,
    /// How often processes had lost contact with the server before it was being created.
    losses: u32,
    /// Whether a revision that has it was deployed or failed since then.
    pub(crate) is_recorded: bool,
}

impl Checks {
    /// Records that a process ended.
    pub fn process_ends(&mut self) {
        self.ends += 1;
        self.last_end = Some(Instant::now());
    }

    /// Records that all watches end, or cannot continue: what a process does not record from now on, it forgets.
    pub fn contact_is_lost(&mut self) {
        self.losses += 1;
        self.last_loss = Some(Instant::now());
    }

    /// Returns how often contact was lost before this write's action began to send it. Its record follows a moment later.
    fn losses_before(&self, change: &Change) -> u32 {
        let is_under_way = self.last_loss.is_some_and(|loss| change.at < loss + ON_THE_WAY);
        self.losses.saturating_sub(is_under_way.into())
    }

    /// Returns how many processes had ended before the one that sent this write. A process that ends may have a write on
    /// the way, and the next one reads first.
    fn ends_before(&self, change: &Change) -> u32 {
        self.ends.saturating_sub(self.is_on_the_way(change).into())
    }

    /// Returns whether a process that ended may have sent this write.
    pub(crate) fn is_on_the_way(&self, change: &Change) -> bool {
        self.last_end.is_some_and(|end| change.at < end + ON_THE_WAY)
    }

    /// Checks (g) that no hook runs twice for one revision, and that a finished Job does not run again.
    pub(crate) fn job(&mut self, change: &Change) -> Option<String> {
        let (ends, losses, all_losses) = (self.ends_before(change), self.losses_before(change), self.losses);
        let (name, resource) = self
            .resources
            .iter_mut()
            .find(|(name, _)| JOBS[..2].iter().any(|job| names::path(job, name) == *change.path))?;
        let run = |job: &Value| job["metadata"]["annotations"]["example.com/run"].as_str().map(str::to_owned);
        let template = |job: &Value| job.pointer("/spec/template/spec").cloned();
        let is_hook = change.path.ends_with("-hook");
        if let Some(job) = change.after.as_ref().filter(|_| !is_hook) {
            let has_finished = job["status"]["succeeded"] == 1;
            _ = resource.tasks.insert(image(job), has_finished);
        }
        match (&change.before, &change.after) {
            (None, Some(job)) if is_hook && change.by.starts_with("op-") => {
                let run = run(job)?;
                // Other values in between restart the action.
                let is_wrong = resource.hook.replace(run.clone()).as_ref() == Some(&run)
                    && !resource.judged
                    && !resource.is_helms
                    && !resource.is_claimed;
                is_wrong.then(|| format!("(g) the hook of {name} ran again for revision {run}"))
            }
            (None, Some(job)) if !is_hook => {
                let new = Task { template: template(job), has_finished: false, ends, losses, is_recorded: false };
                let before = resource.task.replace(new)?;
                let is_again = before.has_finished && before.template == template(job);
                // A process that ends, or loses contact, between creating a Job and recording its revision leaves no trace of
                // the Job once that is gone (COMPATIBILITY.md).
                let is_forgotten = (before.ends < ends || before.losses < all_losses) && !before.is_recorded;
                let is_wrong =
                    is_again && !is_forgotten && !resource.judged && !resource.is_helms && !resource.is_claimed;
                is_wrong.then(|| format!("(a) the Job of {name} runs again"))
            }
            (_, Some(job)) if !is_hook => {
                let task = resource.task.as_mut()?;
                task.has_finished = job["status"]["succeeded"] == 1;
                None
            }
            _ => None,
        }
    }
}

/// Returns what a Job runs.
fn image(job: &Value) -> String {
    job.pointer("/spec/template/spec/containers/0/image").and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// Records what a record tells of the release's Job. A release that was removed because its hook failed starts it over.
pub(crate) fn note_task(resource: &mut Resource, change: &Change, is_only: bool) {
    if is_only && change.after.is_none() && resource.failed_hooks > 0 {
        resource.task = None;
    }
    if let Some(task) = &mut resource.task {
        let tells =
            |record: &Value| matches!(status_of(Some(record)), Some("deployed" | "failed")) && names_a_job(record);
        // One that is imported is of an earlier Job.
        let is_news = change.before.as_deref().is_some_and(|before| !tells(before));
        task.is_recorded |= is_news && change.after.as_deref().is_some_and(tells);
    }
}

/// Records that an action starts over, because a process with another chart or other values has rendered its record, so
/// its hook runs again.
pub(crate) fn note_attempt(resource: &mut Resource, change: &Change) {
    let rendered = [&change.before, &change.after].map(|record| inputs(record.as_deref()));
    if let [Some(before), Some(after)] = rendered
        && before != after
    {
        resource.hook = None;
    }
}

/// Returns whether a record says that a Job was applied which the server deletes once it finished. One that a later
/// process gives up does not.
fn names_a_job(record: &Value) -> bool {
    marks(record).is_some_and(|marks| marks.objects.iter().any(|object| object.expires))
}

/// Returns the digest of what a record was rendered from; `None` if a person made it.
pub(crate) fn inputs(record: Option<&Value>) -> Option<String> {
    Some(marks(record?)?.inputs)
}

fn marks(record: &Value) -> Option<Marks> {
    Marks::parse(record["metadata"]["annotations"][MARKS_ANNOTATION].as_str()?)
}
