//! A release with all that the process knows of it: its objects, revisions, hooks and drift.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use controller::server::{Access, Right};
use helm_release::kube::{Error, ObjectKey};
use helm_release::storage::MarkedObject;
use jiff::Timestamp;
use serde::Serialize;

use super::actions::{PageAction, offered};
use super::sight::{self, FoundRelease};
use crate::inspect::build::build;
use crate::inspect::hooks::hooks;
use crate::inspect::model::{Health, Name, Node, ReleaseReport};
use crate::inspect::nodes::name;
use crate::inspect::revisions::{Revision, SeenRevision, revisions};
use crate::inspect::seen::Seen;
use crate::reconcile::controller_context::ControllerContext;
use crate::status::history::HistoryEntry;
use crate::status::inventory::MAX_ENTRIES;
use crate::view::primary::{Primary, Received};
use crate::view::release::{ReleaseRecords, Trust};

/// Maximum number of kinds of unready objects whose access is checked, to tell the caller why they are unready.
const MAX_QUESTIONS: usize = 10;

/// A release as its page shows it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Detail {
    #[serde(flatten)]
    pub(crate) release: ReleaseReport,
    /// Every recorded revision, newest first.
    pub(crate) revisions: Vec<Revision>,
    /// Drift that is only reported.
    pub(crate) drifted: Vec<Drifted>,
    /// The actions that the caller may request.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) actions: Vec<PageAction>,
}

/// An object that differs from the release.
#[derive(Debug, Serialize)]
pub(crate) struct Drifted {
    #[serde(flatten)]
    pub(crate) name: Name,
    /// Who changed what.
    pub(crate) change: String,
}

/// How much the caller may know of objects, by kind and namespace. Asks about each once.
struct ReadRights<'r> {
    controller: &'r ControllerContext,
    access: &'r dyn Access,
    known: BTreeMap<[String; 3], bool>,
}

impl ReadRights<'_> {
    /// Returns whether the caller may get an object. Beyond the limit of questions, they may not.
    async fn may_get(&mut self, api_version: &str, key: &ObjectKey) -> Result<bool, Error> {
        let question = [key.group.to_string(), key.kind.to_string(), key.namespace.to_string()];
        if let Some(known) = self.known.get(&question) {
            return Ok(*known);
        }
        let resource = self.controller.applier.mapper.known(api_version, &key.kind);
        let Some(resource) = resource.filter(|_| self.known.len() < MAX_QUESTIONS) else { return Ok(false) };
        let (group, plural, namespace) = (&*key.group, &*resource.plural, &*key.namespace);
        let may = self.access.has(Right { verb: "get", group, plural, namespace }).await?;
        self.known.insert(question, may);
        Ok(may)
    }
}

/// Returns a release as the caches know it.
///
/// # Errors
/// The API server does not say what the caller may read.
pub(crate) async fn detail(found: &FoundRelease, access: &dyn Access, now: Timestamp) -> Result<Detail, Error> {
    let FoundRelease { controller, primary, records } = found;
    let mut shown = build(&Seen::resource_alone(Received::known(primary)), now);
    shown.resource.namespace = primary.own_namespace().to_owned();
    let mut rights = ReadRights { controller, access, known: BTreeMap::new() };
    if let Some(marks) = records.as_ref().and_then(|release| release.deployed_marks()) {
        for object in marks.objects.iter().take(MAX_ENTRIES) {
            let node = node(controller, primary, object, &mut rights).await?;
            shown.objects.push(node);
        }
        shown.omitted = marks.objects.len().saturating_sub(MAX_ENTRIES);
    }
    let revisions = records.as_ref().map(|release| recorded(release, primary)).unwrap_or_default();
    if let Some(release) = records.clone() {
        // The whole record is unpacked for it, which may take a while.
        let unpack = move || Some(hooks(&release.packed.as_ref()?.1.facts().unpack().ok()?.hooks));
        shown.hooks = outside::apart(unpack).await.flatten().unwrap_or_default();
    }
    let drifted = drifted(controller, primary, &mut rights).await?;
    Ok(Detail { release: shown, revisions, drifted, actions: Vec::new() })
}

