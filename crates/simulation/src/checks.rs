//! The invariants that hold at every write, and those that hold once the cluster is quiet. The letters are those of
//! docs/decisions/0057-simulation.md.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;
use tokio::time::Instant;

use crate::helm::Command;
use crate::hooks::may_be_removed;
use crate::interventions;
use crate::jobs::{self, Task, inputs};
use crate::names::{self, NAMES, OBJECTS, OTHER, SOME, is_of};
use crate::order::{Order, Owner, is_pending};
use crate::others;
use crate::places::{OWNER, Places};
use crate::quiet::{End, elsewhere, is_beside, records, status_of};
use crate::registry::{FIRST, WRONG};
use crate::rollout::{Rollout, is_broken};
use crate::script::Action;
use crate::world::{Change, is_going};

pub(crate) type Objects = BTreeMap<Arc<str>, Arc<Value>>;

/// What the checks have seen so far.
#[derive(Clone, Default)]
pub struct Checks {
    pub(crate) resources: BTreeMap<String, Resource>,
    /// The process that holds the lease.
    pub(crate) holder: Option<String>,
    /// Whether processes take part in leader election.
    pub elects: bool,
    /// Whether the processes have different configurations.
    pub is_mixed: bool,
    /// Whether a process has, or had, override values.
    pub is_overridden: bool,
    /// How often a process may have started with another configuration, or the Secret with values changed.
    pub(crate) setups: u32,
    /// The number of ended processes.
    pub(crate) ends: u32,
    /// When the last one did.
    pub(crate) last_end: Option<Instant>,
    /// How often all watches ended, or could not continue.
    pub(crate) losses: u32,
    /// When they last did.
    pub(crate) last_loss: Option<Instant>,
    /// The uids of the objects that the operator wrote.
    pub(crate) touched: BTreeSet<String>,
    /// The uids of the objects that a person marked to be kept while their resource existed.
    pub(crate) kept: BTreeSet<String>,
    /// Whether the second namespace is being deleted with everything in it.
    is_emptied: bool,
    /// The upgrades that must wait for each other.
    pub rollout: Rollout,
    /// The order of a chart's objects.
    pub order: Order,
    /// Whether a process takes its chart from the registry.
    pub is_pulled: bool,
    /// Whether the chart's digest is given.
    pub is_pinned: bool,
    /// Whether a process limits how long a hook may take.
    pub limits_hooks: bool,
    /// Where processes keep records.
    pub places: Places,
}

/// How many changes of the registry processes may notice only after a resource was created.
const UNNOTICED: u32 = 2;

/// What people requested for one resource, and its history.
#[derive(Clone, Default)]
pub(crate) struct Resource {
    /// Whether it exists and is not being deleted.
    pub(crate) exists: bool,
    /// Whether it requests to adopt existing objects.
    pub(crate) adopts: bool,
    /// Whether a person installed the release and the resource has not adopted it.
    pub(crate) is_foreign: bool,
    /// Whether a resource of another kind also claims the release.
    pub(crate) is_claimed: bool,
    pub(crate) leaves_orphans: bool,
    /// Whether a person removed the operator's finalizer. Its records stay, for a resource that is made in its place.
    pub(crate) is_freed: bool,
    /// Whether its deletion is in the foreground: the garbage collector deletes its objects first.
    pub(crate) goes_last: bool,
    /// Objects that some values since the last quiet point omit.
    may_go: BTreeSet<String>,
    /// Whether the server permanently rejected one of its objects.
    pub(crate) judged: bool,
    /// How often its values changed, including its creation.
    pub(crate) causes: u32,
    /// How often a resource of another kind claimed the release or stopped claiming it. A claim outlives the resource.
    claims: u32,
    /// The number of configuration changes before it was created.
    pub(crate) setups: u32,
    /// The number of moves of the records before it was created.
    moves: u32,
    /// Whether the records moved, and the former ones stayed beside the release.
    pub(crate) has_moved: bool,
    /// The number of recorded revisions.
    revisions: u32,
    /// How often the random password changed.
    pub(crate) passwords: u32,
    /// Whether a person kept the Secret with it before the resource was created: an install sets it again, as with
    /// Helm.
    pub(crate) found_password: bool,
    /// Whether a person ran helm on its release.
    pub(crate) is_helms: bool,
    /// Whether a person ran `helm uninstall`, so that no record names what exists (COMPATIBILITY.md).
    pub(crate) is_unrecorded: bool,
    /// Whether a person deleted the Secret whose template keeps what it finds.
    pub(crate) lost_guarded: bool,
    /// When the Secret whose template keeps what it finds was made.
    pub(crate) guarded: Option<Instant>,
    /// The revision and values of the last hook.
    pub(crate) hook: Option<String>,
    /// How often a hook failed.
    pub(crate) failed_hooks: u32,
    /// The newest Job of the chart.
    pub(crate) task: Option<Task>,
    /// Whether the newest Job of each image has finished.
    pub(crate) tasks: BTreeMap<String, bool>,
    /// Objects that existed before the release.
    pub(crate) before: BTreeSet<String>,
}

