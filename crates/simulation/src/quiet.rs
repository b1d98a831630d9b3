//! The invariants that hold once the cluster is quiet.

use std::collections::BTreeMap;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use helm_release::release::{Packed, Release};
use serde_json::Value;

use crate::actors::KEEP;
use crate::checks::{Objects, Resource};
use crate::interventions;
use crate::names::{self, JOBS, NAMESPACE, OBJECTS, SOME};
use crate::others;
use crate::overrides::Overrides;
use crate::rollout::is_broken;
use crate::status::untrue;

/// The final configuration of the processes.
pub struct End {
    /// The chart, if all processes have the same, and all releases surely got it.
    pub chart: Option<String>,
    /// The version of a chart that is in the registry.
    pub version: Option<String>,
    /// The override values of the leader; `None` if some releases may still have others, because they wait behind a
    /// chart that never becomes ready.
    pub overrides: Option<Overrides>,
    /// Whether an attempt may be the last one.
    pub gives_up: bool,
    /// Whether a hook failed while a rollout may be rolled back: any release may have the chart before.
    pub goes_back: bool,
    /// Whether processes take values from the Secret; `None` if only some do.
    pub takes_sources: Option<bool>,
    /// Whether a process applies objects as `helm` does client-side.
    pub merges: bool,
    /// Whether the Secret cannot be watched.
    pub is_blind: bool,
    /// Whether changes that no watch reports are noticed anyway, because every process reconciles periodically.
    pub looks: bool,
    /// Whether ConfigMaps can be watched everywhere.
    pub sees_maps: bool,
}

impl End {
    /// Checks a resource. `place` is where the leader keeps records.
    pub(crate) fn check(&self, name: &str, resource: &Resource, objects: &Objects, place: Option<&str>) -> Vec<String> {
        if resource.is_claimed || resource.is_foreign {
            return Vec::new();
        }
        if resource.judged && self.gives_up {
            return self.given_up(name, resource, objects, place);
        }
        if let Some(there) = elsewhere(name, objects, place) {
            return self.waits(name, there, resource, objects).into_iter().collect();
        }
        match objects.get(&*names::resource(name)) {
            // The import waits longer than what an interrupted helm is left alone for.
            Some(object) if place.is_some() && readiness(object).1.contains("ReleaseInFlight") => Vec::new(),
            Some(object) if interventions::is_left_alone(object) => Vec::new(),
            Some(object) if resource.exists => self.converged(name, (resource, object), objects, place),
            Some(_) => vec![format!("(i) resource {name} is still being deleted")],
            None => left_over(name, resource, objects),
        }
    }

