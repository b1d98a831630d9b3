//! Finds Jobs that ran although no record says so: a process ended between making one and recording it, or recorded a
//! deletion that it never sent.
//!
//! After later attempts, the records may not tell which form a live Job has. The Job itself does, until its TTL is over.

use super::{Attempt, Observations};
use crate::action::{Current, Error};
use crate::kube::{Found, Object, ObjectKey, Policy};
use crate::storage::MarkedObject;

impl Attempt<'_> {
    /// Returns the release updated by its live Jobs: a Job in the candidate's form is running or has run. `None` if the
    /// Jobs show nothing new.
    pub(super) async fn as_seen(&self, observations: &Observations) -> Result<Option<Current>, Error> {
        let Some(current) = self.current else { return Ok(None) };
        let mut seen = None;
        for (object, key) in self.candidate.objects.iter().zip(&self.keys) {
            let Some(observed) = observations.get(key) else { continue };
            if self.is_in_doubt(current, (object, key), observed)
                && self.env.applier.has_form(object, observed, &self.env.decoration).await?
            {
                let seen: &mut Current = seen.get_or_insert_with(|| current.clone());
                let known = seen.inventory.objects.iter_mut().filter(|known| known.key == *key);
                known.for_each(|known| *known = self.as_run(object, known));
            }
        }
        Ok(seen)
    }

    /// Returns whether a live Job of the release may have run in this form, although the records do not say so. After a
    /// complete revision, no Job is in doubt.
    fn is_in_doubt(&self, current: &Current, (object, key): (&Object, &ObjectKey), observed: &Found) -> bool {
        let (env, inventory) = (self.env, &current.inventory);
        let is_anothers = env.decoration.owner.as_ref().is_some_and(|owner| inventory.is_anothers(owner));
        if inventory.complete || is_anothers || env.options.apply == Policy::Client || !object.expires() {
            return false;
        }
        let is_silent = |known: &MarkedObject| {
            let is_revoked = known.deleted && !known.expires;
            is_revoked || !known.is_of(object, &env.decoration.namespace)
        };
        // An object that existed before the release, or that was written client-side, does not show who set which
        // field.
        let counts = |known: &MarkedObject| known.adopted.is_none() && !known.client && is_silent(known);
        matches!(observed, Found::Read(found) if found.stays) && inventory.find(key).is_some_and(counts)
    }

    /// Returns the entry of a Job that has run in this form.
    fn as_run(&self, object: &Object, known: &MarkedObject) -> MarkedObject {
        let unapplied = MarkedObject::unapplied(known.key.clone(), object, &self.env.decoration.namespace);
        MarkedObject { expires: true, deleted: known.deleted, attempted: known.attempted, ..unapplied }
    }
}