impl Checks {
    /// Creates checks that have seen nothing.
    pub fn new() -> Checks {
        let resources = NAMES.iter().map(|name| ((*name).to_owned(), Resource::default())).collect();
        Checks { resources, ..Checks::default() }
    }

    /// Records that the server permanently rejected a write of this object, which may be a hook.
    pub fn judge(&mut self, path: &str) {
        if let Some(resource) = names::owner(path).and_then(|name| self.resources.get_mut(name)) {
            resource.judged = true;
        }
    }

    /// Records that a process may start with another configuration.
    pub fn setup_changes(&mut self) {
        self.setups += 1;
        self.inputs_may_differ();
    }

    /// Lets the objects go that only some charts or override values have.
    fn inputs_may_differ(&mut self) {
        let some = if self.is_overridden { &SOME[..] } else { &SOME[1..] };
        for (name, resource) in &mut self.resources {
            resource.may_go.extend(some.iter().map(|object| names::path(object, name)));
        }
    }

    /// Returns to what was seen until a backup that the server was restored from. The processes are as they are, and may
    /// remember what they wrote and what was refused since.
    pub fn return_to(&mut self, backup: Checks) {
        let setups = backup.setups;
        let now = std::mem::replace(self, backup);
        (self.holder, self.elects, self.is_mixed) = (now.holder, now.elects, now.is_mixed);
        (self.is_pulled, self.is_pinned) = (now.is_pulled, now.is_pinned);
        (self.setups, self.ends, self.last_end) = (now.setups, now.ends, now.last_end);
        (self.losses, self.last_loss) = (now.losses, now.last_loss);
        (self.places, self.limits_hooks) = (now.places, now.limits_hooks);
        self.is_overridden = now.is_overridden;
        self.rollout.is_limited = now.rollout.is_limited;
        self.rollout.takes_back = now.rollout.takes_back;
        (self.order.is_on, self.order.may_fail) = (now.order.is_on, now.order.may_fail);
        self.touched.extend(now.touched);
        for (name, now) in now.resources {
            let resource = self.resources.entry(name).or_default();
            resource.judged |= now.judged;
            resource.remember_failures(now.failed_hooks);
            resource.may_go.extend(now.may_go);
            // A person's command that has begun keeps running.
            resource.is_unrecorded |= now.is_unrecorded;
            if now.is_helms {
                resource.is_helms = true;
                resource.causes += 2;
            }
        }
        if self.setups != setups {
            self.inputs_may_differ();
        }
    }

    /// Records a person's next action.
    pub fn acts(&mut self, action: &Action) {
        match action {
            Action::Source(_) => self.setups += 1,
            Action::Claim(name) | Action::Unclaim(name) => {
                let resource = self.resources.entry(name.clone()).or_default();
                // Either resource may make a revision of it.
                resource.claims += 2;
                resource.is_claimed = true;
            }
            Action::Delete(name, how) => {
                let resource = self.resources.entry(name.clone()).or_default();
                resource.leaves_orphans |= how == "Orphan";
                resource.goes_last |= how == "Foreground";
            }
            other => interventions::note(self, other),
        }
    }

