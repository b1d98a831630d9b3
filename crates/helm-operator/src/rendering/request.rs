//! The seam between the reconciler and the engine: a custom resource in, a candidate release out.

use std::sync::Arc;

use controller::runtime::priority::Priority;
use futures::future::BoxFuture;
use helm_release::action::Candidate;
use helm_release::release::ChartDocument;
use serde_json::Value;

use crate::mask::Published;
use crate::values::Spec;
use crate::watches::{OverrideValuesType, Overrides};

/// What a release is rendered from.
#[derive(Clone, Debug)]
pub struct Request {
    /// The release's name.
    pub name: String,
    /// The release's namespace.
    pub namespace: String,
    /// The custom resource's `spec`, over the content of its `valuesFrom`.
    pub spec: Spec,
    /// How override values become values.
    pub overrides_type: OverrideValuesType,
    /// What templates see as `.Release.Revision`.
    pub revision: u32,
    /// The digest of everything that the release is made from; the candidate carries it.
    pub inputs: String,
    /// Whether the resource's last attempt failed. The engine renders retries in a worker of their own, with the lowest priority.
    pub priority: Priority,
}

/// Why there is no candidate.
#[derive(Debug, thiserror::Error)]
pub enum RenderError {
    /// The chart or its values are at fault: the same request fails again. What an unfinished attempt left is cleaned up.
    #[error("{message}")]
    Failed {
        /// The stable reason, in upper camel case.
        reason: &'static str,
        /// What the chart's author needs: template, line, column, cause.
        message: String,
    },
    /// Something that the render needs was not answered or has gone: nothing is known about the chart. The request is made again later, and
    /// nothing is cleaned up.
    #[error("{message}")]
    Unanswered {
        /// The stable reason, in upper camel case.
        reason: &'static str,
        /// What was asked, and what happened.
        message: String,
    },
}

/// The result of a render that did not fail.
#[derive(Clone, Debug)]
pub enum Rendered<T = Candidate> {
    /// The render ended.
    Done(T),
    /// The render kept others waiting: request it again as a retry.
    Postponed,
}

impl<T> Rendered<T> {
    /// Returns what was rendered, if the render ended.
    pub fn done(self) -> Option<T> {
        match self {
            Rendered::Done(rendered) => Some(rendered),
            Rendered::Postponed => None,
        }
    }
}

impl RenderError {
    /// Returns the error with another message.
    #[must_use]
    pub(crate) fn map_message(self, change: impl FnOnce(String) -> String) -> RenderError {
        match self {
            RenderError::Failed { reason, message } => RenderError::Failed { reason, message: change(message) },
            RenderError::Unanswered { reason, message } => RenderError::Unanswered { reason, message: change(message) },
        }
    }

    /// Returns the stable reason.
    pub fn reason(&self) -> &'static str {
        match self {
            RenderError::Failed { reason, .. } | RenderError::Unanswered { reason, .. } => reason,
        }
    }
}

/// Renders one chart. A trait so that tests, and operators with their own renderer, can replace the engine.
pub trait Renderer: Send + Sync {
    /// A digest of everything besides the resource that calls for a new render: the chart and override values.
    fn digest(&self) -> String;

    /// The chart's name.
    fn chart_name(&self) -> &str;

    /// The override values that it lays over a `spec`; each install and upgrade publishes an event for them. Default: none.
    fn overrides(&self) -> Option<&Overrides> {
        None
    }

    /// The chart and the values that a render of this `spec` would record, with override values of this type; `None` if only rendering can tell.
    fn sources(&self, _spec: &Spec, _overrides: OverrideValuesType) -> Option<(Arc<ChartDocument>, Value)> {
        None
    }

    /// Returns what the chart publishes, which messages need not hide. Default: nothing.
    fn published(&self) -> Option<&Arc<Published>> {
        None
    }

    /// Returns the source of a template of the chart or of one of its subcharts, which records leave out: `shop/charts/cache/templates/a.yaml`.
    /// Default: unknown.
    fn template(&self, _name: &str) -> Option<String> {
        None
    }

    /// Returns why it renders nothing whatever the values are, if that is known beforehand. Default: it may render.
    fn blocked(&self) -> Option<&RenderError> {
        None
    }

    /// Waits until it may render the next resource that failed. Whoever picks that resource afterwards renders it as it is then. Default: at once.
    fn rested(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }

    /// Renders a candidate for the next revision, with the request's `inputs`.
    fn render(&self, request: Request) -> BoxFuture<'_, Result<Rendered, RenderError>>;
}
