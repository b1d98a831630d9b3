//! Overwrites objects of the release that have the name of a hook's object, as Helm v4 does: it applies hooks.
//!
//! A chart and its subchart may ship the same hook, and a hook without the policy `before-hook-creation` finds the
//! object of an earlier run.

use outside::{Error, Response};
use serde_json::Value;
use tokio::time::Instant;

use super::clock::Clock;
use super::decide::{Standing, in_the_way, should_be_gone, standing};
use super::objects::{Made, Stamp, check_ours};
use super::{HOOK_RUN_ANNOTATION, HookError, MadeBy};
use crate::kube::live_state::live::Live;
use crate::kube::objects::object::Object;
use crate::kube::waiting::pause::Pause;
use crate::kube::writes::apply::{Applier, bytes, describe};
use crate::kube::writes::found::{Existing, Found};
use crate::kube::writes::write::{Body, Previous};

impl Applier {
    /// Overwrites the object with this one's name. Returns `None` if it was deleted in the meantime, so that it can be
    /// created. The Job or Pod of an earlier run whose hook succeeded is deleted, if that was its policy.
    ///
    /// # Errors
    /// It belongs to someone else, or is a Job or Pod that no hook of this event made. The server rejects the change, or
    /// the hook is interrupted.
    pub(super) async fn overwrite_hook(
        &self,
        object: &Object,
        stamp: &Stamp,
        clock: &Clock<'_>,
    ) -> Result<Option<Made>, HookError> {
        let what = format!("{} to be overwritten", describe(object));
        let body = clock.retry(&what, || self.stamped(object, stamp, clock.run)).await?;
        let mut pause = Pause::default();
        while let Some(metadata) = clock.retry(&what, || self.read_metadata::<Value>(&body.path)).await? {
            let live = clock.retry(&what, || async { Response::from(bytes(&metadata)).parse::<Live>() }).await?;
            if !live.deleting {
                let made_by = metadata["metadata"]["annotations"][HOOK_RUN_ANNOTATION].as_str();
                let standing = standing(&object.kind, made_by, stamp.counting(&object.kind));
                if made_by.is_none() || standing == Standing::Left {
                    // A person's action that has replaced the revision may have just made it.
                    clock.check(&format!("{} to be created", describe(object)))?;
                }
                check_ours(&live, &metadata, object, &body.key.namespace, clock)?;
                if standing == Standing::Left {
                    if self.delete_succeeded_before(object, &body.path, stamp, clock).await? {
                        return Ok(None);
                    }
                    let why = in_the_way(made_by, &clock.hook.delete_policies);
                    return Err(HookError::Left { path: clock.hook.path.clone(), object: describe(object), why });
                }
                let asked = Instant::now();
                match clock.retry(&what, || self.apply_if_unchanged(&body, &metadata)).await {
                    Ok(Some(live)) => return Ok(Some(Made::of(object, body.path, &live, asked))),
                    Ok(None) => {}
                    // The hook that made it has finished, and this one differs in an immutable field.
                    Err(HookError::Api { source, .. }) if standing == Standing::Finished && source.is_immutable() => {
                        self.clear_place(object, (MadeBy::ThisAction, stamp), clock).await?;
                        return Ok(None);
                    }
                    Err(error) => return Err(error),
                }
            }
            clock.wait(&what, None, &mut pause).await?;
        }
        Ok(None)
    }

    /// Deletes the Job or Pod at this path if it should have been deleted when its hook succeeded. Returns whether it is gone,
    /// also by itself: its TTL may just be over.
    async fn delete_succeeded_before(
        &self,
        object: &Object,
        path: &str,
        stamp: &Stamp,
        clock: &Clock<'_>,
    ) -> Result<bool, HookError> {
        let what = format!("{} to be found", describe(object));
        let Some(live) = clock.retry(&what, || self.get(path)).await? else { return Ok(true) };
        let goes = should_be_gone(&object.kind, &live, &clock.hook.delete_policies);
        if goes {
            self.clear_place(object, (MadeBy::Operator, stamp), clock).await?;
        }
        Ok(goes)
    }

    /// Applies over the object with this metadata, and returns the result; `None` if the object changed since it was
    /// read, so that it must be checked again.
    async fn apply_if_unchanged(&self, body: &Body, live: &Value) -> Result<Option<Value>, Error> {
        let existing = Found::Read(Box::new(Existing::of(live)));
        match self.write_by_apply(body, &existing, Previous::Apply).await {
            Err(error) if error.is_conflict() => Ok(None),
            answer => answer?.parse().map(Some),
        }
    }
}
