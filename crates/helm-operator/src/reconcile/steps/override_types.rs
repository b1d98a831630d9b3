//! Determines how override values become values for one release. If watches.yaml does not set it, they are typed,
//! except in a release that operator-sdk created, according to its record and the resource's status. That release keeps
//! strings, because the takeover could otherwise restart its pods (docs/decisions/0048-override-values-of-a-taken-over-release.md).

use std::sync::Arc;

use controller::report::Outcome;
use helm_release::release::Packed;
use helm_release::storage::Marks;

use crate::reconcile::step_context::StepContext;
use crate::view::primary::Primary;
use crate::watches::{OverrideValuesType, Overrides};

impl StepContext<'_> {
    /// Returns the type of override values in this resource's release.
    pub(crate) fn overrides_type(&self, primary: &Primary) -> OverrideValuesType {
        let chosen = self.shared.renderer.overrides().and_then(|overrides| overrides.kind());
        chosen.unwrap_or_else(|| match self.keeps_strings(primary) {
            true => OverrideValuesType::String,
            false => OverrideValuesType::Typed,
        })
    }

    /// Returns whether override values are strings only because of the release.
    pub(crate) fn keeps_strings(&self, primary: &Primary) -> bool {
        let is_open = self.shared.renderer.overrides().is_some_and(|overrides| overrides.kind().is_none());
        is_open && self.release().is_some_and(|release| release.has_string_overrides(primary))
    }

    /// Returns the marks of a record that is about to be sealed, without strings that only the record claims.
    pub(crate) fn without_claimed_strings(&self, primary: &Primary, marks: &Arc<Marks>) -> Arc<Marks> {
        let is_confirmed = || self.release().is_some_and(|release| release.has_string_overrides(primary));
        match marks.string_overrides && !is_confirmed() {
            true => Arc::new(Marks { string_overrides: false, ..(**marks).clone() }),
            false => marks.clone(),
        }
    }

    /// Returns whether the manifest that operator-sdk left in the status is still needed: it confirms that override values may
    /// be strings, until this operator has recorded whether they are.
    pub(crate) fn needs_manifest(&self, primary: &Primary) -> bool {
        let is_open = |overrides: &Overrides| overrides.kind().is_none() && !overrides.typed_keys().is_empty();
        self.shared.renderer.overrides().is_some_and(is_open) && !self.vouches_for_deployed(primary)
    }

    /// Returns whether another operator's revision was made with override values as strings, and publishes it. Without the
    /// status of operator-sdk, a user may have made the record up.
    pub(crate) fn finds_strings(&self, primary: &Primary, record: &Packed) -> bool {
        let Some(overrides) = self.shared.renderer.overrides().filter(|overrides| overrides.kind().is_none()) else {
            return false;
        };
        if !primary.may_have_string_overrides() {
            return false;
        }
        let recorded = record.unpack().ok().and_then(|record| overrides.recorded_as(&record.config));
        let has_strings = recorded == Some(OverrideValuesType::String);
        if has_strings {
            let keys = overrides.typed_keys().join(", ");
            let note = format!(
                "override values {keys} stay strings in this release, as operator-sdk made them: set overrideValuesType in watches.yaml, \
                 to string for every release, or to typed"
            );
            tracing::warn!(resource = %self.key, "{note}");
            self.shared.publish(primary, Outcome::warning("OverrideValuesKept", "TakeOver", note));
        }
        has_strings
    }
}
