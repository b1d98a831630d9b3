//! Decides who owns a live object, by its own metadata alone, never by the caller or by a manifest that lists it.
//!
//! Counterpart: `checkOwnership` in Helm's `pkg/action/validate.go`, which knows release annotations only.

use crate::kube::live_state::live::Live;
use crate::kube::objects::decorate::{
    Decoration, Former, MANAGED_BY_LABEL, Owner, PRIMARY_ANNOTATION, RELEASE_NAME, RELEASE_NAMESPACE,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use outside::group_of;

/// The owner of a live object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ownership {
    /// This release: its controller is our owner, or its annotations name the release, and no other owner.
    Ours,
    /// None: its metadata names no owner.
    Unclaimed,
    /// Someone else, named in the text.
    Foreign(String),
}

/// Why a release may not change or delete an object.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotOurs {
    /// It belongs to someone else, named in the text.
    #[error("it belongs to {0}")]
    Foreign(String),
    /// Its metadata names no owner.
    #[error("its metadata does not mark it as part of this release")]
    Unclaimed,
    /// Only Helm's annotations name the release, and it is outside the release's namespace, or the owner is cluster-scoped.
    #[error(
        "only Helm's annotations mark it as part of this release, which prove nothing outside the release's namespace or for a cluster-scoped resource"
    )]
    Unnamed,
    /// Somebody else made it while an attempt ran that did not succeed.
    #[error("somebody else made it, and no revision with it was deployed")]
    Appeared,
    /// It lacks the metadata that Helm requires for an import. The faults have Helm's wording.
    #[error("invalid ownership metadata; {}", .0.join("; "))]
    Metadata(Vec<String>),
}

/// The objects and releases that may be taken over: `adopt` in watches.yaml. Each level includes the previous ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Adopt {
    /// None.
    Never,
    /// Objects without an owner in the release's own namespace.
    #[default]
    Unowned,
    /// Objects there, and whole releases, that Helm made and no custom resource owns.
    Released,
    /// Any object and any release.
    Any,
}

/// The existing objects that an apply may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rule {
    /// Objects whose metadata marks them as this release's: Helm's rule for objects new to a release.
    Import,
    /// Objects that the release applied before, unless someone else claims them now.
    Keep,
    /// Objects that do not belong to the release, because the user requested it and the watch allows it.
    Adopt(Adopt),
}

impl Rule {
    /// Returns the rule for objects new to a release.
    pub(crate) fn for_new(adopt: Adopt) -> Rule {
        if adopt == Adopt::Never { Rule::Import } else { Rule::Adopt(adopt) }
    }

    /// Returns the rule for objects that the release applied before.
    pub(crate) fn for_known(adopt: Adopt) -> Rule {
        if adopt == Adopt::Any { Rule::Adopt(adopt) } else { Rule::Keep }
    }

    /// Returns the rule for an object in this namespace: objects in other namespaces, or without one, are adopted only
    /// with [`Adopt::Any`].
    pub(in crate::kube) fn in_namespace(self, namespace: &str, decoration: &Decoration) -> Rule {
        match self {
            Rule::Adopt(adopt) if adopt < Adopt::Any && namespace != decoration.namespace => Rule::Import,
            rule => rule,
        }
    }

    /// Checks whether the release may change the object in this namespace.
    ///
    /// # Errors
    /// The object belongs to someone else, or lacks the metadata that Helm requires.
    pub(crate) fn admits(self, decoration: &Decoration, live: &Live, namespace: &str) -> Result<(), NotOurs> {
        let takes_releases = matches!(self, Rule::Adopt(adopt) if adopt >= Adopt::Released);
        match (self.in_namespace(namespace, decoration), decoration.ownership(live)) {
            (Rule::Keep | Rule::Adopt(_), Ownership::Ours | Ownership::Unclaimed) | (Rule::Adopt(Adopt::Any), _) => {
                Ok(())
            }
            // Objects of Helm's own releases have neither.
            (Rule::Adopt(Adopt::Released), Ownership::Foreign(_))
                if live.controller.is_none() && live.primary.is_none() =>
            {
                Ok(())
            }
            (_, Ownership::Foreign(owner)) => Err(NotOurs::Foreign(owner)),
            (Rule::Import, Ownership::Ours) if !takes_releases => {
                decoration.import_check(live)?;
                decoration.check_named(live, namespace).map_err(|fault| NotOurs::Metadata(vec![fault]))
            }
            (Rule::Import, _) => decoration.import_check(live),
        }
    }
}

