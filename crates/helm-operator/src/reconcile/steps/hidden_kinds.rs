//! Holds the next revision while charts cannot see the kind of a deployed object, because its API server does not
//! answer and this process has never seen what it serves.
//!
//! An APIService that is gone holds nothing: discovery no longer names it.

use std::time::Duration;

use controller::report::chain;
use helm_release::storage::MarkedObject;

use crate::reconcile::decide::hidden::hidden;
use crate::reconcile::failure::{Failed, Unanswered};
use crate::reconcile::step_context::StepContext;
use crate::status::reason::Reason;

/// The maximum age of a discovery that holds a revision, as for renders.
const MAX_AGE: Duration = Duration::from_secs(5);

impl StepContext<'_> {
    /// Checks that charts see the kinds of the deployed objects. Sends requests only if the last discovery did not show
    /// one of them.
    ///
    /// # Errors
    /// The server of one does not answer.
    pub(super) async fn find_hidden_kinds(&self) -> Result<(), Failed> {
        if self.check_hidden_kinds().is_ok() {
            return Ok(());
        }
        if let Err(error) = self.shared.applier.mapper.refresh_if_older(MAX_AGE).await {
            tracing::debug!(resource = %self.key, error = chain(&error), "Cannot find out which kinds are served");
        }
        self.check_hidden_kinds()
    }

    /// Checks the same as of the last discovery. Sends no request.
    ///
    /// # Errors
    /// As [`StepContext::find_hidden_kinds`].
    pub(super) fn check_hidden_kinds(&self) -> Result<(), Failed> {
        let mapper = &self.shared.applier.mapper;
        let (silent, release) = (mapper.silent(), self.release().unwrap_or_default());
        let deployed = release.deployed_marks().map(|marks| &*marks.objects).unwrap_or_default();
        let is_known = |object: &MarkedObject| mapper.known(&object.api_version, &object.key.kind).is_some();
        match hidden(&silent, deployed, is_known) {
            Some((version, object)) => Err(unseen(version, object).into()),
            None => Ok(()),
        }
    }
}

fn unseen(version: &str, object: &MarkedObject) -> Unanswered {
    let (group, version) = version.split_once('/').unwrap_or(("", version));
    let service = format!("{version}.{group}");
    let message = format!(
        "cannot make the next revision: the API server behind APIService {service:?} does not answer, and without its kinds the chart might drop \
         {}, which would then be deleted; repair that server, or delete the APIService if it was removed permanently",
        object.key
    );
    Unanswered::with_reason(Reason::Unanswered, message)
}
