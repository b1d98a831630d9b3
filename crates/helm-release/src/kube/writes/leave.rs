//! Leaves a live object that the release does not delete: removes the metadata that would get it deleted later.
//!
//! With our owner reference, the garbage collector would delete the object together with the resource; with our
//! metadata, the next cleanup would.

use outside::{Call, Error};
use serde_json::{Map, Value, json};

use crate::kube::live_state::live::Live;
use crate::kube::objects::decorate::{
    CHART_LABEL, Decoration, FIELD_MANAGER, MANAGED_BY_LABEL, Owner, PRIMARY_ANNOTATION, PRIMARY_TYPE_ANNOTATION,
    RELEASE_NAME, RELEASE_NAMESPACE, RESOURCE_POLICY, is_keep,
};
use crate::kube::objects::object::ObjectKey;
use crate::kube::writes::apply::{Applier, ApplyError, MAX_TRIES, bytes};
use crate::kube::writes::write::metadata_patch;

/// The object's owner before an attempt adopted it. Recorded so that it survives the attempt's failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Adopted {
    /// The resource itself, by its owner reference: the object is from a release that was lost.
    Owned,
    /// The resource, by annotations only, without an owner reference: the object was kept.
    Named,
    /// None, but it had the metadata by which Helm imports objects into the release.
    Claimed,
    /// None, or another owner.
    Unclaimed,
    /// The resource: the object is a definition that the chart now ships outside of the manifest. Its annotations still name
    /// the resource, so that the release may import it again; it names no chart, so no cleanup finds it.
    Shipped,
}

impl Adopted {
    /// Returns whether nothing ties the object to the resource.
    pub(in crate::kube) fn is_untied(self) -> bool {
        matches!(self, Adopted::Claimed | Adopted::Unclaimed)
    }
}

/// Why an object is left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Left {
    /// Its annotation `helm.sh/resource-policy` keeps it.
    Kept,
    /// It existed before the attempt that failed, or is left in the same way.
    Before(Adopted),
    /// Another resource took over the release, but has not applied the object yet.
    HasSuccessor,
}

impl Decoration {
    /// Returns how a live object would be adopted by a release that does not contain it. Returns `None` if it is being
    /// deleted.
    pub(in crate::kube) fn adopted(&self, live: &Live) -> Option<Adopted> {
        let owner = self.owner.as_ref();
        let is_controlled = owner.is_some_and(|o| live.controller.as_ref().is_some_and(|c| c.uid == o.uid));
        let has_type = |o: &Owner| live.primary_type.as_ref().is_none_or(|named| *named == o.annotated_type());
        let is_named = owner.is_some_and(|o| live.primary.as_deref() == Some(&o.annotated_name()) && has_type(o));
        let of_release = live.release_name.as_deref() == Some(&self.release)
            && live.release_namespace.as_deref() == Some(&self.namespace);
        match of_release {
            _ if live.deleting => None,
            _ if is_controlled => Some(Adopted::Owned),
            true if is_named => Some(Adopted::Named),
            true => Some(Adopted::Claimed),
            false => Some(Adopted::Unclaimed),
        }
    }

    /// Returns how a live object would be adopted if somebody else has made it: nothing ties it to the resource, and it does
    /// not name the release, or this operator has written nothing of it, or it belongs to a resource that never had the
    /// release. What an attempt has made shows that, even if no record does. All releases are written under one name, so
    /// the managed fields alone prove nothing.
    pub fn made_by_others(&self, live: &Live) -> Option<Adopted> {
        self.adopted(live).filter(|adopted| match adopted {
            Adopted::Unclaimed => true,
            Adopted::Claimed => !live.is_written || self.belongs_to_others(live),
            Adopted::Owned | Adopted::Named | Adopted::Shipped => false,
        })
    }

    /// Returns whether the object belongs to a resource that never had the release. If its records are elsewhere, its own
    /// release has the same name.
    fn belongs_to_others(&self, live: &Live) -> bool {
        let is_own = match (&live.controller, &live.primary_type) {
            (Some(_), _) => self.is_of_former(live),
            (None, Some(kind)) => self.owner.as_ref().is_some_and(|owner| *kind == owner.annotated_type()),
            (None, None) => true,
        };
        !is_own && !self.belongs_to_earlier_owner(live)
    }