impl Decoration {
    /// Returns whether the object's controller is an earlier resource of the owner's kind and name. Unless a release applies
    /// it again, the garbage collector deletes it.
    pub fn is_of_former(&self, live: &Live) -> bool {
        let is_former = |owner: &Owner, controller: &OwnerReference| {
            let has_same_name = owner.kind == controller.kind && owner.name == controller.name;
            has_same_name && owner.group() == group_of(&controller.api_version) && owner.uid != controller.uid
        };
        self.owner.as_ref().zip(live.controller.as_ref()).is_some_and(|(owner, one)| is_former(owner, one))
    }

    /// Returns whether the object belongs to another resource that had a release before.
    pub(in crate::kube) fn belongs_to_earlier_owner(&self, live: &Live) -> bool {
        match (&live.controller, &live.primary_type) {
            (Some(controller), _) => self.former.iter().any(|former| *former.uid == *controller.uid),
            (None, Some(kind)) => {
                let is_it = |former: &Former| !former.kind.is_empty() && *former.kind == **kind;
                self.former.iter().any(is_it)
            }
            (None, None) => false,
        }
    }

    /// Returns whether the object names this release, and belongs to another resource that had it before.
    pub(in crate::kube) fn is_of_earlier_owner(&self, live: &Live) -> bool {
        let names_release = live.release_name.as_deref() == Some(&*self.release)
            && live.release_namespace.as_deref() == Some(&*self.namespace);
        names_release && self.belongs_to_earlier_owner(live)
    }

    /// Returns whether the object is the release's, is not being deleted, and does not go with a former resource.
    pub(crate) fn stays(&self, live: &Live) -> bool {
        self.ownership(live) == Ownership::Ours && !self.is_of_former(live) && !live.deleting
    }

    /// Returns who owns the object. The controller takes precedence, then the owner annotations, then the release
    /// annotations.
    pub fn ownership(&self, live: &Live) -> Ownership {
        if let Some(controller) = &live.controller {
            let ours = |owner: &Owner| owner.uid == controller.uid;
            if self.owner.as_ref().is_some_and(ours) {
                return Ownership::Ours;
            }
            // The controller may be an earlier resource with the same name; then the annotations decide.
            if !self.is_of_former(live) {
                return Ownership::Foreign(format!("{} {:?}, its controller", controller.kind, controller.name));
            }
        }
        if let Some(primary) = &live.primary
            && let Some(owner) = &self.owner
            && (*primary != owner.annotated_name()
                || live.primary_type.as_ref().is_some_and(|t| *t != owner.annotated_type()))
        {
            let kind = live.primary_type.as_deref().unwrap_or("resource");
            return Ownership::Foreign(format!("{kind} {primary:?}"));
        }
        match (&live.release_name, &live.release_namespace) {
            (Some(name), Some(namespace)) if *name == self.release && *namespace == self.namespace => Ownership::Ours,
            (None, None) => Ownership::Unclaimed,
            (name, namespace) => Ownership::Foreign(format!(
                "release {:?} in namespace {:?}",
                name.as_deref().unwrap_or_default(),
                namespace.as_deref().unwrap_or_default()
            )),
        }
    }

    /// Checks that the metadata of the object in this namespace proves that it belongs to this release.
    ///
    /// # Errors
    /// It does not.
    pub fn prove(&self, live: &Live, namespace: &str) -> Result<(), NotOurs> {
        match self.ownership(live) {
            Ownership::Ours => self.check_named(live, namespace).map_err(|_| NotOurs::Unnamed),
            Ownership::Unclaimed => Err(NotOurs::Unclaimed),
            Ownership::Foreign(owner) => Err(NotOurs::Foreign(owner)),
        }
    }

