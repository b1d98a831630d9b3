//! The invariant of values that a chart generates: once made, they stay.

use std::time::Duration;

use crate::checks::Checks;
use crate::names::{self, is_of};
use crate::world::Change;

/// The fields of Secrets that the chart generates: passwords, and a certificate with its issuer and key. All values of
/// a script want a certificate, or none do. Another operator sets `ca.crt`.
pub(crate) const GENERATED: [&str; 4] = ["password", "issuer.crt", "tls.crt", "tls.key"];

/// How soon after each other two resources begin the same action at most.
const AT_ONCE: Duration = Duration::from_secs(1);

impl Checks {
    /// Checks (b) that generated values never change.
    pub(crate) fn values(&mut self, change: &Change) -> Option<String> {
        self.note_guarded(change);
        let key = changed(change)?;
        let setups = self.setups;
        let (name, resource) = self.resources.iter_mut().find(|(name, _)| is_of(&change.path, name))?;
        if change.path.ends_with("-guarded") {
            // A rollback brings back what its revision recorded.
            let is_restored = resource.lost_guarded && resource.judged;
            // Two resources that begin to install one release look for the object before one of them makes it.
            let is_new = resource.guarded.is_some_and(|made| change.at < made + AT_ONCE);
            // The other one's values may want none.
            let is_gone = change.after.as_ref().is_some_and(|after| after["data"][key].is_null());
            let may_change = is_restored || resource.is_claimed && (is_new || is_gone);
            return (!may_change).then(|| format!("(b) {key} in {} changed", change.path));
        }
        resource.passwords += 1;
        let causes = resource.causes + setups - resource.setups;
        let may_change = (causes + u32::from(resource.found_password)).saturating_sub(1);
        let is_wrong = resource.passwords > may_change && !resource.judged && !resource.is_claimed;
        is_wrong.then(|| format!("(b) the random password of {name} changed without a cause: {causes} causes"))
    }

    fn note_guarded(&mut self, change: &Change) {
        let name = names::owner(&change.path).filter(|_| change.path.ends_with("-guarded") && change.before.is_none());
        if let Some(resource) = name.and_then(|name| self.resources.get_mut(name)) {
            resource.guarded = Some(change.at);
        }
    }
}

/// Returns the generated field that a write of the operator changes or removes.
fn changed(change: &Change) -> Option<&'static str> {
    let (before, after) = (change.before.as_ref()?, change.after.as_ref()?);
    let found = GENERATED.into_iter().find(|key| {
        let (old, new) = (&before["data"][*key], &after["data"][*key]);
        !old.is_null() && old != new
    });
    found.filter(|_| change.by.starts_with("op-"))
}
