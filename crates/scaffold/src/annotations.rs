//! The keys of the annotations on a resource that control its release: one list for the operator and for generated
//! policies.

/// The prefix of the annotations.
pub const PREFIX: &str = "helm.sdk.operatorframework.io/";

/// The keys that an entry of watches.yaml may rename.
pub const RENAMED: [&str; 8] = [
    "pause",
    "install-disable-hooks",
    "upgrade-disable-hooks",
    "uninstall-disable-hooks",
    "install-description",
    "upgrade-description",
    "uninstall-description",
    "upgrade-force",
];

/// The other keys with an effect.
const OTHERS: [&str; 13] = [
    "adopt",
    "depends-on",
    "drift",
    "dry-run",
    "hook-timeout",
    "pin",
    "reconcile-now",
    "reconcile-period",
    "retry-now",
    "rollback-force",
    "suspend",
    "uninstall-wait",
    "values-from",
];

/// Returns every key that has an effect.
pub fn all() -> impl Iterator<Item = &'static str> {
    OTHERS.into_iter().chain(RENAMED)
}