    /// Returns the owner if Helm's annotations alone do not prove that an object in this namespace belongs to the release: a
    /// person's release may have the same name, because whoever creates a resource chooses its name. In the release's own
    /// namespace they suffice for a namespaced resource. What this operator or an upstream applied names the owner.
    fn owner_to_name(&self, namespace: &str) -> Option<&Owner> {
        self.owner.as_ref().filter(|owner| namespace != self.namespace || owner.namespace.is_empty())
    }

    /// Checks that an object of this release names the owner where it must.
    fn check_named(&self, live: &Live, namespace: &str) -> Result<(), String> {
        match self.owner_to_name(namespace) {
            Some(owner) if live.controller.is_none() && live.primary.is_none() => {
                Err(missing("annotation", PRIMARY_ANNOTATION, &owner.annotated_name()))
            }
            _ => Ok(()),
        }
    }

    /// Returns the annotations that mark an object in this namespace as the release's, for a message.
    pub(in crate::kube) fn marking(&self, namespace: &str) -> String {
        let release = format!("{RELEASE_NAME}={} and {RELEASE_NAMESPACE}={}", self.release, self.namespace);
        match self.owner_to_name(namespace) {
            Some(owner) => format!("{PRIMARY_ANNOTATION}={}, {release}", owner.annotated_name()),
            None => release,
        }
    }

    /// Performs Helm's check before importing an object into a release, with Helm's messages.
    fn import_check(&self, live: &Live) -> Result<(), NotOurs> {
        if self.owner.as_ref().is_some_and(|o| live.controller.as_ref().is_some_and(|c| c.uid == o.uid)) {
            // operator-sdk's drift repair drops Helm's annotations, but keeps the controller.
            return Ok(());
        }
        let wanted = [
            ("label", MANAGED_BY_LABEL, &live.managed_by, "Helm"),
            ("annotation", RELEASE_NAME, &live.release_name, self.release.as_str()),
            ("annotation", RELEASE_NAMESPACE, &live.release_namespace, self.namespace.as_str()),
        ];
        let faults: Vec<String> =
            wanted.iter().filter_map(|(what, key, actual, value)| fault(what, key, actual.as_deref(), value)).collect();
        if faults.is_empty() { Ok(()) } else { Err(NotOurs::Metadata(faults)) }
    }
}

fn fault(what: &str, key: &str, actual: Option<&str>, wanted: &str) -> Option<String> {
    match actual {
        Some(actual) if actual == wanted => None,
        Some(actual) => {
            Some(format!("{what} validation error: key {key:?} must equal {wanted:?}: current value is {actual:?}"))
        }
        None => Some(missing(what, key, wanted)),
    }
}