    /// Records that a person runs helm on a release; the operator answers with a new revision.
    pub fn helm_acts(&mut self, name: &str, command: Command) {
        if command == Command::Install {
            return;
        }
        let resource = self.resources.entry(name.to_owned()).or_default();
        resource.causes += 2;
        resource.is_helms = true;
        resource.is_unrecorded |= command == Command::Uninstall;
    }

    /// Checks a write; returns the violation, if any. `objects` is the state after it.
    pub fn written(&mut self, change: &Change, objects: &Objects) -> Option<String> {
        if change.path.contains("/leases/") {
            self.note_holder(change);
            return None;
        }
        if *change.path == *format!("/api/v1/namespaces/{OTHER}") {
            self.is_emptied = change.after.as_ref().is_some_and(|after| is_going(after));
        }
        if let Some(name) = NAMES.into_iter().find(|name| names::resource(name) == *change.path) {
            self.note_resource(name, change, objects);
        }
        self.note_record(change, objects);
        self.note_move(change, objects);
        self.note_kept(change, objects);
        self.note_hook(change);
        let is_operator = change.by.starts_with("op-");
        if self.is_emptied && change.path.contains(&*format!("/namespaces/{OTHER}/")) {
            return None;
        }
        let wrong = if is_operator { self.leads(change) } else { None };
        let wrong = wrong.or_else(|| self.identity(change, objects)).or_else(|| self.keep(change, objects));
        let wrong = match is_operator {
            true => wrong
                .or_else(|| others::written(change))
                .or_else(|| self.foreign(change))
                .or_else(|| self.taken_over(change, objects))
                .or_else(|| self.own(change))
                .or_else(|| self.place(change, objects))
                .or_else(|| self.rollout.written(change)),
            false => wrong,
        };
        let wrong = self.ordered(change, objects).or(wrong).or_else(|| self.chart(change));
        wrong.or_else(|| self.revision(change)).or_else(|| self.values(change)).or_else(|| self.job(change))
    }

    /// Checks (l) the order of a chart's objects. What waits for a group that never becomes ready fails in the end, as
    /// if the server had rejected it.
    fn ordered(&mut self, change: &Change, objects: &Objects) -> Option<String> {
        let name = names::owner(&change.path).or_else(|| names::record(&change.path).map(|(name, _)| name));
        let resource = name.and_then(|name| self.resources.get_mut(name));
        let is_broken = |after: &Arc<Value>| change.path.contains("/deployments/") && is_broken(after);
        let (mut owner, mut is_exempt) = (Owner::Stays, false);
        if let Some(resource) = resource {
            owner = if resource.exists { Owner::Stays } else { Owner::Leaves };
            is_exempt = resource.is_foreign || resource.is_claimed || resource.is_helms || resource.leaves_orphans;
            // An upgrade that drops it may not know of the deletion yet.
            is_exempt |= resource.may_go.contains(&*change.path);
            resource.judged |= self.order.may_fail && change.after.as_ref().is_some_and(is_broken);
        }
        self.order.written(change, objects, owner).filter(|_| !is_exempt)
    }

    /// Checks (m) that no chart is used but one with the digest that is wanted.
    fn chart(&self, change: &Change) -> Option<String> {
        let version = change.after.as_ref()?["data"]["chart"].as_str().filter(|_| change.by.starts_with("op-"))?;
        let is_wrong = version == WRONG || (self.is_pinned && version != FIRST);
        is_wrong.then(|| format!("(m) {} applied version {version} of the chart to {}", change.by, change.path))
    }

    fn note_holder(&mut self, change: &Change) {
        let holder = change.after.as_ref().and_then(|lease| lease["spec"]["holderIdentity"].as_str());
        let holder = holder.and_then(|holder| holder.split('_').next()).unwrap_or_default().to_owned();
        if self.holder.as_ref() != Some(&holder) && !holder.is_empty() {
            self.places.leader_changes();
            if self.is_mixed {
                self.setup_changes();
            }
        }
        self.holder = Some(holder);
    }