    /// Checks (d), (f) and (j) for an existing resource.
    fn converged(
        &self,
        name: &str,
        (seen, resource): (&Resource, &Value),
        objects: &Objects,
        place: Option<&str>,
    ) -> Vec<String> {
        let (is_ready, why) = readiness(resource);
        // A process that cannot see changes reports so and does not act.
        if self.is_blind && !is_ready {
            return Vec::new();
        }
        let newest = deployed_record(name, objects);
        let untrue = match are_here(name, objects, place) {
            true => untrue(name, (seen, resource), newest.as_ref(), objects),
            false => Vec::new(),
        };
        // A hook failed in the last attempt that `retries` and `onFailure` allow, and the resource says so.
        if self.gives_up && seen.failed_hooks > 0 && !is_ready && why.contains("hook ") {
            return untrue;
        }
        // The chart is taken back, and the resource says so.
        if self.goes_back && !is_ready && why.contains("Rollout") {
            return untrue;
        }
        // A person gave one of its objects to another release, and the resource says so.
        let is_others = |object: &str| others::is_of_another_release(objects, &names::path(object, name), name);
        if why.contains("ReleaseConflict") && OBJECTS.into_iter().any(is_others) {
            return Vec::new();
        }
        let deployed: Vec<&str> = records(name, objects)
            .filter(|(_, it)| it["metadata"]["labels"]["status"] == "deployed")
            .filter_map(|(path, _)| Some(names::record(path)?.1))
            .collect();
        let mut found = Vec::new();
        if deployed.len() > 1 || (deployed.is_empty() && resource["spec"]["broken"] != true) {
            found.push(format!("(f) deployed revisions of {name}: {deployed:?}"));
        }
        // What broken values leave behind is unspecified.
        if resource["spec"]["broken"] == true {
            found.extend(untrue);
            return found;
        }
        let (missing, left_over) = self.presence(name, resource, objects);
        found.extend(missing);
        // What a failed upgrade made before the records moved stays until the next revision (0038). Without a record, only a
        // deletion of the resource removes what its values leave out, or what a person keeps of it.
        found.extend(left_over.into_iter().filter(|_| !seen.is_unrecorded && !seen.has_moved));
        match &newest {
            Some(newest) => found.extend(self.unlike(name, resource, newest, objects)),
            None if deployed.is_empty() => {}
            None => found.push(format!("(f) the record of the deployed revision of {name} cannot be read")),
        }
        found.extend(self.dropped(name, seen, objects));
        found.extend(self.job(name, objects));
        found.extend(self.task(name, (seen, resource), objects));
        if is_ready && !seen.is_unrecorded {
            found.extend(self.bound(name, objects));
        }
        let is_stuck = self.chart.as_deref().is_some_and(|chart| chart.ends_with('3'));
        if !is_ready && !is_stuck {
            found.push(format!("(j) resource {name} is not ready: {why}"));
        }
        let deployment = objects.get(&*names::path(OBJECTS[5], name));
        // One that waits for its turn in a rollout is ready with the chart before.
        if is_ready && is_stuck && deployment.is_some_and(|deployment| is_broken(deployment)) {
            found.push(format!("(j) resource {name} is ready, and its Deployment is not"));
        }
        found.extend(untrue);
        found
    }

    /// Checks (j) for a resource whose last attempt may have failed for good: its objects may be of any attempt.
    fn given_up(&self, name: &str, seen: &Resource, objects: &Objects, place: Option<&str>) -> Vec<String> {
        let is_seen = |resource: &Value| !self.is_blind || readiness(resource).0;
        let is_known = seen.exists && are_here(name, objects, place);
        let resource = objects.get(&*names::resource(name)).filter(|_| is_known);
        match resource.filter(|resource| is_seen(resource) && !interventions::is_left_alone(resource)) {
            Some(resource) => untrue(name, (seen, resource), deployed_record(name, objects).as_ref(), objects),
            None => Vec::new(),
        }
    }

    /// Returns the kept objects that the garbage collector would still delete with their owner.
    fn bound(&self, name: &str, objects: &Objects) -> Vec<String> {
        let is_bound = |object: &Value| {
            let metadata = &object["metadata"];
            metadata["annotations"][KEEP] == "keep"
                && metadata["ownerReferences"].as_array().is_some_and(|all| !all.is_empty())
        };
        let is_seen = |path: &str| self.sees_maps || !path.contains("/configmaps/");
        let own = objects.iter().filter(|(path, object)| names::is_of(path, name) && is_seen(path) && is_bound(object));
        own.map(|(path, _)| format!("(c) {path} is kept, and has an owner")).collect()
    }

    /// Returns the objects that are missing, and those that are left over.
    fn presence(&self, name: &str, resource: &Value, objects: &Objects) -> (Vec<String>, Vec<String>) {
        let mut left_over = Vec::new();
        let mut wanted: Vec<String> = OBJECTS.iter().map(|object| names::path(object, name)).collect();
        // A chart that never becomes ready may wait before some releases.
        let has_more = self.chart.as_ref().filter(|chart| !chart.ends_with('3')).map(|chart| !chart.ends_with('1'));
        let has_cache = self.overridden(resource).map(|values| values["cache"] == true);
        for (some, is_wanted) in SOME.iter().zip([has_cache, has_more]) {
            let path = names::path(some, name);
            let is_there = objects.get(&*path).is_some_and(|some| some["metadata"]["annotations"][KEEP].is_null());
            match is_wanted {
                Some(true) => wanted.push(path),
                Some(false) if is_there => left_over.push(format!("(e) {path} is left over")),
                _ => {}
            }
        }
        let is_noticed = |path: &String| self.looks || !path.contains("/configmaps/");
        let missing = wanted.iter().filter(|path| !objects.contains_key(&***path) && is_noticed(path));
        (missing.map(|path| format!("(d) {path} is missing")).collect(), left_over)
    }

