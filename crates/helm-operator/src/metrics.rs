//! What the operator counts, by controller-runtime's names, and how it is shown to Prometheus.

/// The process's metrics. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Metrics {}