    /// Returns the metadata patch for a live object that is left; `None` if it has no metadata of ours.
    fn leave(&self, metadata: &Value, left: Left) -> Option<Value> {
        let mut patch = Map::new();
        let is_ours = |reference: &&Value| self.owner.as_ref().is_some_and(|owner| reference["uid"] == *owner.uid);
        let (ours, others): (Vec<&Value>, Vec<&Value>) =
            metadata["ownerReferences"].as_array().into_iter().flatten().partition(is_ours);
        if !ours.is_empty() {
            patch.insert("ownerReferences".into(), json!(others));
        }
        let is_kept = metadata["annotations"][RESOURCE_POLICY].as_str().is_some_and(is_keep);
        let names_owner = matches!(left, Left::Kept | Left::Before(Adopted::Owned | Adopted::Named | Adopted::Shipped));
        let (labels, annotations): (&[&str], &[&str]) = match left {
            Left::Before(Adopted::Owned) if !is_kept => return None,
            Left::HasSuccessor | Left::Kept | Left::Before(Adopted::Owned | Adopted::Named) => (&[], &[]),
            Left::Before(Adopted::Claimed) => (&[CHART_LABEL], &[PRIMARY_ANNOTATION, PRIMARY_TYPE_ANNOTATION]),
            Left::Before(Adopted::Shipped) => (&[CHART_LABEL], &[]),
            Left::Before(Adopted::Unclaimed) => (
                &[CHART_LABEL, MANAGED_BY_LABEL],
                &[PRIMARY_ANNOTATION, PRIMARY_TYPE_ANNOTATION, RELEASE_NAME, RELEASE_NAMESPACE],
            ),
        };
        let without = |field: &str, keys: &[&str]| -> Map<String, Value> {
            keys.iter()
                .filter(|key| !metadata[field][**key].is_null())
                .map(|key| ((*key).into(), Value::Null))
                .collect()
        };
        let (labels, mut annotations) = (without("labels", labels), without("annotations", annotations));
        if let Some(owner) = self.owner.as_ref().filter(|_| names_owner && !ours.is_empty()) {
            annotations.insert(PRIMARY_ANNOTATION.into(), owner.annotated_name().into());
            annotations.insert(PRIMARY_TYPE_ANNOTATION.into(), owner.annotated_type().into());
        }
        for (field, changes) in [("labels", labels), ("annotations", annotations)] {
            if !changes.is_empty() {
                patch.insert(field.into(), changes.into());
            }
        }
        metadata_patch(patch, metadata)
    }
}

impl Applier {
    /// Removes our metadata from an object that leaves this release. A kept object still names its resource by
    /// annotations, so that the resource can adopt it again. Returns the resulting object.
    ///
    /// Repeating it is safe. An object that does not exist, or that belongs to someone else, is not touched: `None`.
    ///
    /// # Errors
    /// The server rejects the write or is unreachable, or the object keeps changing.
    pub(crate) async fn leave(
        &self,
        key: &ObjectKey,
        api_version: &str,
        left: Left,
        decoration: &Decoration,
    ) -> Result<Option<Live>, ApplyError> {
        let failed = |source| ApplyError::Failed { verb: "release", object: key.to_string(), source };
        self.in_served_version(|| self.leave_as_known(key, api_version, left, decoration)).await.map_err(failed)
    }