    /// Checks (d) that the ConfigMap has no field that only later charts give it.
    fn dropped(&self, name: &str, seen: &Resource, objects: &Objects) -> Option<String> {
        let path = names::path(OBJECTS[0], name);
        let object = objects.get(&*path)?;
        // helm takes our seal off a record, so no client-side merge knows what that revision applied. Nor does one
        // know what a release applied that was uninstalled and left the object, because a person keeps it.
        let is_unknown = seen.is_helms || self.merges && is_kept(object);
        if !self.looks || is_unknown || self.second()? != Value::Null {
            return None;
        }
        let second = object.pointer("/data/second")?;
        Some(format!("(d) {path} is as another chart made it: {second}"))
    }
}

impl End {
    /// Returns the version of the chart of all releases; `None` if they may have different ones.
    pub(crate) fn known_version(&self) -> Option<&str> {
        self.version.as_deref().or_else(|| match self.chart.as_deref()?.as_bytes().last()? {
            b'1' => Some("1.0.0"),
            b'2' => Some("2.0.0"),
            _ => None,
        })
    }

    /// Returns the value that only later charts have; `None` if releases may have different charts.
    fn second(&self) -> Option<Value> {
        let version = self.known_version()?;
        Some(if version.starts_with('1') { Value::Null } else { version.into() })
    }

    /// Checks (d) that a Job has no field that only the chart that never becomes ready gives it.
    fn job(&self, name: &str, objects: &Objects) -> Option<String> {
        self.second()?;
        let path = names::path(JOBS[0], name);
        let grace = objects.get(&*path)?.pointer("/spec/template/spec/terminationGracePeriodSeconds")?;
        Some(format!("(d) {path} is as another chart made it: {grace}"))
    }
}

impl End {
    /// Checks (n) that a resource whose records are elsewhere says so.
    fn waits(&self, name: &str, there: &str, resource: &Resource, objects: &Objects) -> Option<String> {
        let Some(object) = objects.get(&*names::resource(name)) else {
            return (!resource.is_helms).then(|| format!("(e) records of {name} are left over in {there}"));
        };
        let (_, why) = readiness(object);
        let says = why.contains("ReleaseElsewhere") || self.is_blind;
        (!says).then(|| format!("(n) {name} does not say that it is recorded in {there}: {why}"))
    }

    /// Checks (d) that the Job of the values and the chart has finished, or is left over.
    fn task(&self, name: &str, (seen, resource): (&Resource, &Value), objects: &Objects) -> Option<String> {
        let number = match self.second()? {
            Value::Null => 1,
            _ => 2,
        };
        if seen.is_unrecorded || seen.is_helms {
            return None;
        }
        let (spec, path) = (&resource["spec"], names::path(JOBS[0], name));
        if spec["task"] == false {
            return objects.contains_key(&*path).then(|| format!("(e) {path} is left over"));
        }
        let job = spec["job"].as_u64().filter(|job| *job > 0).map(|job| format!("-{job}")).unwrap_or_default();
        let image = format!("task:{number}{job}");
        let has_finished = seen.tasks.get(&image).copied();
        (has_finished != Some(true)).then(|| format!("(d) {path} with {image} never finished: {has_finished:?}"))
    }
}

fn is_kept(object: &Value) -> bool {
    object["metadata"]["annotations"][KEEP] == "keep"
}

/// Returns the value that the Secret provides for a resource.
pub(crate) fn shared(name: &str, objects: &Objects) -> Option<String> {
    if names::namespace(name) != NAMESPACE {
        return None;
    }
    let secret = objects.get(&*names::object("secrets/shared"))?;
    let text = String::from_utf8(STANDARD.decode(secret["data"]["values.yaml"].as_str()?).ok()?).ok()?;
    text.trim().strip_prefix("shared: ").map(str::to_owned)
}

