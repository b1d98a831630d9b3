//! What changed between two revisions of a release. The process keeps no old revisions, so this view reads their
//! records, for callers who may read them themselves.

use controller::report::chain;
use controller::server::{Right, Rights};
use helm_release::kube::Error;

use super::sight::Found;
use crate::inspect::model::Name;
use crate::mask::Mask;
use crate::plan::revisions::between;
use crate::plan::{self, Plan};

/// The differences of two revisions, or why there are none to show.
pub(crate) struct Differences {
    pub(crate) resource: Name,
    pub(crate) from: u32,
    pub(crate) to: u32,
    pub(crate) found: Result<(Plan, Mask), String>,
}

/// Compares two revisions; `from` may be 0, before there was a release.
///
/// # Errors
/// The API server does not say whether the caller may read the records.
pub(crate) async fn differences(found: &Found, rights: &dyn Rights, from: u32, to: u32) -> Result<Differences, Error> {
    let Found { controller, primary, records } = found;
    let resource = Name {
        group: controller.resource.group().to_owned(),
        kind: primary.kind.to_string(),
        namespace: primary.own_namespace().to_owned(),
        name: primary.name().to_owned(),
    };
    let namespace = controller.cache.namespace_of_records(&primary.key());
    let right = Right { verb: "get", group: "", plural: "secrets", namespace: &namespace };
    let known = |version: u32| records.as_ref().is_some_and(|records| records.revisions.contains_key(&version));
    let found = if !rights.has(right).await? {
        Err(format!("You may not get Secrets in namespace {namespace:?}, where the revisions are recorded."))
    } else if !known(to) || (from != 0 && !known(from)) {
        Err("There is no such revision.".to_owned())
    } else {
        read(found, from, to).await.map_err(|why| format!("A revision cannot be read: {why}."))
    };
    Ok(Differences { resource, from, to, found })
}

async fn read(found: &Found, from: u32, to: u32) -> Result<(Plan, Mask), String> {
    let Found { controller, primary, .. } = found;
    let record = |version: u32| async move {
        let read = controller.storage.get(primary.namespace(), primary.name(), version).await;
        read.map(|record| record.release.facts().clone()).map_err(|error| chain(&error))
    };
    let before = match from {
        0 => None,
        version => Some(record(version).await?),
    };
    let after = record(to).await?;
    let name = plan::Name {
        api_version: primary.api_version.to_string(),
        kind: primary.kind.to_string(),
        name: primary.name().to_owned(),
        ..plan::Name::default()
    };
    let compared = outside::apart(move || between(name, before.as_ref(), Some(&after))).await;
    compared.ok_or_else(|| "comparing them failed".to_owned())
}
