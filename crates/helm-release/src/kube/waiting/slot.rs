//! The worker slot that a long wait gives up.

use std::time::Duration;

use futures::future::BoxFuture;

use crate::kube::objects::object::ObjectKey;
use crate::release::{Hook, HookEvent};

/// The live object of a hook that a run waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HookObject {
    /// Its kind, namespace and name on the server.
    pub key: ObjectKey,
    /// Its API version.
    pub api_version: String,
    /// Its uid, which distinguishes it and its pods from namesakes.
    pub uid: String,
}

/// A worker slot, which a run releases while it waits for hooks or deletions.
pub trait Slot: Send + Sync {
    /// Releases the slot.
    fn leave(&self);
    /// Waits for a free slot and takes it.
    fn enter(&self) -> BoxFuture<'_, ()>;
    /// Pauses between two polls. Never returns once the process stops, or no longer serves the release: the caller then
    /// drops the action, and no request of the wait is in flight. The next process resumes the wait.
    fn pause(&self, time: Duration) -> BoxFuture<'_, ()> {
        Box::pin(tokio::time::sleep(time))
    }
    /// Reports what the run waits for: `hook templates/x.yaml: waiting for Job "y" to finish (2m0s of 1h0m0s)`. `quoted`
    /// is the part of it that another program wrote, which may contain values; often empty. Called at every poll, every
    /// 50 ms at first and every 2 s later; must return immediately.
    fn waiting_for(&self, _what: &str, _quoted: &str) {}
    /// Reports that a hook waits for its object to end, as `waiting_for` does; the object shows why.
    fn hook_waits(&self, _object: &HookObject, what: &str) {
        self.waiting_for(what, "");
    }
    /// Returns why the run must no longer wait for a hook or a group of objects, for example because its release must be
    /// uninstalled. Called at every poll while the server answers; must return immediately. A hook then fails with
    /// [`HookError::Interrupted`](crate::kube::HookError::Interrupted).
    fn interruption(&self) -> Option<&'static str> {
        None
    }
    /// Reports that a hook has ended, with its times and its phase in `last_run`. Must return immediately.
    fn hook_ended(&self, _hook: &Hook, _event: HookEvent) {}
    /// Reports that a hook's Job or Pod failed, or did not end in time, while it still exists. The run continues afterwards,
    /// so it must return soon.
    fn hook_failed<'a>(&'a self, _object: &'a HookObject) -> BoxFuture<'a, ()> {
        Box::pin(async {})
    }
    /// Reports that the action goes on beside a hook that may still run, because the server keeps answering its deletion
    /// with errors. Must return immediately.
    fn hook_left(&self, _what: &str) {}
    /// Reports that the action goes on beside an object of a hook that succeeded, for the same reason. Must return
    /// immediately.
    fn succeeded_hook_left(&self, _what: &str) {}
    /// Reports that the run has deleted an object in order to recreate it, and why. Must return immediately.
    fn recreating(&self, _object: &ObjectKey, _why: &str) {}
}

/// A slot without a worker limit.
impl Slot for () {
    fn leave(&self) {}

    fn enter(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {})
    }
}

/// Releases the worker slot while `work` runs.
pub(crate) async fn without_slot<T>(slot: &dyn Slot, work: impl Future<Output = T>) -> T {
    slot.leave();
    let done = work.await;
    slot.enter().await;
    done
}
