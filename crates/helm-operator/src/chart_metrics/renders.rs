//! The metric of renders in worker processes, by outcome.

use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue, LabelValueEncoder};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;
use strum::{EnumIter, IntoEnumIterator as _, IntoStaticStr};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EnumIter, IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub(crate) enum RenderOutcome {
    Rendered,
    /// The chart or its values are at fault.
    Failed,
    /// A limit or a crash ended the worker.
    Limit,
    /// The render kept others waiting, and is repeated as a retry.
    Postponed,
}

impl EncodeLabelValue for RenderOutcome {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> std::fmt::Result {
        <&str>::from(self).encode(encoder)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Labels {
    outcome: RenderOutcome,
}

/// The family, which starts at zero before the first render.
#[derive(Debug)]
pub(super) struct Renders(Family<Labels, Counter>);

impl Renders {
    pub(super) fn new() -> Renders {
        let family = Family::default();
        for outcome in RenderOutcome::iter() {
            drop(family.get_or_create(&Labels { outcome }));
        }
        Renders(family)
    }

    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register("helm_operator_renders", "Renders in worker processes by outcome", self.0.clone());
    }

    pub(super) fn count(&self, outcome: RenderOutcome) {
        self.0.get_or_create(&Labels { outcome }).inc();
    }
}