    /// Leaves an object in the version found by the last discovery.
    async fn leave_as_known(
        &self,
        key: &ObjectKey,
        api_version: &str,
        left: Left,
        decoration: &Decoration,
    ) -> Result<Option<Live>, Error> {
        let resource = match self.mapper.any_version(api_version, &key.kind).await {
            Err(Error::NoKind { .. }) => return Ok(None),
            found => found?,
        };
        let namespace = resource.namespace_of(&key.namespace, &decoration.namespace);
        let path = resource.path(namespace, &key.name)?;
        let mut tries = 0;
        loop {
            tries += 1;
            let Some(object) = self.read_metadata::<Value>(&path).await? else { return Ok(None) };
            let Ok(live) = serde_json::from_value::<Live>(object.clone()) else { return Ok(None) };
            if decoration.prove(&live, namespace).is_err() {
                return Ok(None);
            }
            let Some(patch) = decoration.leave(&object["metadata"], left) else { return Ok(Some(live)) };
            let call = Call::merge(format!("{path}?fieldManager={FIELD_MANAGER}"), bytes(&patch));
            match self.api.send(call).await {
                Err(error) if error.is_conflict() && tries < MAX_TRIES => {}
                Err(error) if error.is_missing_object() => return Ok(None),
                answer => return answer?.parse().map(Some),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::decoration;

    fn reference(uid: &str) -> Value {
        json!({"apiVersion": "cache.my.domain/v1", "kind": "Memcached", "name": "web", "uid": uid, "controller": uid == "u1"})
    }

    fn metadata() -> Value {
        json!({
            "uid": "o", "resourceVersion": "7", "ownerReferences": [reference("u1"), reference("x")],
            "labels": {CHART_LABEL: "memcached", MANAGED_BY_LABEL: "Helm", "app": "web"},
            "annotations": {RELEASE_NAME: "web", RELEASE_NAMESPACE: "ns", "note": "mine"},
        })
    }

    #[test]
    fn what_was_taken_is_given_back() {
        let patch = |left| decoration().leave(&metadata(), left);
        let others = json!([reference("x")]);
        let with = |mut changes: Value| {
            (changes["uid"], changes["resourceVersion"]) = ("o".into(), "7".into());
            changes["ownerReferences"] = others.clone();
            Some(json!({"metadata": changes}))
        };
        assert_eq!(patch(Left::Before(Adopted::Owned)), None);
        assert_eq!(patch(Left::Before(Adopted::Claimed)), with(json!({"labels": {CHART_LABEL: null}})));
        let all = json!({
            "labels": {CHART_LABEL: null, MANAGED_BY_LABEL: null},
            "annotations": {RELEASE_NAME: null, RELEASE_NAMESPACE: null},
        });
        assert_eq!(patch(Left::Before(Adopted::Unclaimed)), with(all));
        let named = json!({"annotations": {PRIMARY_ANNOTATION: "ns/web", PRIMARY_TYPE_ANNOTATION: "Memcached.cache.my.domain"}});
        assert_eq!(patch(Left::Kept), with(named.clone()));
        assert_eq!(patch(Left::Before(Adopted::Named)), with(named.clone()));
        let mut shipped = named.clone();
        shipped["labels"] = json!({CHART_LABEL: null});
        assert_eq!(patch(Left::Before(Adopted::Shipped)), with(shipped));
        assert_eq!(patch(Left::HasSuccessor), with(json!({})), "its successor applies the rest");
        let mut kept = metadata();
        kept["annotations"][RESOURCE_POLICY] = "keep".into();
        assert_eq!(decoration().leave(&kept, Left::Before(Adopted::Owned)), with(named), "a person keeps it");
        assert_eq!(decoration().leave(&json!({"uid": "o"}), Left::Kept), None, "nothing is ours");
    }

    #[test]
    fn what_an_object_was_is_judged_by_its_metadata() {
        let adopted = |mut metadata: Value, change: Value| {
            for (key, value) in change.as_object().unwrap() {
                metadata[key] = value.clone();
            }
            decoration().adopted(&serde_json::from_value(json!({"metadata": metadata})).unwrap())
        };
        let named = json!({"annotations": {RELEASE_NAME: "web", RELEASE_NAMESPACE: "ns", PRIMARY_ANNOTATION: "ns/web"}, "ownerReferences": []});
        assert_eq!(adopted(metadata(), json!({})), Some(Adopted::Owned));
        assert_eq!(adopted(metadata(), named.clone()), Some(Adopted::Named));
        for (of_kind, expected) in
            [("Memcached.cache.my.domain", Adopted::Named), ("Other.cache.my.domain", Adopted::Claimed)]
        {
            let mut named = named.clone();
            named["annotations"][PRIMARY_TYPE_ANNOTATION] = of_kind.into();
            assert_eq!(adopted(metadata(), named), Some(expected));
        }
        assert_eq!(adopted(metadata(), json!({"ownerReferences": []})), Some(Adopted::Claimed));
        assert_eq!(adopted(json!({}), json!({})), Some(Adopted::Unclaimed));
        assert_eq!(adopted(json!({}), json!({"annotations": {RELEASE_NAME: "other"}})), Some(Adopted::Unclaimed));
        assert_eq!(adopted(metadata(), json!({"deletionTimestamp": "2026-01-01T00:00:00Z"})), None);
    }
}
