//! To come: release.
