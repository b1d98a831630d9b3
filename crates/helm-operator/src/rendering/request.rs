//! The interface between the reconciler and the engine: from a custom resource to a candidate release.

use std::sync::Arc;

use controller::runtime::priority::Priority;
use futures::future::BoxFuture;
use helm::chart::Chart;
use helm::sequence::{SequenceError, Subcharts};
use helm_release::action::Candidate;
use helm_release::release::ChartDocument;
use serde_json::Value;

use crate::mask::Published;
use crate::values::Spec;
use crate::watches::{OverrideValuesType, Overrides};

/// The inputs of a render.
#[derive(Clone, Debug)]
pub struct Request {
    /// The release's name.
    pub name: String,
    /// The release's namespace.
    pub namespace: String,
    /// The custom resource's `spec`, merged over the content of its `valuesFrom`.
    pub spec: Spec,
    /// How override values become values.
    pub overrides_type: OverrideValuesType,
    /// The value of `.Release.Revision` in templates.
    pub revision: u32,
    /// The digest of all inputs of the release, which is copied to the candidate.
    pub inputs: String,
    /// The priority of the render. The engine renders retries, which follow a failed attempt, in a separate worker with
    /// the lowest priority.
    pub priority: Priority,
}

/// The reason why there is no candidate.
#[derive(Debug, thiserror::Error)]
pub enum RenderError {
    /// The chart or its values are at fault: the same request fails again. The remains of an unfinished attempt are
    /// cleaned up.
    #[error("{message}")]
    Failed {
        /// The stable reason, in upper camel case.
        reason: &'static str,
        /// The message for the chart's author: template, line, column, cause.
        message: String,
    },
    /// A lookup or another input of the render was not answered or no longer exists, so nothing is known about the
    /// chart. The request is repeated later, and nothing is cleaned up.
    #[error("{message}")]
    Unanswered {
        /// The stable reason, in upper camel case.
        reason: &'static str,
        /// The message: the request, and its error.
        message: String,
    },
}

/// The outcome of a render that did not fail.
#[derive(Clone, Debug)]
pub enum Rendered<T = Candidate> {
    /// The render completed.
    Done(T),
    /// The render kept others waiting: request it again as a retry.
    Postponed,
}

impl<T> Rendered<T> {
    /// Returns the output, if the render completed.
    pub fn done(self) -> Option<T> {
        match self {
            Rendered::Done(rendered) => Some(rendered),
            Rendered::Postponed => None,
        }
    }
}

impl RenderError {
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

/// Renders one chart. It is a trait so that tests, and operators with their own renderer, can replace the engine.
pub trait Renderer: Send + Sync {
    /// Returns a digest of the inputs besides the resource, whose change needs a new render: the chart and override
    /// values.
    fn digest(&self) -> String;

    /// Returns a digest of the cluster's capabilities as they were last read, which templates may depend on. With
    /// `renderOn`, those that renders use, which must not alternate: each change is rendered. Default: none.
    fn capabilities(&self) -> Option<String> {
        None
    }

    /// Returns whether these capabilities have stayed the same for long enough that a render may be due to them alone.
    /// Until then, a revision that was rendered with others stays. Default: they have.
    fn are_capabilities_settled(&self) -> bool {
        true
    }

    /// Returns the chart's name.
    fn chart_name(&self) -> &str;

    /// Returns the chart's version. Default: unknown, an empty text.
    fn chart_version(&self) -> &str {
        ""
    }

    /// Returns the override values that are merged over a `spec`; each install and upgrade publishes an event for them.
    /// Default: none.
    fn overrides(&self) -> Option<&Overrides> {
        None
    }

    /// Returns the chart and the values that a render of this `spec` would record, with override values of this type;
    /// `None` if only a render can determine them.
    fn sources(&self, _spec: &Spec, _overrides: OverrideValuesType) -> Option<(Arc<ChartDocument>, Value)> {
        None
    }

    /// Returns what the chart publishes and messages therefore need not redact. Default: nothing.
    fn published(&self) -> Option<&Arc<Published>> {
        None
    }

    /// Returns the source of a template of the chart or of one of its subcharts, such as
    /// `shop/charts/cache/templates/a.yaml`. Records do not contain it. Default: unknown.
    fn template(&self, _name: &str) -> Option<String> {
        None
    }

    /// Returns what the chart declares about the order of its subcharts, or why that is invalid. Default: it has none.
    fn subcharts(&self) -> Option<&Result<Subcharts, SequenceError>> {
        None
    }

    /// Returns the chart with the lines of its values. It may be read from the disk, so call it on a thread that may
    /// block. Default: `None`.
    fn chart_with_lines(&self) -> Option<Arc<Chart>> {
        None
    }

    /// Returns why every render fails regardless of the values, if that is known beforehand. Default: it may render.
    fn blocked(&self) -> Option<&RenderError> {
        None
    }

    /// Waits until the next resource that failed may be rendered. The caller picks the resource afterwards and renders
    /// its state at that time. Default: at once.
    fn rested(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }

    /// Renders a candidate for the next revision, with the request's `inputs`.
    fn render(&self, request: Request) -> BoxFuture<'_, Result<Rendered, RenderError>>;
}
