//! What is wrong with the order that a chart declares.

/// Why a chart has no order.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)] // The messages say it.
pub enum SequenceError {
    #[error("resource groups of chart {chart} wait for each other: {}", .members.join(" → "))]
    GroupCycle {
        chart: String,
        /// The groups, the first one repeated at the end.
        members: Vec<String>,
    },
    #[error("subcharts of chart {chart} wait for each other: {}", .members.join(" → "))]
    SubchartCycle {
        chart: String,
        /// The subcharts, the first one repeated at the end.
        members: Vec<String>,
    },
    #[error("{place}: {key} must be a list of names in JSON, such as [\"database\", \"queue\"]")]
    List { place: String, key: &'static str },
}

/// What the author of a chart probably did not mean. The chart still has an order.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)] // The messages say it.
pub enum Problem {
    /// A group waits for one that does not exist, so it comes last.
    #[error("resource group {group:?} of chart {chart} waits for {missing:?}, which no object is in")]
    UnknownGroup { chart: String, group: String, missing: String },
    /// A subchart, or the chart itself, waits for a subchart that the chart does not have.
    #[error("chart {chart} lets {waiting} wait for subchart {missing:?}, which it does not have")]
    UnknownSubchart { chart: String, waiting: String, missing: String },
    /// An object has only one of the two annotations about readiness, so neither counts.
    #[error("{path}: {kind} {name:?} has helm.sh/readiness-success or -failure, and needs both for either to count")]
    Readiness { path: String, kind: String, name: String },
    #[error("{path}: {kind} {name:?}: {condition:?} is not a condition such as \"{{.succeeded}} >= 1\"")]
    Condition { path: String, kind: String, name: String, condition: String },
}
