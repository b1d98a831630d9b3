//! Why objects of an action were not written, and whether the others still are.

use crate::kube::writes::apply::ApplyError;
use crate::kube::writes::write::WriteOptions;

/// Why objects of an action were not written.
#[derive(Default)]
pub(crate) struct Failures {
    /// The failure that ended the action, or else the first one.
    decisive: Option<ApplyError>,
    /// Whether the remaining objects are not written. A later failure may say so although the first did not.
    pub(in crate::kube) stops: bool,
}

impl Failures {
    pub(crate) fn add(&mut self, failure: ApplyError, options: &WriteOptions<'_>) {
        let stops = !options.continues_after(&failure);
        // After any other failure, a clean-up would not know of that object.
        let is_unnoted = matches!(failure, ApplyError::Appeared(_));
        if self.decisive.is_none() || is_unnoted || (stops && !self.stops) {
            self.decisive = Some(failure);
        }
        self.stops |= stops;
    }

    /// Returns how the action ended.
    ///
    /// # Errors
    /// The failure that ended it: nothing is known of the objects that were not written. If they all were, the first
    /// failure.
    pub(crate) fn result(self) -> Result<(), ApplyError> {
        self.decisive.map_or(Ok(()), Err)
    }
}
