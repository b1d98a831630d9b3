//! Finds a release's objects by their own metadata, for a resource whose record is missing.
//!
//! Deleting a namespace also deletes the record, while cluster-scoped objects have no owner reference that would let
//! the garbage collector delete them.

use std::time::Duration;

use futures::{StreamExt, TryStreamExt, stream};

use super::{Environment, Error};
use crate::kube::{ApplyError, CHART_LABEL, Call, Live, ObjectKey, Owner, Ownership, Resource, label_value};
use crate::storage::{MarkedObject, Marks};

/// Maximum number of concurrent lists, each of which has one page in memory.
const MAX_LISTS: usize = 2;

/// The pause before a list that was not served is repeated: longer than the server needs to serve a definition that was
/// applied again.
const LIST_AGAIN: Duration = Duration::from_secs(10);

/// Finds every object in the cluster that carries the chart's label and provably belongs to this release, with one
/// paged list per kind. Leaves out objects that hooks made, definitions included, because no uninstall deletes them.
///
/// A kind that may not be listed cluster-wide is listed in the release's namespace; kinds that may not be listed at all
/// are skipped, and so are kinds that discovery names but that are not served even after a pause.
///
/// # Errors
/// The server is unreachable, or rejects a list for a reason other than missing permissions or an unserved kind.
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
    let mut found = list_where_allowed(env, kind, counts).await;
    if found.as_ref().is_err_and(|error| error.is_unserved_path()) {
        let mapper = &env.applier.mapper;
        mapper.refresh().await.map_err(failed)?;
        if mapper.is_unserved(kind.group(), &kind.kind) {
            return Ok(Vec::new());
        }
        env.slot.pause(LIST_AGAIN).await;
        found = list_where_allowed(env, kind, counts).await;
    }
    match found {
        // Without permission to list a kind, we cannot have created any of its objects.
        Err(error) if error.is_forbidden() || error.is_missing_object() => Ok(Vec::new()),
        // Discovery names the kind, but an aggregated API does not serve it. That may last for ever, and must not block
        // the uninstall: while it lasts, no object of the kind can be found or deleted. An object that was made before
        // the outage is left behind.
        Err(error) if error.is_unserved_path() => {
            let release = &*env.decoration.release;
            tracing::warn!(release, kind = %kind.plural, "skipped a kind that is discovered but not served");
            Ok(Vec::new())
        }
        found => Ok(found.map_err(failed)?),
    }
}

/// Lists the objects of a kind in the whole cluster, or in the release's namespace if only that is allowed.
async fn list_where_allowed(
    env: &Environment<'_>,
    kind: &Resource,
    counts: &impl Fn(&Live) -> bool,
) -> Result<Vec<MarkedObject>, crate::kube::Error> {
    match list(env, kind, "", counts).await {
        Err(error) if error.is_forbidden() && kind.namespaced => {
            list(env, kind, &env.decoration.namespace, counts).await
        }
        found => found,
    }
}

/// Lists the objects of a kind that belong to this release and that `counts` selects. Keeps nothing else of a page,
/// because the objects of all releases of a chart have its label.
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
