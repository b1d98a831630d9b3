//! Sends a viewer's request as their own patch of the resource. The API server decides whether they may, and its audit
//! log names them, as does an event on the resource.

use controller::report::{Outcome, shorten};
use controller::server::Form;
use helm_release::kube::{Call, Error};
use http::StatusCode;
use outside::{chain, read_within};

use super::actions::PageAction;
use super::sight::FoundRelease;
use crate::terminal::plain;

/// The field manager of the patch.
const FIELD_MANAGER: &str = "helm-operator-page";

/// The maximum size of the answer, which is the resource.
const MAX_ANSWER: usize = 8 << 20;

/// The maximum length of a user's name in events and logs, in bytes.
const MAX_USER: usize = 253;

/// Why an action was not done.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Refused {
    pub(crate) status: StatusCode,
    pub(crate) why: String,
}

/// Performs a form's action.
///
/// # Errors
/// The form or the API server refuses it, or the API server does not answer.
pub(crate) async fn submit(found: &FoundRelease, form: Form<'_>) -> Result<PageAction, Refused> {
    let refused = |status: StatusCode, why: &str| Refused { status, why: why.to_owned() };
    let Some(action) = PageAction::of_form(form.body) else {
        return Err(refused(StatusCode::BAD_REQUEST, "The form does not name one action."));
    };
    let FoundRelease { controller, primary, .. } = found;
    if !action.counts(&controller.acceptance.annotations) {
        return Err(refused(StatusCode::CONFLICT, "This operator ignores the annotation for it."));
    }
    let path = controller.resource.path(primary.own_namespace(), primary.name()).map_err(unsent)?;
    let patch = action.patch(primary.uid(), outside::now()).to_string().into_bytes();
    let call = Call::merge(format!("{path}?fieldManager={FIELD_MANAGER}"), patch);
    read_within(form.api, call, MAX_ANSWER).await.map_err(unsent)?;
    let user = plain(&shorten(form.user, MAX_USER));
    let (kind, namespace, name) = (&*primary.kind, primary.own_namespace(), primary.name());
    tracing::info!(user, action = action.word(), kind, namespace, name, "Asked for on the page");
    let message = format!("{user} asked for {:?} on the page", action.label());
    controller.publish(primary, Outcome::normal("ActionRequested", action.event_action(), message));
    Ok(action)
}

/// Returns why the API server does not take a patch, in its own words.
fn unsent(error: Error) -> Refused {
    match error.code().and_then(|code| StatusCode::from_u16(code).ok()) {
        Some(status) if status.is_client_error() => Refused { status, why: chain(&error) },
        _ => Refused { status: StatusCode::BAD_GATEWAY, why: format!("It may not have been done: {}.", chain(&error)) },
    }
}
