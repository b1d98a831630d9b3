//! Determines how override values become values for one release. If watches.yaml does not set it, they are typed,
//! except in a release that operator-sdk created. That release keeps strings, because the takeover could otherwise
//! restart its pods (docs/decisions/0048-override-values-of-a-taken-over-release.md).

use controller::report::Outcome;
use helm_release::release::Packed;

use crate::reconcile::step_context::StepContext;
use crate::view::primary::Primary;
use crate::watches::OverrideValuesType;

impl StepContext<'_> {
    /// Returns the type of override values in this resource's release.
    pub(crate) fn overrides_type(&self) -> OverrideValuesType {
        let chosen = self.shared.renderer.overrides().and_then(|overrides| overrides.kind());
        chosen.unwrap_or(if self.keeps_strings() { OverrideValuesType::String } else { OverrideValuesType::Typed })
    }

    /// Returns whether override values are strings only because of the release.
    pub(crate) fn keeps_strings(&self) -> bool {
        let is_open = self.shared.renderer.overrides().is_some_and(|overrides| overrides.kind().is_none());
        is_open && self.release().is_some_and(|release| release.has_string_overrides())
    }

    /// Returns whether another operator's revision was made with override values as strings, and publishes it.
    pub(crate) fn finds_strings(&self, primary: &Primary, record: &Packed) -> bool {
        let Some(overrides) = self.shared.renderer.overrides().filter(|overrides| overrides.kind().is_none()) else {
            return false;
        };
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
