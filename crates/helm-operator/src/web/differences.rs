//! What changed between two revisions of a release. The process keeps no old revisions, so this view reads their
//! records, for callers who may read them themselves.

use controller::report::chain;
use controller::server::{Access, Right};
use helm_release::kube::Error;
use serde_json::Value;

use super::sight::FoundRelease;
use crate::inspect::build::plan_name;
use crate::inspect::model::Name;
use crate::mask::Mask;
use crate::plan::account::Account;
use crate::plan::revisions::between;
use crate::plan::{self, Plan};

/// The differences of two revisions, or why there are none to show.
pub(crate) struct Differences {
    pub(crate) resource: Name,
    pub(crate) from: u32,
    pub(crate) to: u32,
    pub(crate) found: Result<Compared, String>,
}

/// Two revisions that were compared.
pub(crate) struct Compared {
    pub(crate) plan: Plan,
    pub(crate) mask: Mask,
    /// What the later one did when it was made, if that is recorded.
    pub(crate) did: Option<Account>,
}

impl Compared {
    /// Returns it as `history --diff` prints it.
    pub(crate) fn json(&self, to: u32) -> Value {
        let mut json = plan::json::json(&self.plan, &self.mask);
        let did = self.did.iter().map(|did| {
            let mut json = did.json(&self.mask);
            json["revision"] = to.into();
            json
        });
        json["applied"] = did.collect();
        json
    }
}

/// Compares two revisions; `from` may be 0, before there was a release.
///
/// # Errors
/// The API server does not say whether the caller may read the records.
pub(crate) async fn differences(
    found: &FoundRelease,
    access: &dyn Access,
    from: u32,
    to: u32,
) -> Result<Differences, Error> {
    let FoundRelease { controller, primary, records } = found;
    let resource = Name {
        group: controller.resource.group().to_owned(),
        kind: primary.kind.to_string(),
        namespace: primary.own_namespace().to_owned(),
        name: primary.name().to_owned(),
    };
    let namespace = controller.cache.namespace_of_records(&primary.key());
    let right = Right { verb: "get", group: "", plural: "secrets", namespace: &namespace };
    let known = |version: u32| records.as_ref().is_some_and(|records| records.revisions.contains_key(&version));
    let found = if !access.has(right).await? {
        Err(format!("You may not get Secrets in namespace {namespace:?}, where the revisions are recorded."))
    } else if !known(to) || (from != 0 && !known(from)) {
        Err("There is no such revision.".to_owned())
    } else {
        read(found, from, to).await.map_err(|why| format!("A revision cannot be read: {why}."))
    };
    Ok(Differences { resource, from, to, found })
}

async fn read(found: &FoundRelease, from: u32, to: u32) -> Result<Compared, String> {
    let FoundRelease { controller, primary, .. } = found;
    let record = |version: u32| async move {
        let read = controller.storage.get(primary.namespace(), primary.name(), version).await;
        read.map(|record| (record.release.facts().clone(), record.plan)).map_err(|error| chain(&error))
    };
    let before = match from {
        0 => None,
        version => Some(record(version).await?.0),
    };
    let (after, did) = record(to).await?;
    let name = plan_name(primary);
    let compared = outside::apart(move || {
        let (plan, mask) = between(name, before.as_ref(), Some(&after));
        Compared { plan, mask, did: did.as_deref().and_then(Account::read) }
    })
    .await;
    compared.ok_or_else(|| "comparing them failed".to_owned())
}