fn missing(what: &str, key: &str, wanted: &str) -> String {
    format!("{what} validation error: missing key {key:?}: must be set to {wanted:?}")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::sample::decoration;

    const OURS: fn(&str) -> Value = |kind| json!([{"apiVersion": "cache.my.domain/v1", "kind": kind, "name": "web", "uid": "u1", "controller": true}]);

    fn annotated(name: &str, namespace: &str) -> Value {
        json!({"annotations": {RELEASE_NAME: name, RELEASE_NAMESPACE: namespace}, "labels": {MANAGED_BY_LABEL: "Helm"}})
    }

    fn with(mut metadata: Value, key: &str, value: Value) -> Value {
        metadata[key] = value;
        metadata
    }

    fn for_primary(name: &str, kind: &str) -> Value {
        let mut metadata = annotated("web", "ns");
        metadata["annotations"]["operator-sdk/primary-resource"] = name.into();
        metadata["annotations"]["operator-sdk/primary-resource-type"] = kind.into();
        metadata
    }

    fn live(metadata: Value) -> Live {
        serde_json::from_value(json!({"metadata": metadata})).unwrap()
    }

    #[test]
    fn controllers_decide_before_owner_annotations_and_those_before_the_release() {
        let foreign = |who: &str| Ownership::Foreign(who.into());
        let reference = |kind: &str, name: &str, uid: &str| json!([{"apiVersion": "cache.my.domain/v1", "kind": kind, "name": name, "uid": uid, "controller": true}]);
        let other_group =
            json!([{"apiVersion": "x.io/v1", "kind": "Memcached", "name": "web", "uid": "u0", "controller": true}]);
        for (metadata, expected) in [
            (json!({}), Ownership::Unclaimed),
            (json!({"labels": {MANAGED_BY_LABEL: "Helm"}}), Ownership::Unclaimed),
            (json!({"ownerReferences": OURS("Memcached")}), Ownership::Ours),
            (annotated("web", "ns"), Ownership::Ours),
            (annotated("other", "ns"), foreign("release \"other\" in namespace \"ns\"")),
            (annotated("web", "elsewhere"), foreign("release \"web\" in namespace \"elsewhere\"")),
            (json!({"annotations": {RELEASE_NAME: "web"}}), foreign("release \"web\" in namespace \"\"")),
            (
                with(annotated("web", "ns"), "ownerReferences", reference("Redis", "web", "u2")),
                foreign("Redis \"web\", its controller"),
            ),
            (
                with(annotated("web", "ns"), "ownerReferences", reference("Memcached", "two", "u2")),
                foreign("Memcached \"two\", its controller"),
            ),
            (
                with(annotated("web", "ns"), "ownerReferences", other_group),
                foreign("Memcached \"web\", its controller"),
            ),
            (with(annotated("web", "ns"), "ownerReferences", reference("Memcached", "web", "u0")), Ownership::Ours),
            (json!({"ownerReferences": reference("Memcached", "web", "u0")}), Ownership::Unclaimed),
            (for_primary("ns/web", "Memcached.cache.my.domain"), Ownership::Ours),
            (for_primary("ns/two", "Memcached.cache.my.domain"), foreign("Memcached.cache.my.domain \"ns/two\"")),
            (for_primary("ns/web", "Redis.cache.my.domain"), foreign("Redis.cache.my.domain \"ns/web\"")),
        ] {
            assert_eq!(decoration().ownership(&live(metadata.clone())), expected, "{metadata}");
        }
    }

    #[test]
    fn releases_without_an_owner_are_matched_by_annotations() {
        let decoration = Decoration { owner: None, ..decoration() };
        assert_eq!(decoration.ownership(&live(annotated("web", "ns"))), Ownership::Ours);
        assert_eq!(decoration.ownership(&live(for_primary("ns/two", "X.y"))), Ownership::Ours);
        assert!(matches!(
            decoration.ownership(&live(json!({"ownerReferences": OURS("Memcached")}))),
            Ownership::Foreign(_)
        ));
    }

    #[test]
    fn the_rule_decides_which_objects_may_be_changed() {
        let no_label = json!({"annotations": {RELEASE_NAME: "web", RELEASE_NAMESPACE: "ns"}});
        for (metadata, import, keep) in [
            (json!({}), false, true),
            (no_label, false, true),
            (annotated("web", "ns"), true, true),
            (annotated("other", "ns"), false, false),
            (json!({"ownerReferences": OURS("Memcached")}), true, true),
            (
                json!({"ownerReferences": [{"apiVersion": "v1", "kind": "X", "name": "x", "uid": "x", "controller": true}]}),
                false,
                false,
            ),
        ] {
            let live = live(metadata.clone());
            assert_eq!(Rule::Import.admits(&decoration(), &live, "ns").is_ok(), import, "import {metadata}");
            assert_eq!(Rule::Keep.admits(&decoration(), &live, "ns").is_ok(), keep, "keep {metadata}");
            assert_eq!(Rule::Adopt(Adopt::Any).admits(&decoration(), &live, "ns"), Ok(()), "adopt {metadata}");
        }
    }

    #[test]
    fn each_level_of_adoption_admits_more() {
        let foreign = json!({"ownerReferences": [{"apiVersion": "v1", "kind": "X", "name": "x", "uid": "x", "controller": true}]});
        for (metadata, namespace, least) in [
            (json!({}), "ns", Adopt::Unowned),
            (annotated("other", "ns"), "ns", Adopt::Released),
            (for_primary("ns/two", "Memcached.cache.my.domain"), "ns", Adopt::Any),
            (foreign, "ns", Adopt::Any),
            (json!({}), "other", Adopt::Any),
            (annotated("other", "ns"), "", Adopt::Any),
            (annotated("web", "ns"), "ns", Adopt::Never),
            (annotated("web", "ns"), "other", Adopt::Released),
            (annotated("web", "ns"), "", Adopt::Released),
            (for_primary("ns/web", "Memcached.cache.my.domain"), "", Adopt::Never),
        ] {
            let live = live(metadata.clone());
            for adopt in [Adopt::Never, Adopt::Unowned, Adopt::Released, Adopt::Any] {
                let admitted = Rule::for_new(adopt).admits(&decoration(), &live, namespace).is_ok();
                assert_eq!(admitted, adopt >= least, "{adopt:?} {metadata} in {namespace:?}");
            }
        }
        assert_eq!(Rule::for_known(Adopt::Released), Rule::Keep);
    }

    #[test]
    fn outside_its_owners_namespace_a_release_has_only_what_names_its_owner() {
        let helms = || annotated("web", "ns");
        let cluster_scoped = || Owner { namespace: String::new(), ..decoration().owner.unwrap() };
        for (behaviour, metadata, namespace, owner, proven) in [
            ("Helm's, in the namespace", helms(), "ns", decoration().owner, true),
            ("Helm's, in another namespace", helms(), "other", decoration().owner, false),
            ("Helm's, without a namespace", helms(), "", decoration().owner, false),
            ("Helm's, for a cluster-scoped owner", helms(), "other", Some(cluster_scoped()), false),
            ("Helm's, for one whose release is there", helms(), "ns", Some(cluster_scoped()), false),
            ("Helm's, where no resource owns the release", helms(), "", None, true),
            ("named by annotation", for_primary("ns/web", "Memcached.cache.my.domain"), "", decoration().owner, true),
            ("controlled", with(helms(), "ownerReferences", OURS("Memcached")), "", Some(cluster_scoped()), true),
            ("its kept object", for_primary("web", "Memcached.cache.my.domain"), "ns", Some(cluster_scoped()), true),
        ] {
            let decoration = Decoration { owner, ..decoration() };
            assert_eq!(decoration.prove(&live(metadata.clone()), namespace).is_ok(), proven, "{behaviour}");
            let is_imported = Rule::Import.admits(&decoration, &live(metadata.clone()), namespace).is_ok();
            assert_eq!(is_imported, proven, "import: {behaviour}");
            assert_eq!(Rule::Keep.admits(&decoration, &live(metadata), namespace), Ok(()), "keep: {behaviour}");
        }
    }

    #[test]
    fn refusals_name_the_owner_or_the_missing_metadata() {
        let why = |metadata| Rule::Import.admits(&decoration(), &live(metadata), "ns").unwrap_err().to_string();
        let unproven = |metadata| decoration().prove(&live(metadata), "").unwrap_err();
        assert_eq!(unproven(json!({})).to_string(), "its metadata does not mark it as part of this release");
        assert_eq!(unproven(annotated("web", "ns")), NotOurs::Unnamed);
        assert_eq!(why(annotated("other", "ns")), "it belongs to release \"other\" in namespace \"ns\"");
        assert_eq!(
            why(json!({"labels": {MANAGED_BY_LABEL: "me"}})),
            "invalid ownership metadata; \
             label validation error: key \"app.kubernetes.io/managed-by\" must equal \"Helm\": current value is \"me\"; \
             annotation validation error: missing key \"meta.helm.sh/release-name\": must be set to \"web\"; \
             annotation validation error: missing key \"meta.helm.sh/release-namespace\": must be set to \"ns\""
        );
        let outside = Rule::Import.admits(&decoration(), &live(annotated("web", "ns")), "").unwrap_err().to_string();
        assert_eq!(
            outside,
            "invalid ownership metadata; \
             annotation validation error: missing key \"operator-sdk/primary-resource\": must be set to \"ns/web\""
        );
    }
}
