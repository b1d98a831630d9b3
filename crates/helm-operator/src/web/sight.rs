//! Finds in the caches what a caller may see. The only requests sent here ask for the caller's rights; what these do
//! not allow is neither counted nor named.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;

use controller::server::{Access, Right};
use futures::stream::{self, StreamExt as _, TryStreamExt as _};
use helm_release::kube::Error;
use jiff::Timestamp;

use super::address::{Filter, Wanted};
use super::model::{Caches, Table, row, table};
use crate::inspect::model::Name;
use crate::reconcile::controller_context::ControllerContext;
use crate::reconcile::decide::progression::Phase;
use crate::view::primary::Primary;
use crate::view::release::{Holder, ReleaseRecords};

/// Maximum number of namespaces whose rights are checked for a caller who may not list a kind in all namespaces, and
/// who names none.
pub(crate) const MAX_NAMESPACES: usize = 100;

/// How many questions of one caller are sent at a time.
const AT_A_TIME: usize = 8;

type Controllers = [Arc<ControllerContext>];

/// A release that the caller may get.
pub(crate) struct FoundRelease {
    pub(crate) controller: Arc<ControllerContext>,
    pub(crate) primary: Arc<Primary>,
    /// Its records. `None` if there are none, or if another resource has the release of this name, whose objects are
    /// not this caller's to see.
    pub(crate) records: Option<Arc<ReleaseRecords>>,
}

/// Where a caller may list a kind.
enum Reach {
    Everywhere,
    In(BTreeSet<Arc<str>>),
}

impl Reach {
    fn covers(&self, namespace: &str) -> bool {
        match self {
            Reach::Everywhere => true,
            Reach::In(namespaces) => namespaces.contains(namespace),
        }
    }
}

/// The resources of each kind that a caller may list.
pub(crate) type Listed<'c> = Vec<(&'c ControllerContext, Vec<Arc<Primary>>)>;

/// Returns the tables of the kinds that were listed, with the releases that the filter selects.
pub(crate) fn tables(listed: &Listed<'_>, filter: &Filter, now: Timestamp) -> Vec<Table> {
    // Several versions of a kind are one table.
    let mut kinds = BTreeMap::<(&str, &str), (Vec<&Arc<Primary>>, Option<String>)>::new();
    for (controller, primaries) in listed {
        let kind = (controller.resource.group(), &*controller.resource.kind);
        let (all, rollout_line) = kinds.entry(kind).or_default();
        all.extend(primaries);
        *rollout_line = rollout_line.take().or_else(|| rollout(controller));
    }
    let row = |primary: &Arc<Primary>| row(primary, now);
    let mut tables = Vec::new();
    for (kind, (primaries, rollout)) in kinds {
        let mut table = table(kind, primaries.into_iter().map(row), filter);
        table.rollout = rollout;
        tables.push(table);
    }
    tables
}

/// Returns how far the rollout of a kind's chart is, without numbers: the caller may not see all releases.
fn rollout(controller: &ControllerContext) -> Option<String> {
    let progress = controller.turns.progress();
    controller.turns.rule().filter(|_| progress.phase != Phase::Over).map(|rule| progress.text(rule))
}

/// Returns a digest of the overview's content. It also differs after changes that the overview does not show, but never
/// after changes of resources that the caller may not list.
pub(crate) fn version(listed: &Listed<'_>, caches: Caches) -> u64 {
    let mut digest = DefaultHasher::new();
    caches.hash(&mut digest);
    for (controller, primaries) in listed {
        (controller.resource.kind.as_ref(), primaries.len(), rollout(controller)).hash(&mut digest);
        primaries.iter().for_each(|primary| (primary.uid(), primary.resource_version()).hash(&mut digest));
    }
    digest.finish()
}

