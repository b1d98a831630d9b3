//! To come: chart.
