//! Decides whether a watch serves a received resource, and converts it: sets the namespace of its release, and reads
//! its control annotations under their configured names.

use std::sync::Arc;

use controller::runtime::guarded::guarded;
use controller::runtime::key::ResourceKey;
use controller::shards::{Share, Standing};
use go_encoding::json;
use kube::core::{Selector, SelectorExt as _};
use serde_json::Value;

use super::versions::{Reservation, Versions};
use crate::hooks::extensions::Judge;
use crate::status::PausedBy;
use crate::view::primary::{Primary, Received, status_fields};
use crate::watches::{AnnotationNames, Field};

/// One controller's rules for accepting resources.
#[derive(Clone, Default)]
pub(crate) struct Acceptance {
    /// The labels that the watch selects. The server applies it to events, but not to answers.
    pub(crate) selector: Selector,
    /// The namespace of the releases, if resources are cluster-scoped.
    pub(crate) release_namespace: Option<Arc<str>>,
    /// The configured names of control annotations.
    pub(crate) annotations: AnnotationNames,
    /// The version that this controller watches, if others watch the same kind in other versions.
    pub(crate) version: Option<(String, Arc<Versions>)>,
    /// The filters of the operator's author, all of which must accept a resource.
    pub(crate) filters: Vec<Judge>,
    /// The author's conditions under which a resource is left alone.
    pub(crate) pauses: Vec<Judge>,
    /// Whether the author's code sees labels and annotations.
    pub(crate) keep_metadata: bool,
    /// Which resources are the canaries of a rollout, by their labels.
    pub(crate) canary: Option<Selector>,
    /// How to tell which resources belong to this process; `None` if all do.
    pub(crate) share: Option<Share>,
}

/// What the author's code makes of a resource that it does not leave out.
#[derive(Default)]
struct Verdict {
    /// Whether a filter rejects it or panics, although it may have to be uninstalled.
    is_rejected: bool,
    paused: Option<PausedBy>,
}

impl Acceptance {
    /// Returns the resource as this controller sees it, with the status fields that watches.yaml defines. Returns
    /// `None` if the watch does not select it, the watch of another version or another shard serves it, or the author's
    /// filter rejects it. `known` is the same resource as this controller serves it already.
    pub(crate) fn admit(&self, received: Received, fields: &[Field], known: Option<&Primary>) -> Option<Primary> {
        let Received { mut primary, status, .. } = received;
        if !self.selects(&primary) {
            return None;
        }
        match self.standing(&primary) {
            Standing::Ours => {}
            Standing::Drained => primary.is_drained = true,
            Standing::Others => return None,
        }
        let Verdict { is_rejected, paused } = self.judge(&primary, known)?;
        primary.is_rejected = is_rejected;
        let raw = primary.raw.take().unwrap_or_default();
        if let Some((version, versions)) = &self.version
            && !versions.serves(version, &raw)
        {
            return None;
        }
        primary.is_canary = self.canary.as_ref().is_some_and(|canary| canary.matches(&raw.labels));
        primary.annotations.rename(&raw.annotations, &self.annotations);
        if let Some(cause) = paused {
            primary.pause(cause);
        }
        primary.status.fields = status_fields(status.as_deref(), fields);
        if let Some(namespace) = &self.release_namespace {
            primary.set_release_namespace(namespace);
        }
        primary.raw = self.keep_metadata.then_some(raw);
        Some(primary)
    }

    fn selects(&self, primary: &Primary) -> bool {
        primary.raw.as_ref().is_none_or(|raw| self.selector.matches(&raw.labels))
    }

    fn standing(&self, primary: &Primary) -> Standing {
        let raw = self.share.as_ref().zip(primary.raw.as_ref());
        raw.map_or(Standing::Ours, |(share, raw)| share.standing(primary.uid(), primary.own_namespace(), &raw.labels))
    }

