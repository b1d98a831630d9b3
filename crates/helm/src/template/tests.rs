//! Tests come with the conformance cases.
