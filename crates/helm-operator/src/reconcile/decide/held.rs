//! Estimates the memory that an action holds while it waits for a hook or for objects. Pure.

use helm_release::action::Candidate;
use helm_release::release::{Hook, Release};
use outside::weight;
use serde_json::Value;

/// The memory of an action about whose release nothing is known.
pub(crate) const UNKNOWN: usize = 1 << 20;

/// Returns the memory of an action with this candidate, in bytes: the candidate and the release that it records. One
/// that continues an interrupted action also has that one's candidate.
pub(crate) fn of_candidate(candidate: &Candidate) -> usize {
    let objects: usize = candidate.objects.iter().chain(&candidate.crds).map(|object| weight(&object.body)).sum();
    2 * objects + 3 * recorded(&candidate.config, &candidate.manifest, &candidate.hooks)
}

/// Returns the memory of an action that reads this release only, in bytes.
pub(crate) fn of_release(release: &Release) -> usize {
    recorded(&release.config, &release.manifest, &release.hooks)
}

fn recorded(config: &Value, manifest: &str, hooks: &[Hook]) -> usize {
    let hooks: usize = hooks.iter().map(|hook| hook.manifest.len()).sum();
    weight(config) + manifest.len() + hooks
}
