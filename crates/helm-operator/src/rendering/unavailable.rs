//! Stands in for a chart that could not be fetched yet: its resources say why, and are uninstalled as ever, which needs
//! no chart where this operator wrote the record.

use std::sync::Mutex;

use futures::future::BoxFuture;
use outside::sync::lock;

use super::request::{RenderError, Rendered, Renderer, Request};
use crate::status::reason::Reason;
use crate::watches::Overrides;

/// The renderer of a chart that is not there.
pub(crate) struct Unavailable {
    name: String,
    overrides: Overrides,
    why: Mutex<(Reason, String)>,
}

impl Unavailable {
    /// Creates a stand-in for a chart that is not fetched yet. `name` is used instead of the chart's name. The override
    /// values are the watch's, which count even before the chart is available.
    pub(crate) fn new(name: &str, overrides: Overrides) -> Unavailable {
        let why = Mutex::new((Reason::ChartUnavailable, "the chart is being fetched".to_owned()));
        Unavailable { name: name.to_owned(), overrides, why }
    }

    /// Sets why the chart is not available. A resource reports it with its next attempt.
    pub(crate) fn because(&self, reason: Reason, why: String) {
        *lock(&self.why) = (reason, why);
    }
}

impl Renderer for Unavailable {
    fn digest(&self) -> String {
        "unavailable".to_owned()
    }

    fn chart_name(&self) -> &str {
        &self.name
    }

    fn overrides(&self) -> Option<&Overrides> {
        Some(&self.overrides)
    }

    fn render(&self, _: Request) -> BoxFuture<'_, Result<Rendered, RenderError>> {
        let (reason, message) = lock(&self.why).clone();
        // Nothing is known about the chart, so nothing is cleaned up.
        Box::pin(std::future::ready(Err(RenderError::Unanswered { reason: reason.as_str(), message })))
    }
}
