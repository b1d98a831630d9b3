//! Splits rendered text into manifests and hooks, in install order.
//!
//! Counterpart: Helm's `pkg/release/v1/util`.

mod kind_order;
mod recorded;
mod sort;
mod split;
mod stream;
#[cfg(test)]
mod tests;

pub use kind_order::{INSTALL_ORDER, UNINSTALL_ORDER, sort_by_kind};
pub(crate) use recorded::recorded;
pub(crate) use sort::sort_files;
pub use sort::{HeadError, SortError, words};
pub use split::split;
pub use stream::{documents, join, separate};

/// The annotation that makes a manifest a hook.
pub const HOOK_ANNOTATION: &str = "helm.sh/hook";
/// The annotation that orders the hooks of an event.
const HOOK_WEIGHT_ANNOTATION: &str = "helm.sh/hook-weight";
/// The annotation that lists when a hook's object is deleted.
pub const HOOK_DELETE_ANNOTATION: &str = "helm.sh/hook-delete-policy";
/// The annotation that lists when a hook's log is printed.
const HOOK_OUTPUT_LOG_ANNOTATION: &str = "helm.sh/hook-output-log-policy";

/// A document that belongs to the release.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manifest {
    /// The path of its template: `chart/templates/x.yaml`.
    pub path: String,
    /// The document's text, as rendered.
    pub content: String,
    /// The decoded head of the document.
    pub head: Head,
}

/// The fields that all objects have. Absent fields are empty.
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
    /// Returns the value of the annotation.
    pub fn annotation(&self, key: &str) -> Option<&str> {
        self.annotations.iter().find(|(name, _)| name == key).map(|(_, value)| value.as_str())
    }
}

/// A document that is applied at certain events and does not belong to the release.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hook {
    /// The object's name.
    pub name: String,
    /// The object's kind.
    pub kind: String,
    /// The path of its template.
    pub path: String,
    /// The document's text, as rendered.
    pub manifest: String,
    /// The events at which it runs: `pre-install`, `post-install`, …, `test`.
    pub events: Vec<&'static str>,
    /// Hooks with lower weights run first. Default: 0.
    pub weight: i64,
    /// The policies for deleting its object: `hook-succeeded`, `hook-failed`, `before-hook-creation`. In lower case,
    /// unchecked.
    pub delete_policies: Vec<String>,
    /// The policies for printing its log: `hook-succeeded`, `hook-failed`. In lower case, unchecked.
    pub output_log_policies: Vec<String>,
}

impl Hook {
    /// Returns whether `helm test` runs it.
    pub(crate) fn is_test(&self) -> bool {
        self.events.contains(&"test")
    }
}
