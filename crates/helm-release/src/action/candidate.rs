//! The desired release, before an action makes a revision of it.

use std::collections::BTreeMap;
use std::sync::Arc;

use helm::reads::Unread;

use super::Error;
use super::resume::{has_delete_hooks, not_run};
use crate::kube::{Decoration, Duplicate, Object, ObjectKey, Tie, recorded_objects};
use crate::release::{ChartDocument, Fields, Hook, Info, Release};
use crate::storage::{Marks, Sealed};

/// The apply method that records name, so that a manual `helm upgrade` or `helm rollback` uses three-way merges: its
/// server-side apply would conflict with our field manager. See docs/decisions/0008-helm-by-hand.md.
pub(crate) const HELM_APPLY_METHOD: &str = "csa";

/// The desired release: the chart rendered with the user's values.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// The chart, as the record keeps it.
    pub chart: Arc<ChartDocument>,
    /// The user's values, without the chart's defaults.
    pub config: serde_json::Value,
    /// The rendered manifest, as the record keeps it.
    pub manifest: String,
    /// The manifest's objects, in install order. In an ordered release, each has its turn.
    pub objects: Vec<Object>,
    /// The chart's hooks.
    pub hooks: Vec<Hook>,
    /// The rendered NOTES.txt.
    pub notes: String,
    /// The definitions in the chart's `crds` folder: created on install only, never updated or deleted.
    pub crds: Vec<Object>,
    /// Objects that the chart renders more than once; `objects` holds only the last of each.
    pub duplicates: Vec<Duplicate>,
    /// Values that no template reads, as far as can be determined.
    pub unread: Vec<Unread>,
    /// The digest of everything it was rendered from. An interrupted action is continued only by a candidate with the
    /// same digest.
    pub inputs: String,
}

impl Candidate {
    /// Returns how its objects name their owner, as its [`Marks`] will record it.
    pub fn tie(&self) -> Tie {
        Marks { delete_hooks: has_delete_hooks(&self.hooks), ..Marks::default() }.tie()
    }

    /// Converts a recorded revision to a candidate that equals its original render, except that no action applies its
    /// `crds` again. `inputs` is its digest, and `marks` are its own.
    ///
    /// # Errors
    /// The stored manifest cannot be parsed.
    pub fn recorded(release: Sealed<Release>, inputs: &str, marks: &Marks) -> Result<Candidate, Error> {
        let release = release.into_inner();
        let mut objects = recorded_objects(&release.manifest, &release.namespace)?;
        marks.give_turns(&mut objects, &release.namespace);
        Ok(Candidate {
            chart: release.chart,
            config: release.config,
            manifest: release.manifest,
            objects,
            hooks: release.hooks,
            notes: release.info.notes,
            crds: Vec::new(),
            duplicates: Vec::new(),
            unread: Vec::new(),
            inputs: inputs.to_owned(),
        })
    }

    /// Returns whether the chart ships this definition outside of its manifest, where no upgrade deletes it: in its `crds`
    /// folder, or as a hook. `namespace` is the release's.
    pub(super) fn ships_apart(&self, key: &ObjectKey, namespace: &str) -> bool {
        let is_hook = |hook: &Hook| {
            hook.kind == "CustomResourceDefinition" && (&*hook.kind, &*hook.name) == (&*key.kind, &*key.name)
        };
        self.crds.iter().any(|object| object.has_key(key, namespace)) || self.hooks.iter().any(is_hook)
    }

    /// Returns the pending release with this revision number.
    pub(crate) fn as_release(&self, decoration: &Decoration, version: u32) -> Release {
        Release {
            name: decoration.release.clone(),
            namespace: decoration.namespace.clone(),
            version,
            info: Info::default(),
            chart: self.chart.clone(),
            config: self.config.clone(),
            manifest: self.manifest.clone(),
            hooks: not_run(&self.hooks),
            apply_method: HELM_APPLY_METHOD.into(),
            labels: BTreeMap::new(),
            record_uid: None,
            more: Fields::new(),
        }
    }
}
