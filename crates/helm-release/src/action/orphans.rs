//! Finds a release's objects by their own metadata, for a resource whose record is missing.
//!
//! Deleting a namespace also deletes the record, while cluster-scoped objects have no owner reference that would let
//! the garbage collector delete them.

use futures::{StreamExt, TryStreamExt, stream};

use super::{Environment, Error};
use crate::kube::{ApplyError, CHART_LABEL, Call, Live, ObjectKey, Owner, Ownership, Resource, label_value};
use crate::storage::{MarkedObject, Marks};

/// Maximum number of concurrent lists, each of which has one page in memory.
const MAX_LISTS: usize = 2;

/// Finds every object in the cluster that carries the chart's label and provably belongs to this release, with one paged
/// list per kind. Leaves out what hooks made, definitions included: no uninstall deletes it.
///
/// A kind that may not be listed cluster-wide is listed in the release's namespace; kinds that may not be listed at all
/// are skipped.
///
/// # Errors
/// The server is unreachable, or rejects a list for another reason than missing permissions, or than a kind that has gone.
pub async fn orphans(env: &Environment<'_>) -> Result<Marks, Error> {
    found(env, |_| true).await
}

/// Finds the objects among [`orphans`] that name the custom resource itself, rather than only a release of that name,
/// which another client may have made.
///
/// # Errors
/// As [`orphans`].
pub async fn claimed(env: &Environment<'_>) -> Result<Marks, Error> {
    let Some(owner) = &env.decoration.owner else { return Ok(Marks::default()) };
    found(env, |live| names(owner, live)).await
}

/// Returns whether an object names this custom resource itself, as its controller or by annotation.
pub(super) fn names(owner: &Owner, live: &Live) -> bool {
    let is_controller = live.controller.as_ref().is_some_and(|controller| controller.uid == owner.uid);
    is_controller || live.primary.as_ref() == Some(&owner.annotated_name())
}

async fn found(env: &Environment<'_>, counts: impl Fn(&Live) -> bool) -> Result<Marks, Error> {
    let failed = |source| ApplyError::Failed { verb: "list", object: "the kinds that are served".into(), source };
    let kinds = env.applier.mapper.cleanable().await.map_err(failed)?;
    let lists: Vec<_> = kinds.iter().map(|kind| objects_of_kind(env, kind, &counts)).collect();
    let found: Vec<Vec<MarkedObject>> = stream::iter(lists).buffered(MAX_LISTS).try_collect().await?;
    Ok(Marks { objects: found.into_iter().flatten().collect(), ..Marks::default() })
}

async fn objects_of_kind(
    env: &Environment<'_>,
    kind: &Resource,
    counts: &impl Fn(&Live) -> bool,
) -> Result<Vec<MarkedObject>, Error> {
    let failed = |source| ApplyError::Failed { verb: "list", object: kind.plural.to_string(), source };
    let everywhere = list(env, kind, "", counts).await;
    let found = match everywhere {
        Err(error) if error.is_forbidden() && kind.namespaced => {
            list(env, kind, &env.decoration.namespace, counts).await
        }
        found => found,
    };
    match found {
        // Without permission to list a kind, we cannot have created any of its objects.
        Err(error) if error.is_forbidden() || error.is_missing_object() => Ok(Vec::new()),
        Err(error) if error.is_unserved_path() => Ok(without(env, kind, error).await.map_err(failed)?),
        found => Ok(found.map_err(failed)?),
    }
}

/// Returns no objects of a kind whose list is not served, once discovery shows that the kind is gone.
async fn without(
    env: &Environment<'_>,
    kind: &Resource,
    error: crate::kube::Error,
) -> Result<Vec<MarkedObject>, crate::kube::Error> {
    let mapper = &env.applier.mapper;
    mapper.refresh().await?;
    if mapper.is_unserved(kind.group(), &kind.kind) { Ok(Vec::new()) } else { Err(error) }
}

/// Lists the objects of a kind that are ours and count. Keeps nothing else of a page: all releases of a chart have its
/// label.
async fn list(
    env: &Environment<'_>,
    kind: &Resource,
    namespace: &str,
    counts: &impl Fn(&Live) -> bool,
) -> Result<Vec<MarkedObject>, crate::kube::Error> {
    let label = label_value(&env.decoration.chart);
    let path = format!("{}?labelSelector={CHART_LABEL}%3D{label}", kind.collection(namespace)?);
    let mut pages = outside::pages::<Live>(&**env.applier.api(), Call::metadata_list(path));
    let mut ours = Vec::new();
    while let Some(page) = pages.try_next().await? {
        let is_ours = |live: &&Live| !live.made_by_hook && env.decoration.ownership(live) == Ownership::Ours;
        let found = page.iter().filter(is_ours).filter(|live| counts(live));
        ours.extend(found.map(|live| marked(kind, live)));
    }
    Ok(ours)
}

fn marked(kind: &Resource, live: &Live) -> MarkedObject {
    let namespace = live.metadata.namespace.as_deref().unwrap_or_default();
    let name = live.metadata.name.as_deref().unwrap_or_default();
    let key = ObjectKey::new(kind.group(), &kind.kind, namespace, name);
    // A kept object must lose its owner reference, or the garbage collector would delete it with the resource.
    let kept = live.kept && live.controller.is_none();
    MarkedObject { kept, ..MarkedObject::new(key, kind.api_version.clone()) }
}