/// Returns whether the status reports that a resource is ready, and the reason if not.
fn readiness(resource: &Value) -> (bool, String) {
    let conditions = resource["status"]["conditions"].as_array();
    let ready = conditions.into_iter().flatten().find(|condition| condition["type"] == "Ready");
    let why = ready.map_or_else(String::new, |ready| format!("{}: {}", ready["reason"], ready["message"]));
    (ready.is_some_and(|ready| ready["status"] == "True"), why)
}

/// Returns the records of a release. Records in its own namespace are ignored once it has records elsewhere.
pub(crate) fn records<'o>(name: &'o str, objects: &'o Objects) -> impl Iterator<Item = (&'o Arc<str>, &'o Arc<Value>)> {
    let is_own = move |path: &str| names::record(path).is_some_and(|(release, _)| release == name);
    let own = || objects.iter().filter(move |(path, _)| is_own(path));
    let have_moved = own().any(|(path, _)| names::place(path).is_some());
    own().filter(move |(path, _)| names::place(path).is_some() == have_moved)
}

/// Returns whether all records of a release are where the leader keeps them. What others say it knows only once it has
/// imported them.
fn are_here(name: &str, objects: &Objects, place: Option<&str>) -> bool {
    records(name, objects).all(|(path, _)| names::place(path) == place)
}

/// Returns the records of a release with their revisions.
fn numbered<'o>(name: &'o str, objects: &'o Objects) -> impl Iterator<Item = (u32, &'o Value)> {
    records(name, objects).filter_map(|(path, record)| Some((names::record(path)?.1.parse::<u32>().ok()?, &**record)))
}

/// Returns the record of the newest revision.
pub(crate) fn newest<'o>(name: &'o str, objects: &'o Objects) -> Option<(u32, &'o Value)> {
    numbered(name, objects).max_by_key(|(revision, _)| *revision)
}

/// Returns the newest deployed revision, if its record can be read.
fn deployed_record(name: &str, objects: &Objects) -> Option<(u32, Release)> {
    let is_deployed = |record: &Value| status_of(Some(record)) == Some("deployed");
    let deployed = numbered(name, objects).filter(|(_, record)| is_deployed(record));
    let (revision, record) = deployed.max_by_key(|(revision, _)| *revision)?;
    let text = STANDARD.decode(record["data"]["release"].as_str()?).ok()?;
    Some((revision, Packed::from_record(&text, BTreeMap::new()).ok()?))
}

/// Returns whether a release has records in its own namespace.
pub(crate) fn is_beside(name: &str, objects: &Objects) -> bool {
    let is_own = |path: &str| names::record(path).is_some_and(|(release, _)| release == name);
    objects.keys().any(|path| is_own(path) && names::place(path).is_none())
}

pub(crate) fn status_of(record: Option<&Value>) -> Option<&str> {
    record?["metadata"]["labels"]["status"].as_str()
}

/// Checks (e) for a deleted resource.
fn left_over(name: &str, resource: &Resource, objects: &Objects) -> Vec<String> {
    let stays = |path: &str, object: &Value| {
        object["metadata"]["annotations"][KEEP] == "keep" || resource.before.contains(path) || resource.leaves_orphans
    };
    let own = objects.iter().filter(|(path, object)| names::is_of(path, name) && !stays(path, object));
    let mut found: Vec<String> = own.map(|(path, _)| format!("(e) {path} is left over")).collect();
    // A person's command may create a record after the operator deleted them. Those from before a move stay.
    let mut left = records(name, objects).filter(|(path, _)| !resource.has_moved || names::place(path).is_some());
    if !resource.is_helms && !resource.is_freed && left.next().is_some() {
        found.push(format!("(e) records of {name} are left over"));
    }
    found
}

/// Returns where the records of a release are, if that is neither beside it nor where the leader keeps them.
pub(crate) fn elsewhere<'o>(name: &'o str, objects: &'o Objects, place: Option<&str>) -> Option<&'o str> {
    records(name, objects).find_map(|(path, _)| names::place(path).filter(|there| Some(*there) != place))
}
