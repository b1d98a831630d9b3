//! Reads from the caches what a caller may see. Nothing here sends a request but the questions about the caller's
//! rights; what they do not allow is neither counted nor named.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use controller::server::{Right, Rights};
use futures::stream::{self, StreamExt as _, TryStreamExt as _};
use helm_release::kube::{Error, ObjectKey};
use helm_release::storage::MarkedObject;
use jiff::Timestamp;

use super::address::{Filter, Wanted};
use super::model::{Row, Table, row, table};
use crate::inspect::build::build;
use crate::inspect::model::{Health, Name, Node, Release};
use crate::inspect::seen::Seen;
use crate::reconcile::controller_context::ControllerContext;
use crate::status::inventory::MAX_ENTRIES;
use crate::view::primary::{Primary, Received};
use crate::view::release::Holder;

/// In how many namespaces to ask for the rights of a caller who may not list a kind in all of them and names none.
pub(crate) const MAX_NAMESPACES: usize = 100;

/// How many questions of one caller are sent at a time.
const AT_A_TIME: usize = 8;

type Controllers = [Arc<ControllerContext>];

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

/// Returns the tables of the kinds that the caller may list, with the releases that the filter selects.
///
/// # Errors
/// The API server does not say what the caller may list.
pub(crate) async fn tables(
    controllers: &Controllers,
    rights: &dyn Rights,
    filter: &Filter,
    now: Timestamp,
) -> Result<Vec<Table>, Error> {
    // Several versions of a kind are one table.
    let mut kinds = BTreeMap::<(String, String), Vec<Row>>::new();
    for controller in controllers {
        let (group, kind) = (controller.resource.group(), &*controller.resource.kind);
        if !filter.selects_kind(group, kind) {
            continue;
        }
        let Some(reach) = reach(controller, rights, filter).await? else { continue };
        let is_seen = |primary: &Arc<Primary>| {
            let namespace = primary.own_namespace();
            reach.covers(namespace) && (filter.namespace.is_empty() || *filter.namespace == *namespace)
        };
        let seen = controller.cache.primaries().into_iter().filter(is_seen).map(|primary| row(&primary, now));
        kinds.entry((group.to_owned(), kind.to_owned())).or_default().extend(seen);
    }
    Ok(kinds.into_iter().map(|((group, kind), rows)| table((&group, &kind), rows, filter)).collect())
}

/// Returns where the caller may list a controller's resources; `None` if that is nowhere.
async fn reach(controller: &ControllerContext, rights: &dyn Rights, filter: &Filter) -> Result<Option<Reach>, Error> {
    if may(controller, rights, "list", "").await? {
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
        Ok::<_, Error>(may(controller, rights, "list", &namespace).await?.then_some(namespace))
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

async fn may(controller: &ControllerContext, rights: &dyn Rights, verb: &str, namespace: &str) -> Result<bool, Error> {
    let resource = &controller.resource;
    rights.has(Right { verb, group: resource.group(), plural: &resource.plural, namespace }).await
}

/// Returns a release; `None` if it does not exist or the caller may not get its resource.
///
/// # Errors
/// The API server does not say whether the caller may get it.
pub(crate) async fn release(
    controllers: &Controllers,
    rights: &dyn Rights,
    wanted: &Wanted,
    now: Timestamp,
) -> Result<Option<Release>, Error> {
    for controller in controllers {
        let resource = &controller.resource;
        let is_it = *resource.kind == *wanted.kind
            && resource.group() == wanted.group
            && resource.namespaced != wanted.namespace.is_empty();
        // Checks the right first, so that response times do not reveal which resources exist.
        if is_it && may(controller, rights, "get", &wanted.namespace).await? {
            let key = controller.acceptance.key(&wanted.namespace, &wanted.name);
            if let Some(primary) = controller.cache.primary(&key) {
                return Ok(Some(shown(controller, &primary, now)));
            }
        }
    }
    Ok(None)
}

/// Returns a release as the caches know it.
fn shown(controller: &ControllerContext, primary: &Primary, now: Timestamp) -> Release {
    let mut shown = build(&Seen::resource_alone(Received::known(primary)), now);
    shown.resource.namespace = primary.own_namespace().to_owned();
    let release = controller.cache.release(&primary.key());
    // Another kind may have a release of the same name, whose objects are not this caller's to see.
    let own = release.filter(|release| release.holder(&primary.owner()) == Holder::Resource);
    if let Some(marks) = own.as_ref().and_then(|release| release.deployed_marks()) {
        shown.objects =
            marks.objects.iter().take(MAX_ENTRIES).map(|object| node(controller, primary, object)).collect();
        shown.omitted = marks.objects.len().saturating_sub(MAX_ENTRIES);
    }
    shown
}

/// Returns an object of a release. Only its name and whether it is ready: the caller may lack the right to read it.
fn node(controller: &ControllerContext, primary: &Primary, object: &MarkedObject) -> Node {
    let key = &object.key;
    Node {
        name: Name {
            group: key.group.to_string(),
            kind: key.kind.to_string(),
            namespace: key.namespace.to_string(),
            name: key.name.to_string(),
        },
        health: health(controller, primary, key),
        why: String::new(),
        owns: Vec::new(),
    }
}

fn health(controller: &ControllerContext, primary: &Primary, key: &ObjectKey) -> Health {
    match controller.cache.dependent(key) {
        Some(one) if !one.ours || one.owner != Some(primary.key()) => Health::Unknown,
        Some(one) => match one.failed() {
            None => Health::Ready,
            Some(true) => Health::Failed,
            Some(false) => Health::Progressing,
        },
        None if controller.cache.is_synced(key) => Health::Missing,
        None => Health::Unknown,
    }
}
