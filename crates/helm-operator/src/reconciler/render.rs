//! The seam between the reconciler and the engine: a custom resource in, a candidate release out.

use std::sync::Arc;

use futures::future::BoxFuture;
use helm::action::Candidate;
use helm::release::ChartDocument;
use serde_json::Value;

/// What a release is rendered from.
#[derive(Clone, Debug)]
pub struct Request {
    /// The release's name.
    pub name: String,
    /// The release's namespace.
    pub namespace: String,
    /// The custom resource's `spec`: the server's JSON; `null` if it has none.
    pub spec: Arc<str>,
    /// The revision that `.Release.Revision` says.
    pub revision: u32,
}

/// Why nothing was rendered.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct RenderError {
    /// One stable word.
    pub reason: &'static str,
    /// What the chart's author has to know: template, line, column, cause.
    pub message: String,
}

/// Renders one chart; in tests, a stand-in.
pub trait Renderer: Send + Sync {
    /// A digest of all that is not the resource and is a reason to render anew: chart and override values.
    fn digest(&self) -> String;

    /// The chart's name.
    fn chart_name(&self) -> &str;

    /// Override values in use, as `(key, value)`, for the events that say so.
    fn overrides(&self) -> &[(String, String)];

    /// The chart and the values that a render of this `spec` would record. Nothing if that cannot be told without rendering.
    fn sources(&self, _spec: &str) -> Option<(Arc<ChartDocument>, Value)> {
        None
    }

    /// Renders. `inputs` of the candidate is left empty.
    fn render(&self, request: Request) -> BoxFuture<'_, Result<Candidate, RenderError>>;
}
