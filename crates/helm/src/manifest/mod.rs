//! Rendered text into documents: which are hooks, in which order they are installed.
//!
//! Counterpart: Helm's `pkg/release/v1/util`.

mod kind_order;
mod sort;
mod split;
#[cfg(test)]
mod tests;

pub use kind_order::{INSTALL_ORDER, UNINSTALL_ORDER, sort_by_kind};
pub use sort::{SortError, Sorted, sort_files};
pub use split::split;

/// The annotation that makes a manifest a hook.
pub const HOOK_ANNOTATION: &str = "helm.sh/hook";
/// The annotation that orders hooks of one event.
pub const HOOK_WEIGHT_ANNOTATION: &str = "helm.sh/hook-weight";
/// The annotation that says when a hook's object is deleted.
pub const HOOK_DELETE_ANNOTATION: &str = "helm.sh/hook-delete-policy";
/// The annotation that says when a hook's log is shown.
pub const HOOK_OUTPUT_LOG_ANNOTATION: &str = "helm.sh/hook-output-log-policy";

/// One document that is applied with the release.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manifest {
    /// The template that it comes from: `chart/templates/x.yaml`.
    pub path: String,
    /// The document's text, as rendered.
    pub content: String,
    /// What the text says of itself.
    pub head: Head,
}

/// What every object starts with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Head {
    /// `apiVersion`.
    pub api_version: String,
    /// `kind`.
    pub kind: String,
    /// `metadata.name`.
    pub name: String,
    /// `metadata.annotations`, sorted by key.
    pub annotations: Vec<(String, String)>,
}

impl Head {
    /// The annotation's value.
    pub fn annotation(&self, key: &str) -> Option<&str> {
        self.annotations.iter().find(|(name, _)| name == key).map(|(_, value)| value.as_str())
    }
}

/// A document that runs at certain events, outside the release's objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hook {
    /// The object's name.
    pub name: String,
    /// The object's kind.
    pub kind: String,
    /// The template that it comes from.
    pub path: String,
    /// The document's text, as rendered.
    pub manifest: String,
    /// When it runs, in Helm's words: `pre-install`, …, `test`.
    pub events: Vec<&'static str>,
    /// Hooks of lower weight run first.
    pub weight: i64,
    /// When its object is deleted: `hook-succeeded`, `hook-failed`, `before-hook-creation`.
    pub delete_policies: Vec<String>,
    /// When its log is shown.
    pub output_log_policies: Vec<String>,
}

impl Hook {
    /// Whether only `helm test` runs it.
    pub fn is_test(&self) -> bool {
        self.events.contains(&"test")
    }
}
