//! Formats what `version` prints and what each start logs.

use std::env::consts::{ARCH, OS};

const VERSION: &str = env!("CARGO_PKG_VERSION");
const COMMIT: Option<&str> = option_env!("GIT_COMMIT");
/// The newest Kubernetes API version that the client supports.
const KUBERNETES: &str = "v1.37";

/// Returns the output of `version`, which scripts may read: it has the words of upstream's where both say the same.
pub(super) fn line(name: &str) -> String {
    let commit = COMMIT.unwrap_or("unknown");
    format!(
        "{name} version: {:?}, commit: {commit:?}, kubernetes version: {KUBERNETES:?}, OS: {OS:?}, ARCH: {ARCH:?}",
        format!("v{VERSION}")
    )
}

/// Logs the version, as upstream does at each start.
pub(super) fn log() {
    tracing::info!(
        logger = "cmd",
        version = VERSION,
        commit = COMMIT.unwrap_or("unknown"),
        os = OS,
        arch = ARCH,
        "Version"
    );
}
