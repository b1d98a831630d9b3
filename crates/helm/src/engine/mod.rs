//! Renders a chart: Helm's `pkg/engine`.

pub mod funcs;
