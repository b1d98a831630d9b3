//! The code that an operator's author adds to a chart, as the chart controller stores it.

use std::sync::Arc;

use controller::reconciler::Stores;
use controller::runtime::key::ResourceKey;
use kube::core::DynamicObject;

use super::{PostHook, PostRenderer, PreHook, ValueMapper};

/// A predicate on custom resources.
pub(crate) type Judge = Arc<dyn Fn(&DynamicObject) -> bool + Send + Sync>;

/// A function that follows objects and wakes resources.
type Follow = Arc<dyn Fn(&Stores, Wake) + Send + Sync>;
pub(crate) type Wake = Box<dyn Fn(Wakes) + Send + Sync>;

/// The resources that a change of a watched object wakes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wakes {
    /// No resource.
    Nobody,
    /// One resource.
    Resource(ResourceKey),
    /// Every resource in a namespace.
    Namespace(String),
}

/// Everything that the operator's author adds to a chart.
#[derive(Clone, Default)]
pub(crate) struct Extensions {
    pub(crate) mappers: Vec<Arc<dyn ValueMapper>>,
    /// Post-renderers, each with the name of its version.
    pub(crate) post_renderers: Vec<(String, Arc<dyn PostRenderer>)>,
    pub(crate) before: Vec<Arc<dyn PreHook>>,
    pub(crate) after: Vec<Arc<dyn PostHook>>,
    pub(crate) filters: Vec<Judge>,
    pub(crate) pauses: Vec<Judge>,
    pub(crate) follows: Vec<Follow>,
}

impl Extensions {
    /// Returns whether any of this code sees the whole resource.
    pub(crate) fn need_metadata(&self) -> bool {
        !(self.mappers.is_empty() && self.post_renderers.is_empty() && self.before.is_empty() && self.after.is_empty())
    }
}