/// Returns the resources of each kind that the caller may list, by the filter's kinds and namespaces.
///
/// # Errors
/// The API server does not say what the caller may list.
pub(crate) async fn listed<'c>(
    controllers: &'c Controllers,
    access: &dyn Access,
    filter: &Filter,
) -> Result<Listed<'c>, Error> {
    let mut all = Vec::new();
    for controller in controllers {
        if !filter.selects_kind(controller.resource.group(), &controller.resource.kind) {
            continue;
        }
        let Some(reach) = reach(controller, access, filter).await? else { continue };
        let is_seen = |primary: &Arc<Primary>| {
            let namespace = primary.own_namespace();
            reach.covers(namespace) && (filter.namespace.is_empty() || *filter.namespace == *namespace)
        };
        all.push((&**controller, controller.cache.primaries().into_iter().filter(is_seen).collect()));
    }
    Ok(all)
}

/// Returns where the caller may list a controller's resources; `None` if that is nowhere.
async fn reach(controller: &ControllerContext, access: &dyn Access, filter: &Filter) -> Result<Option<Reach>, Error> {
    if may(controller, access, "list", "").await? {
        return Ok(Some(Reach::Everywhere));
    }
    if !controller.resource.namespaced {
        return Ok(None);
    }
    let asked = match &*filter.namespace {
        "" => namespaces(controller),
        named => vec![named.into()],
    };
    let allowed = stream::iter(asked).map(|namespace: Arc<str>| async move {
        Ok::<_, Error>(may(controller, access, "list", &namespace).await?.then_some(namespace))
    });
    let allowed: Vec<Option<Arc<str>>> = allowed.buffered(AT_A_TIME).try_collect().await?;
    let allowed: BTreeSet<Arc<str>> = allowed.into_iter().flatten().collect();
    Ok((!allowed.is_empty()).then_some(Reach::In(allowed)))
}

/// Returns the first namespaces with resources.
fn namespaces(controller: &ControllerContext) -> Vec<Arc<str>> {
    let all: BTreeSet<Arc<str>> =
        controller.cache.primaries().iter().map(|primary| primary.own_namespace().into()).collect();
    all.into_iter().take(MAX_NAMESPACES).collect()
}

async fn may(controller: &ControllerContext, access: &dyn Access, verb: &str, namespace: &str) -> Result<bool, Error> {
    let resource = &controller.resource;
    access.has(Right { verb, group: resource.group(), plural: &resource.plural, namespace }).await
}

/// Returns a release; `None` if it does not exist or the caller may not get its resource.
///
/// # Errors
/// The API server does not say whether the caller may get it.
pub(crate) async fn find(
    controllers: &Controllers,
    access: &dyn Access,
    wanted: &Wanted,
) -> Result<Option<FoundRelease>, Error> {
    for controller in controllers {
        let resource = &controller.resource;
        let is_it = *resource.kind == *wanted.kind
            && resource.group() == wanted.group
            && resource.namespaced != wanted.namespace.is_empty();
        // Checks the right first, so that response times do not reveal which resources exist.
        if is_it && may(controller, access, "get", &wanted.namespace).await? {
            let key = controller.acceptance.key(&wanted.namespace, &wanted.name);
            if let Some(primary) = controller.cache.primary(&key) {
                let release = controller.cache.release(&primary.key());
                let records = release.filter(|release| release.holder(&primary.owner()) == Holder::Resource);
                return Ok(Some(FoundRelease { controller: controller.clone(), primary, records }));
            }
        }
    }
    Ok(None)
}

/// Returns whether the caller may patch the resource of a release.
///
/// # Errors
/// The API server does not say so.
pub(crate) async fn may_patch(found: &FoundRelease, access: &dyn Access) -> Result<bool, Error> {
    may(&found.controller, access, "patch", found.primary.own_namespace()).await
}

impl FoundRelease {
    pub(crate) fn name(&self) -> Name {
        Name {
            group: self.controller.resource.group().to_owned(),
            kind: self.primary.kind.to_string(),
            namespace: self.primary.own_namespace().to_owned(),
            name: self.primary.name().to_owned(),
        }
    }
}
