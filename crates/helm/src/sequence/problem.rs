//! What is wrong with the order that a chart declares.

/// Why a chart has no order.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SequenceError {
    /// Groups wait for each other.
    #[error("resource groups of chart {chart} wait for each other: {}", .members.join(" → "))]
    GroupCycle {
        /// The chart.
        chart: String,
        /// The groups, the first one repeated at the end.
        members: Vec<String>,
    },
    /// Subcharts wait for each other.
    #[error("subcharts of chart {chart} wait for each other: {}", .members.join(" → "))]
    SubchartCycle {
        /// The parent.
        chart: String,
        /// The subcharts, the first one repeated at the end.
        members: Vec<String>,
    },
    /// A list is malformed.
    #[error("{place}: {key} must be a list of names in JSON, such as [\"database\", \"queue\"]")]
    List {
        /// The template or chart.
        place: String,
        /// The key.
        key: &'static str,
    },
}

/// What the author of a chart probably did not mean. The chart still has an order.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// A group waits for one that does not exist, so it comes last.
    #[error("resource group {group:?} of chart {chart} waits for {missing:?}, which no object is in")]
    UnknownGroup {
        /// The chart.
        chart: String,
        /// The group.
        group: String,
        /// The group that does not exist.
        missing: String,
    },
    /// A subchart, or the chart itself, waits for a subchart that the chart does not have.
    #[error("chart {chart} lets {waiting} wait for subchart {missing:?}, which it does not have")]
    UnknownSubchart {
        /// The parent.
        chart: String,
        /// What waits.
        waiting: String,
        /// The name that is unknown.
        missing: String,
    },
    /// An object has only one of the two annotations about readiness, so neither counts.
    #[error("{path}: {kind} {name:?} has helm.sh/readiness-success or -failure, and needs both for either to count")]
    Readiness {
        /// The template.
        path: String,
        /// The object's kind.
        kind: String,
        /// The object's name.
        name: String,
    },
    /// A condition of readiness is malformed.
    #[error("{path}: {kind} {name:?}: {condition:?} is not a condition such as \"{{.succeeded}} >= 1\"")]
    Condition {
        /// The template.
        path: String,
        /// The object's kind.
        kind: String,
        /// The object's name.
        name: String,
        /// The condition.
        condition: String,
    },
}
