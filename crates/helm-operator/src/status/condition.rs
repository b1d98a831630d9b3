//! The types of conditions.

/// The summary: the release is deployed and its objects are healthy.
pub(crate) const READY: &str = "Ready";
pub(crate) const DEPLOYED: &str = "Deployed";
/// The operator serves the resource.
pub(crate) const INITIALIZED: &str = "Initialized";
/// An action on the release failed; false only on a resource of helm-operator-plugins, otherwise absent.
pub(crate) const RELEASE_FAILED: &str = "ReleaseFailed";
/// The release cannot follow the resource; false only on a resource of helm-operator-plugins, otherwise absent.
pub(crate) const IRRECONCILABLE: &str = "Irreconcilable";
/// An annotation, as in helm-operator-plugins, or the operator's own code pauses the resource; absent before the first
/// pause.
pub(crate) const PAUSED: &str = "Paused";
/// The annotation `suspend` is set; present only when true.
pub(crate) const SUSPENDED: &str = "Suspended";
/// The generation is not deployed yet, or objects are not ready yet. The message names what is awaited or retried;
/// present only when true.
pub(crate) const RECONCILING: &str = "Reconciling";
/// Only a change can help; present only when true.
pub(crate) const STALLED: &str = "Stalled";
/// Objects drifted and are not repaired, by policy; present only when true.
pub(crate) const DRIFTED: &str = "Drifted";
/// No template reads some values; present only when true.
pub(crate) const UNREAD_VALUES: &str = "UnreadValues";
/// Control annotations are misspelt or have no effect; present only when true.
pub(crate) const IGNORED_ANNOTATIONS: &str = "IgnoredAnnotations";
/// Release records look like this operator's, but were changed, copied or forged, or their key is lost; present
/// only when true.
pub(crate) const UNPROVEN_RECORDS: &str = "UnprovenRecords";
/// An annotation pins the release to a revision; present only when true.
pub(crate) const PINNED: &str = "Pinned";
/// An annotation requests a plan instead of an action; the message is the plan. Present only when true.
pub(crate) const PLANNED: &str = "Planned";
/// Whether the release passed its tests, as in Flux; absent if none run.
pub(crate) const TEST_SUCCESS: &str = "TestSuccess";
