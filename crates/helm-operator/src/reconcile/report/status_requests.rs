//! Sends a resource's status to the API server.

use std::sync::Arc;

use controller::report::Outcome;
use helm_release::kube::{Call, FIELD_MANAGER};
use serde_json::json;
use tokio::time::Instant;

use super::history;
use crate::reconcile::controller_context::ControllerContext;
use crate::reconcile::decide::remembered::Rejected;
use crate::reconcile::reread;
use crate::reconcile::step_context::StepContext;
use crate::status::declared_fields::{Lesson, REMEMBERED};
use crate::status::{Handled, ListType, Status};
use crate::view::primary::{Primary, Received};
use crate::view::release::{Holder, ReleaseRecords};

/// Maximum number of times a status is sent again after a conflict.
const MAX_RACES: usize = 3;

/// Returns the release if it is the resource's own.
pub(super) fn held(shared: &ControllerContext, primary: &Primary) -> Option<Arc<ReleaseRecords>> {
    shared.cache.release(&primary.key()).filter(|release| release.holder(&primary.owner()) == Holder::Resource)
}

/// Returns whether another resource took the release over from this one. Without records, which may have moved, only the
/// status says it.
pub(super) fn is_taken_over(shared: &ControllerContext, primary: &Primary) -> bool {
    match shared.cache.release(&primary.key()).filter(|release| release.newest().is_some()) {
        Some(release) => release.holder(&primary.owner()) == Holder::Successor,
        None => primary.status.is_taken_over(),
    }
}

/// Applies the status fields that the definition's schema declares; returns `None` if there are none. If the server rejects
/// them together with the computed ones, the status is written without those.
pub(super) async fn apply(
    shared: &ControllerContext,
    primary: &Primary,
    status: &Status,
) -> Result<Option<Received>, helm_release::kube::Error> {
    let inventory = held(shared, primary).and_then(|release| history::inventory(&release));
    let (mut races, mut rejected) = (0, None);
    loop {
        // Others may have changed their conditions since the resource was read, which took as long as a diagnosis.
        let known = shared.cache.primary_with_uid(&primary.key(), primary.uid());
        let newest = known.as_deref().unwrap_or(primary);
        let mut status = status.with_others_of(&newest.status);
        if rejected.is_some() {
            status.fields.clear();
        }
        let sends_others = newest.conditions == ListType::Atomic && status.has_others();
        let read = sends_others.then(|| newest.resource_version());
        let mut fields = status.to_apply(newest.conditions, inventory.as_ref());
        if !shared.undeclared.remove_from(&mut fields) {
            return Ok(None);
        }
        let error = match apply_fields(shared, primary, &fields, read).await {
            Err(error) => error,
            Ok(answer) => {
                report_rejected(shared, primary, rejected.as_ref());
                return Ok(Some(answer));
            }
        };
        let is_race = read.is_some() && error.is_conflict() && races < MAX_RACES;
        if is_race && reread::read(shared, &primary.key(), primary).await.is_ok() {
            races += 1;
            continue;
        }
        let has_computed = !status.fields.is_empty();
        let lesson = match has_computed {
            true => shared.undeclared.learn_first(&error),
            false => shared.undeclared.learn(&error),
        };
        match lesson {
            Lesson::Learned(fields) => {
                report_undeclared(primary, &fields);
                rejected = None;
            }
            // Another resource's status has taught it since this one was sent.
            Lesson::Nothing if shared.undeclared.omits_some_of(&fields) => {}
            Lesson::Nothing if has_computed && is_of_content(&error) => rejected = Some(error),
            Lesson::Nothing => return Err(error),
        }
    }
}

/// Returns whether the server rejects what the request contains.
fn is_of_content(error: &helm_release::kube::Error) -> bool {
    matches!(error.code(), Some(400 | 422))
}

