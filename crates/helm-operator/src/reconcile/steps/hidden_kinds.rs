//! Holds the next revision while charts cannot see the kind of an object that the release may have, because its API
//! server does not answer and this process has never seen what it serves.
//!
//! An APIService that is gone holds nothing: discovery no longer names it.

use controller::report::chain;
use helm_release::release::Status;
use helm_release::storage::MarkedObject;

use crate::reconcile::decide::hidden::hidden;
use crate::reconcile::failure::{Failed, Unanswered};
use crate::reconcile::step_context::StepContext;
use crate::rendering::discovered::MAX_AGE;
use crate::status::reason::Reason;

impl StepContext<'_> {
    /// Checks that charts see the kinds of the objects that may be live. Sends requests only if the last discovery did
    /// not show one of them.
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
        let silent = mapper.silent();
        if silent.is_empty() {
            return Ok(());
        }
        let release = self.release().unwrap_or_default();
        if release.newest().is_some_and(|(_, newest)| newest.status == Status::Uninstalled) {
            return Ok(());
        }
        // The next revision also deletes what only a later attempt has made.
        let live = release.live().flat_map(|(_, revision)| revision.marks.iter().flat_map(|marks| &marks.objects));
        let is_known = |object: &MarkedObject| mapper.known(&object.api_version, &object.key.kind).is_some();
        match hidden(&silent, live, is_known) {
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