    fn note_resource(&mut self, name: &str, change: &Change, objects: &Objects) {
        // A new version in the registry counts from before it is noticed.
        let setups = self.setups.saturating_sub(if self.is_pulled { UNNOTICED } else { 0 });
        let leaves_records = self.leaders_place().flatten().is_some() && is_beside(name, objects);
        let resource = self.resources.entry(name.to_owned()).or_default();
        let (before, after) = (change.before.as_deref(), change.after.as_deref());
        let Some(after) = after else {
            let before = std::mem::take(&mut resource.before);
            *resource = Resource {
                before,
                // A person's helm command that has begun keeps running, and may delete the next one's record.
                causes: if resource.is_helms { 2 } else { 0 },
                is_helms: resource.is_helms,
                is_unrecorded: resource.is_unrecorded,
                is_foreign: resource.is_foreign,
                is_claimed: resource.is_claimed,
                has_moved: resource.has_moved || leaves_records,
                claims: resource.claims,
                leaves_orphans: resource.leaves_orphans || interventions::leaves_objects(resource, change),
                is_freed: resource.is_freed,
                ..Resource::default()
            };
            self.rollout.forget(name);
            return;
        };
        if before.is_none() {
            (resource.setups, resource.is_freed) = (setups, false);
            resource.moves = self.places.moves;
            resource.found_password = objects.contains_key(&*names::path(OBJECTS[1], name));
            // helm recorded it for the former resource during its deletion, so the operator may or may not know of it.
            resource.is_claimed |= records(name, objects).any(|(_, record)| inputs(Some(record)).is_none());
        }
        if before.is_none_or(|before| before["spec"] != after["spec"]) {
            resource.causes += 1;
            self.rollout.edited(name);
        }
        resource.exists = !is_going(after);
        resource.adopts = after["metadata"]["annotations"]["helm.sdk.operatorframework.io/adopt"] == "true";
        if after["spec"]["cache"] != true {
            resource.may_go.insert(names::path(SOME[0], name));
        }
        // It runs again once the values want it again.
        if after["spec"]["task"] == false {
            resource.task = None;
        }
        if !resource.exists {
            self.rollout.forget(name);
        }
    }

    /// Tracks release records. A deployed revision owns what it adopted; a release that a person made stays the
    /// person's until it is adopted or removed.
    fn note_record(&mut self, change: &Change, objects: &Objects) {
        let is_here = self.leaders_place().flatten().is_none();
        let Some((name, _)) = names::record(&change.path) else { return };
        let Some(resource) = self.resources.get_mut(name) else { return };
        jobs::note_attempt(resource, change);
        let is_first = records(name, objects).all(|(path, _)| *path == change.path);
        let status = status_of(change.after.as_deref());
        jobs::note_task(resource, change, is_first);
        let owner = |record: &Value| record["metadata"]["labels"][OWNER].clone();
        let current = objects.get(&*names::resource(name)).map(|resource| resource["metadata"]["uid"].clone());
        let names_another = |record: &Value| current.as_ref().is_none_or(|current| *current != owner(record));
        let is_former = |record: &Value| owner(record).is_string() && current.is_some() && names_another(record);
        match &change.after {
            // Helm copies the label of a revision that an uninstall has deleted meanwhile: that uninstall goes on.
            Some(after) if &*change.by == "helm" && change.before.is_none() && is_first && names_another(after) => {
                resource.is_foreign = true;
            }
            // A command that began before the resource was re-created gives the release to the former resource.
            // Elsewhere, none of the operator's records are its.
            Some(after) if &*change.by == "helm" && is_former(after) => resource.is_foreign |= is_here,
            Some(_) if status == Some("deployed") => {
                // A later change of the record, such as new marks, adopts nothing.
                if status_of(change.before.as_deref()) != status {
                    resource.before.retain(|path| others::is_of_another_release(objects, path, name));
                }
                self.rollout.deployed(name);
            }
            None if is_first => {
                resource.is_foreign = false;
                // The next install finds what `helm uninstall` left behind, and what was recreated since. What a finalizer
                // holds is as good as gone.
                if &*change.by == "helm" {
                    let stays = |object: &Value| object["metadata"]["deletionTimestamp"].is_null();
                    let own = objects.iter().filter(|(path, object)| is_of(path, name) && stays(object));
                    resource.before.extend(own.map(|(path, _)| path.to_string()));
                }
            }
            _ => {}
        }
    }

