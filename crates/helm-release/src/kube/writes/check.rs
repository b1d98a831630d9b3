//! Checks who owns existing objects before a release changes them.

use futures::{FutureExt, StreamExt, TryStreamExt, stream};
use outside::{Call, Error};
use serde_json::Value;

use crate::kube::live_state::live::{Live, Proven};
use crate::kube::live_state::ownership::{NotOurs, Rule};
use crate::kube::objects::decorate::Decoration;
use crate::kube::objects::object::{Object, ObjectKey};
use crate::kube::writes::apply::{Applier, ApplyError, describe, key_of};
use crate::kube::writes::found::{Existing, Found};
use crate::kube::writes::managed_fields::ManagedFields;

/// Maximum number of objects to read concurrently before a write.
const MAX_READS: usize = 16;

/// An existing object that the release may not change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// The conflicting object.
    pub key: ObjectKey,
    /// Its owner, or the missing metadata.
    pub why: NotOurs,
}

/// Maximum number of conflicts that an error lists.
const MAX_SHOWN: usize = 5;

pub(in crate::kube) fn describe_all(all: &[Conflict]) -> String {
    let text = |c: &Conflict| {
        let place = match &*c.key.namespace {
            "" => String::new(),
            namespace => format!(" in namespace {namespace:?}"),
        };
        format!("{}{place} exists and cannot be imported into the current release: {}", c.key, c.why)
    };
    let mut lines: Vec<String> = all.iter().take(MAX_SHOWN).map(text).collect();
    if all.len() > MAX_SHOWN {
        lines.push(format!("and {} more", all.len() - MAX_SHOWN));
    }
    lines.join("; ")
}

/// The part of an object to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::kube) enum Part {
    Whole,
    Metadata,
}

impl Applier {
    /// Reads the metadata of objects before anything is written: one request each, up to 16 concurrently.
    ///
    /// # Errors
    /// [`ApplyError::Foreign`] with every object that its rule does not admit, or the first failed request.
    pub(crate) async fn check_ownership(
        &self,
        objects: &[(&Object, Rule)],
        decoration: &Decoration,
    ) -> Result<Vec<(ObjectKey, Found)>, ApplyError> {
        let looks: Vec<_> =
            objects.iter().map(|(object, rule)| self.check_object(object, *rule, decoration).boxed()).collect();
        let (found, foreign): (Vec<_>, Vec<_>) =
            stream::iter(looks).buffered(MAX_READS).try_collect::<Vec<_>>().await?.into_iter().partition(Result::is_ok);
        let foreign: Vec<Conflict> = foreign.into_iter().filter_map(Result::err).collect();
        if foreign.is_empty() { Ok(found.into_iter().flatten().collect()) } else { Err(ApplyError::Foreign(foreign)) }
    }

    async fn check_object(
        &self,
        object: &Object,
        rule: Rule,
        decoration: &Decoration,
    ) -> Result<Result<(ObjectKey, Found), Conflict>, ApplyError> {
        let failed = |source| ApplyError::Failed { verb: "read", object: describe(object), source };
        let resource = self.resource(object).await?;
        let key = key_of(object, decoration, &resource);
        let path = resource.path(&key.namespace, &object.name).map_err(failed)?;
        let observed = self.check_path(object, &path, &key, rule, decoration, Part::Metadata).await.map_err(failed)?;
        let owner = decoration.owner.as_ref().map_or("", |owner| &owner.uid);
        Ok(observed.map(|observed| (key, observed.reduced(owner))))
    }

    /// Reads the object at a path, or a part of it, and checks its ownership. A path that is not served proves nothing: if
    /// discovery still lists the kind, it may be served a moment later, with the object.
    pub(in crate::kube) async fn check_path(
        &self,
        object: &Object,
        path: &str,
        key: &ObjectKey,
        rule: Rule,
        decoration: &Decoration,
        part: Part,
    ) -> Result<Result<Found, Conflict>, Error> {
        let call = match part {
            Part::Whole => Call::get(path),
            Part::Metadata => Call::metadata(path),
        };
        let answer = match self.api.send(call).await {
            Err(error) if error.is_missing_object() => return Ok(Ok(Found::Absent)),
            Err(error) => return Err(self.explain(object, error).await),
            Ok(answer) => answer,
        };
        let live: Live = answer.parse()?;
        if let Err(why) = rule.admits(decoration, &live, &key.namespace) {
            return Ok(Err(Conflict { key: key.clone(), why }));
        }
        let mut object: Value = answer.parse()?;
        let Proven { uid, resource_version } = live.proven();
        let managed_fields = ManagedFields::Known(object["metadata"]["managedFields"].take());
        let (scaled, kept, whole, adopted) =
            (live.scaled, live.kept, (part == Part::Whole).then_some(object), decoration.adopted(&live));
        let (stays, owner, made_by_others) =
            (decoration.stays(&live), decoration.ownership(&live), decoration.made_by_others(&live));
        Ok(Ok(Found::Read(Box::new(Existing {
            uid,
            resource_version,
            managed_fields,
            scaled,
            kept,
            adopted,
            made_by_others,
            stays,
            // A whole object is read for the write that follows, metadata perhaps at the start of the action.
            is_ours_now: stays && whole.is_some(),
            whole,
            owner,
        }))))
    }
}