/// Returns a digest of what the release's page shows the caller, as far as it can change.
///
/// # Errors
/// The API server does not say what the caller may read.
pub(crate) async fn version(found: &FoundRelease, access: &dyn Access) -> Result<u64, Error> {
    let FoundRelease { controller, primary, records } = found;
    let mut digest = DefaultHasher::new();
    (primary.uid(), primary.resource_version()).hash(&mut digest);
    for (version, revision) in records.iter().flat_map(|release| release.revisions.iter()) {
        (version, revision.resource_version).hash(&mut digest);
    }
    let mut rights = ReadRights { controller, access, known: BTreeMap::new() };
    if let Some(marks) = records.as_ref().and_then(|release| release.deployed_marks()) {
        for object in marks.objects.iter().take(MAX_ENTRIES) {
            let node = node(controller, primary, object, &mut rights).await?;
            (node.health, node.why).hash(&mut digest);
        }
    }
    Ok(digest.finish())
}

impl Detail {
    /// Adds the actions that make sense now, if the caller may patch the resource.
    ///
    /// # Errors
    /// The API server does not say whether they may.
    pub(crate) async fn with_actions(self, found: &FoundRelease, access: &dyn Access) -> Result<Detail, Error> {
        let actions = offered(&found.primary, &self.release, &found.controller.acceptance.annotations);
        let may = !actions.is_empty() && sight::may_patch(found, access).await?;
        Ok(if may { Detail { actions, ..self } } else { self })
    }
}

/// Returns an object of a release: its name and whether it is ready, and why not if the caller may get it.
async fn node(
    controller: &ControllerContext,
    primary: &Primary,
    object: &MarkedObject,
    rights: &mut ReadRights<'_>,
) -> Result<Node, Error> {
    let (health, mut why) = health(controller, primary, &object.key);
    if !why.is_empty() && !rights.may_get(&object.api_version, &object.key).await? {
        why.clear();
    }
    Ok(Node { name: name(&object.key), health, why, owns: Vec::new() })
}

fn health(controller: &ControllerContext, primary: &Primary, key: &ObjectKey) -> (Health, String) {
    match controller.cache.dependent(key) {
        Some(one) if !one.ours || one.owner != Some(primary.key()) => (Health::Unknown, String::new()),
        Some(one) => match &one.unready {
            None => (Health::Ready, String::new()),
            Some(unready) => {
                let health = if unready.failed { Health::Failed } else { Health::Progressing };
                (health, unready.why.trim_end_matches('.').to_owned())
            }
        },
        None if controller.cache.is_synced(key) => (Health::Missing, String::new()),
        None => (Health::Unknown, String::new()),
    }
}

/// Returns the revisions as far as the metadata of their records says; the status knows the charts and causes of the
/// last ones.
fn recorded(release: &ReleaseRecords, primary: &Primary) -> Vec<Revision> {
    let status = &primary.status;
    let deployed = status.deployed_release.as_ref();
    let in_status = |version: u32| status.history.iter().find(|entry| entry.revision == version);
    let seen: Vec<SeenRevision> = release
        .revisions
        .iter()
        .map(|(version, one)| {
            let known = in_status(*version);
            let chart = known.map(|known| &known.chart);
            let chart = chart.or(deployed.filter(|deployed| deployed.revision == *version).map(|one| &one.chart));
            SeenRevision {
                revision: *version,
                status: one.status.as_str().to_owned(),
                chart: chart.map(ToString::to_string).unwrap_or_default(),
                updated: known.and_then(|known| known.updated).or(one.written),
                rolled_back_to: one.marks.as_ref().and_then(|marks| marks.rolled_back_to),
                inputs: match (&one.marks, one.trust) {
                    (_, Trust::Foreign) | (None, _) => None,
                    (Some(marks), _) => Some(marks.inputs.clone()),
                },
                ..SeenRevision::default()
            }
        })
        .collect();
    let mut revisions = revisions(&seen);
    // The cache keeps the inputs of the newest revisions only.
    for one in revisions.iter_mut().filter(|one| one.cause.is_empty()) {
        one.cause = in_status(one.revision).map(HistoryEntry::cause_or_action).unwrap_or_default();
    }
    revisions
}

async fn drifted(
    controller: &ControllerContext,
    primary: &Primary,
    rights: &mut ReadRights<'_>,
) -> Result<Vec<Drifted>, Error> {
    let memory = controller.memory.of(&primary.key());
    let mut all = Vec::new();
    for (key, found) in memory.detected.iter().flat_map(|detected| &detected.objects).take(MAX_ENTRIES) {
        let version = controller.cache.release(&primary.key()).and_then(|release| {
            let marks = release.deployed_marks()?;
            Some(marks.find(key)?.api_version.clone())
        });
        let may = rights.may_get(&version.unwrap_or_default(), key).await?;
        let change = if may { found.text.clone() } else { String::new() };
        all.push(Drifted { name: name(key), change });
    }
    Ok(all)
}