    /// Checks (h) that only the leader writes. Events may arrive late.
    fn leads(&self, change: &Change) -> Option<String> {
        let leads = self.holder.as_deref() == Some(&*change.by);
        let is_wrong = self.elects && !leads && !change.path.contains("/events/");
        is_wrong.then(|| format!("(h) {} wrote {}, but {:?} leads", change.by, change.path, self.holder))
    }

    /// Checks (a) that no object of an existing resource is deleted.
    fn identity(&mut self, change: &Change, objects: &Objects) -> Option<String> {
        let before = change.goes();
        let (name, resource) = self.resources.iter_mut().find(|(name, _)| is_of(&change.path, name))?;
        let is_recorded = || records(name, objects).next().is_some();
        if change.before.is_none() && (&*change.by == "person" || resource.is_unrecorded && !is_recorded()) {
            resource.before.insert(change.path.to_string());
            // It is another's, so an action that is at work fails for good.
            resource.judged |= &*change.by == "person" && is_pending(name, objects);
        }
        before?;
        if is_person(&change.by) || resource.is_claimed {
            // An action that waits for it fails.
            resource.judged |= self.order.may_fail && is_pending(name, objects);
            resource.before.remove(&*change.path);
            resource.lost_guarded |= change.path.ends_with("-guarded");
            return None;
        }
        let has_failed = resource.judged || may_be_removed(name, resource, objects);
        let is_own = has_failed && !resource.before.contains(&*change.path);
        let may_go = !resource.exists || resource.may_go.contains(&*change.path) || is_own;
        // What is made after it is the release's.
        resource.before.remove(&*change.path);
        (!may_go).then(|| format!("(a) {} deleted {} of resource {name}, which exists", change.by, change.path))
    }

    /// Checks (f) that every revision has a cause.
    fn revision(&mut self, change: &Change) -> Option<String> {
        let is_new = change.before.is_none() && change.by.starts_with("op-");
        let (name, number) = names::record(&change.path).filter(|_| is_new)?;
        let resource = self.resources.get_mut(name)?;
        resource.revisions += 1;
        let moves = self.places.moves - resource.moves;
        let causes = resource.causes + resource.claims + self.setups - resource.setups + moves;
        // A foreground deletion deletes the hook that an upgrade waits for, before a late event tells the operator why.
        let is_wrong = resource.revisions > causes && !resource.judged && !resource.goes_last;
        is_wrong.then(|| {
            format!("(f) revision {number} of {name} has no cause: {causes} causes, {} revisions", resource.revisions)
        })
    }

    /// Returns whether a resource may wait for a release or an object of another owner, or for its records, and tries
    /// again now and then.
    pub fn is_contested(&self, objects: &Objects) -> bool {
        let place = self.leaders_place().flatten();
        let waits = |name: &str| elsewhere(name, objects, place).is_some();
        self.resources.iter().any(|(name, resource)| resource.is_claimed || resource.is_foreign || waits(name))
            || objects.iter().any(|(path, object)| self.is_in_the_way(path, object))
    }

    /// Returns whether another release has an object with a name that a resource's release uses.
    fn is_in_the_way(&self, path: &str, object: &Value) -> bool {
        let named = path.rsplit('/').next().and_then(|name| name.split_once('-'));
        let owner = object["metadata"]["annotations"]["meta.helm.sh/release-name"].as_str();
        let user = named.and_then(|(name, _)| self.resources.get(name)).filter(|resource| resource.exists);
        named.zip(owner).is_some_and(|((name, _), owner)| user.is_some() && name != owner)
    }

    /// Checks the invariants of a quiet cluster.
    pub fn quiet(&self, objects: &Objects, end: &End) -> Vec<String> {
        let place = self.leaders_place().flatten();
        self.resources.iter().flat_map(|(name, resource)| end.check(name, resource, objects, place)).collect()
    }
}

pub(crate) fn is_person(by: &str) -> bool {
    matches!(by, "person" | "helm")
}

pub(crate) fn uid(object: &Value) -> Option<String> {
    object["metadata"]["uid"].as_str().map(str::to_owned)
}