/// Logs and publishes, once, that the status was written without the computed fields, because the server rejected them.
/// Names the first one, and no value.
fn report_rejected(shared: &ControllerContext, primary: &Primary, error: Option<&helm_release::kube::Error>) {
    let fault = error.map(|error| {
        // Later ones may be part of a value that the server quotes.
        let first = error.rejected_fields().first().map(|field| format!(": {field}")).unwrap_or_default();
        format!("the server rejects the fields of the status that watches.yaml defines: none of them is written{first}")
    });
    let key = primary.key();
    let known = shared.memory.of(&key).status.rejected.clone();
    let now = fault.clone().map(|fault| Rejected { fault, retry_at: Instant::now() + REMEMBERED });
    if known.is_some() || now.is_some() {
        shared.memory.change(&key, |memory| memory.status.rejected = now.map(Box::new));
    }
    let is_known = fault.as_ref() == known.as_ref().map(|known| &known.fault);
    if let Some(fault) = fault.filter(|_| !is_known) {
        tracing::warn!(resource = %key, error = fault, "Cannot write the computed status");
        shared.publish(primary, Outcome::warning("StatusExpressionError", "Reconcile", fault));
    }
}

/// Returns whether the definition's schema declares the fields that report these tokens. Asks the server, if no refusal
/// has shown it yet, and changes nothing.
///
/// # Errors
/// The server did not answer.
pub(crate) async fn can_report(
    shared: &ControllerContext,
    primary: &Primary,
    tokens: &Handled,
) -> Result<bool, helm_release::kube::Error> {
    let fields = json!({"lastHandled": tokens});
    let are_declared = || {
        let mut declared = fields.clone();
        shared.undeclared.remove_from(&mut declared) && declared == fields
    };
    if !are_declared() {
        return Ok(false);
    }
    let mut call = status_call(shared, primary, &fields, None)?;
    call.path.push_str("&dryRun=All");
    let Err(error) = shared.api_for(&primary.key()).send(call).await else { return Ok(true) };
    if let Lesson::Learned(fields) = shared.undeclared.learn(&error) {
        report_undeclared(primary, &fields);
    }
    match are_declared() {
        true if error.is_unanswered() => Err(error),
        are_declared => Ok(are_declared),
    }
}

/// Applies status fields. If `read` is given, they are only applied to that version of the resource.
async fn apply_fields(
    shared: &ControllerContext,
    primary: &Primary,
    fields: &serde_json::Value,
    read: Option<&str>,
) -> Result<Received, helm_release::kube::Error> {
    let call = status_call(shared, primary, fields, read)?;
    shared.api_for(&primary.key()).send(call).await?.parse()
}

/// Returns the request that applies status fields.
fn status_call(
    shared: &ControllerContext,
    primary: &Primary,
    fields: &serde_json::Value,
    read: Option<&str>,
) -> Result<Call, helm_release::kube::Error> {
    let path = shared.resource.path(primary.namespace(), primary.name())?;
    let mut metadata = json!({"name": primary.name(), "uid": primary.uid()});
    if !primary.own_namespace().is_empty() {
        metadata["namespace"] = primary.own_namespace().into();
    }
    if let Some(version) = read {
        metadata["resourceVersion"] = version.into();
    }
    let body = json!({
        "apiVersion": &*primary.api_version, "kind": &*primary.kind, "metadata": metadata, "status": fields,
    });
    let path = format!("{path}/status?fieldManager={FIELD_MANAGER}&force=true");
    Ok(Call::apply(path, body.to_string().into_bytes()))
}

/// Logs, once per field, that the schema lacks a status field.
fn report_undeclared(primary: &Primary, fields: &[String]) {
    if !fields.is_empty() {
        let (kind, fields) = (&*primary.kind, fields.join(", "));
        tracing::warn!(
            kind,
            fields,
            "The schema of the status lacks fields, which are not written: declare them in the CustomResourceDefinition, or let \
             'helm-operator generate crds --force' write it"
        );
    }
}

/// Removes the fields that are null here from the status, whoever owns them.
pub(super) async fn remove(
    context: &StepContext<'_>,
    primary: &Primary,
    fields: &serde_json::Value,
) -> Result<Received, helm_release::kube::Error> {
    let path = context.shared.resource.path(primary.namespace(), primary.name())?;
    let patch = json!({"metadata": {"uid": primary.uid()}, "status": fields});
    let path = format!("{path}/status?fieldManager={FIELD_MANAGER}");
    let call = Call::merge(path, patch.to_string().into_bytes());
    context.shared.api_for(context.key).send(call).await?.parse()
}