    /// Asks the author's code about the resource; returns `None` if a filter rejects it.
    ///
    /// A rejected resource that is deleted and has our finalizer may have to be uninstalled, or may be another operator's,
    /// which has the same finalizer: [`super::rejected`] decides. One that the filters accepted before, in this process,
    /// is ours.
    ///
    /// If a filter or a condition panics, the resource is paused, because what the author wants is unknown. Without a
    /// filter's answer, rejecting the resource would give up its release silently, and serving it could install a
    /// release beside another operator's. A paused resource stays as it is, and its status shows the pause.
    ///
    /// A `spec` that cannot be read is shown as null. Otherwise, whoever writes a resource could escape the rules that
    /// read only metadata or the time: a maintenance window would end, or another operator's resource would be served.
    /// - Filters are not asked about a resource that they accepted before. One that reads the `spec` would reject it
    ///   or panic, and no status would say what is wrong. No release is made from the `spec`, and reconciling the
    ///   resource reports why. The finalizer does not prove that they accepted it, because other operators have the
    ///   same. After a restart, it is a new resource.
    /// - A filter that panics for a new resource pauses it, as with any other `spec`: it may be another operator's.
    /// - A condition that panics also pauses the resource, although its status then shows only the pause. A deletion
    ///   that must wait cannot be undone.
    fn judge(&self, primary: &Primary, known: Option<&Primary>) -> Option<Verdict> {
        if self.filters.is_empty() && self.pauses.is_empty() {
            return Some(Verdict::default());
        }
        let spec = spec(primary);
        let uninstalls = primary.deleting && primary.has_finalizer();
        let is_kept = (uninstalls || spec.is_none()) && known.is_some_and(is_accepted);
        let mut object = primary.object();
        object.data = Value::from_iter([("spec", spec.unwrap_or_default())]);
        let ask = |rule: &Judge| guarded(&primary.kind, &primary.key(), || rule(&object));
        let (mut rejected, mut panicked) = (false, false);
        for serves in self.filters.iter().filter(|_| !is_kept) {
            match ask(serves) {
                Some(false) if !uninstalls => return None,
                Some(is_served) => rejected |= !is_served,
                None => panicked = true,
            }
        }
        if panicked && !uninstalls {
            return Some(Verdict { paused: Some(PausedBy::FilterPanicked), ..Verdict::default() });
        }
        let paused = self.pauses.iter().find_map(|pauses| match ask(pauses) {
            Some(is_paused) => is_paused.then_some(PausedBy::PauseWhen),
            None => Some(PausedBy::PauseWhenPanicked),
        });
        Some(Verdict { is_rejected: rejected || panicked, paused })
    }

    /// Returns the key of a resource that the server sent.
    pub(crate) fn key_of(&self, primary: &Primary) -> ResourceKey {
        self.key(primary.namespace(), primary.name())
    }

    /// Returns the key of a resource with this namespace, which is empty if it is cluster-scoped.
    pub(crate) fn key(&self, namespace: &str, name: &str) -> ResourceKey {
        ResourceKey::new(self.release_namespace.as_deref().unwrap_or(namespace), name)
    }

    /// Claims the resource for one reconcile; returns `None` while the controller of another version reconciles it.
    pub(crate) fn take(&self, key: &ResourceKey) -> Option<Reservation> {
        match &self.version {
            Some((_, versions)) => versions.take(key),
            None => Some(Reservation::default()),
        }
    }
}

/// Returns whether the filters accepted a known resource. One for which a filter panicked is known, too, and so is a
/// rejected one that is deleted.
fn is_accepted(known: &Primary) -> bool {
    known.paused_by() != Some(PausedBy::FilterPanicked) && !known.is_rejected
}

/// Returns the `spec` as filters and conditions see it; `None` if it cannot be read. Charts read deeper than
/// `serde_json`. If what nests deeper were not shown, whoever writes a resource could escape a filter that reads it.
fn spec(primary: &Primary) -> Option<Value> {
    let text = primary.spec.json().ok()?;
    let deep = || json::decode_preserving_ints(text.as_bytes()).ok().map(|values| json::to_serde(&values));
    serde_json::from_str(text).ok().or_else(deep)
}
