//! What must hold, at every write and whenever everything is quiet. The letters are those of docs/decisions/0057-simulation.md.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;

use crate::actors::{FINALIZER, KEEP, NOTE};
use crate::script::NAMES;
use crate::world::{Change, RESOURCES};

type Objects = BTreeMap<Arc<str>, Arc<Value>>;

/// What was seen so far.
#[derive(Default)]
pub struct Checks {
    /// Each resource by name.
    resources: BTreeMap<String, Resource>,
    /// The process that the lease names.
    holder: Option<String>,
    /// Whether processes take part in an election.
    pub elects: bool,
    /// Whether the processes are configured differently.
    pub is_mixed: bool,
    /// How often a process began to serve with another configuration.
    setups: u32,
}

/// What people wanted of one resource, and what came of it.
#[derive(Default)]
struct Resource {
    /// Whether it exists, and its deletion has not begun.
    exists: bool,
    /// Objects that some values since the last quiet point leave out.
    may_go: BTreeSet<String>,
    /// Whether the server refused one of its objects for good.
    judged: bool,
    /// How often its values changed, its creation included.
    causes: u32,
    /// The configurations before it was created.
    setups: u32,
    /// How many revisions were recorded.
    revisions: u32,
    /// How often the random password changed.
    passwords: u32,
    /// Whether a person ran helm on its release.
    is_helms: bool,
    /// The hooks that ran: revision and values.
    hooks: BTreeSet<String>,
    /// The Job of a chart's version that finished.
    finished: Option<String>,
    /// Objects that were there before.
    before: BTreeSet<String>,
}

/// The objects that each resource has.
pub const OBJECTS: [&str; 6] = [
    "/api/v1/namespaces/default/configmaps/{}-config",
    "/api/v1/namespaces/default/secrets/{}-random",
    "/api/v1/namespaces/default/secrets/{}-guarded",
    "/api/v1/namespaces/default/persistentvolumeclaims/{}-data",
    "/api/v1/namespaces/default/persistentvolumeclaims/{}-kept",
    "/apis/apps/v1/namespaces/default/deployments/{}-server",
];

/// The objects that only some values or charts ask for: a Service, a ConfigMap of the second chart.
pub const SOME: [&str; 2] =
    ["/api/v1/namespaces/default/services/{}-cache", "/api/v1/namespaces/default/configmaps/{}-more"];

/// The Jobs: one with a time to live, and a hook.
pub const JOBS: [&str; 2] =
    ["/apis/batch/v1/namespaces/default/jobs/{}-task", "/apis/batch/v1/namespaces/default/jobs/{}-hook"];

impl Checks {
    /// Nothing was seen yet.
    pub fn new() -> Checks {
        let resources = NAMES.iter().map(|name| ((*name).to_owned(), Resource::default())).collect();
        Checks { resources, ..Checks::default() }
    }

    /// Notes that the server refused a write of this object for good.
    pub fn judge(&mut self, path: &str) {
        if let Some((_, resource)) = self.resources.iter_mut().find(|(name, _)| is_of(path, name)) {
            resource.judged = true;
        }
    }

    /// Notes that a process may begin to serve with another configuration.
    pub fn setup_changes(&mut self) {
        self.setups += 1;
        for (name, resource) in &mut self.resources {
            resource.may_go.insert(SOME[1].replace("{}", name));
        }
    }

    /// Notes that a person runs helm on a release, which the operator undoes by a revision.
    pub fn helm_acts(&mut self, name: &str) {
        let resource = self.resources.entry(name.to_owned()).or_default();
        resource.causes += 2;
        resource.is_helms = true;
    }

    /// Checks a write; returns what is wrong with it.
    pub fn written(&mut self, change: &Change) -> Option<String> {
        if change.path.contains("/leases/") {
            self.note_holder(change);
            return None;
        }
        if let Some(name) = change.path.strip_prefix(RESOURCES).and_then(|rest| rest.strip_prefix('/')) {
            self.note_resource(name, change);
        }
        let is_operator = change.by.starts_with("op-");
        let wrong = if is_operator { self.leads(change) } else { None };
        let wrong = wrong.or_else(|| self.identity(change)).or_else(|| kept(change));
        let wrong = if is_operator { wrong.or_else(|| others(change)) } else { wrong };
        wrong.or_else(|| self.revision(change)).or_else(|| self.values(change)).or_else(|| self.job(change))
    }

    fn note_holder(&mut self, change: &Change) {
        let holder = change.after.as_ref().and_then(|lease| lease["spec"]["holderIdentity"].as_str());
        let holder = holder.and_then(|holder| holder.split('_').next()).unwrap_or_default().to_owned();
        if self.is_mixed && self.holder.as_ref() != Some(&holder) && !holder.is_empty() {
            self.setup_changes();
        }
        self.holder = Some(holder);
    }

    fn note_resource(&mut self, name: &str, change: &Change) {
        let setups = self.setups;
        let resource = self.resources.entry(name.to_owned()).or_default();
        let (before, after) = (change.before.as_deref(), change.after.as_deref());
        let Some(after) = after else {
            let (before, is_helms) = (std::mem::take(&mut resource.before), resource.is_helms);
            *resource = Resource { before, is_helms, ..Resource::default() };
            return;
        };
        if before.is_none() {
            resource.setups = setups;
        }
        if before.is_none_or(|before| before["spec"] != after["spec"]) {
            resource.causes += 1;
        }
        resource.exists = after["metadata"]["deletionTimestamp"].is_null();
        if after["spec"]["cache"] != true {
            resource.may_go.insert(SOME[0].replace("{}", name));
        }
    }

    /// (h) Only the leader writes. Events may come late.
    fn leads(&self, change: &Change) -> Option<String> {
        let leads = self.holder.as_deref() == Some(&*change.by);
        let is_wrong = self.elects && !leads && !change.path.contains("/events/");
        is_wrong.then(|| format!("(h) {} wrote {}, but {:?} leads", change.by, change.path, self.holder))
    }

    /// (a) An object of a resource that exists is not deleted.
    fn identity(&mut self, change: &Change) -> Option<String> {
        let before = begins_to_go(change);
        let (name, resource) = self.resources.iter_mut().find(|(name, _)| is_of(&change.path, name))?;
        if &*change.by == "person" && change.before.is_none() {
            resource.before.insert(change.path.to_string());
        }
        before?;
        if is_person(&change.by) {
            resource.before.remove(&*change.path);
            return None;
        }
        let is_own = resource.judged && !resource.before.contains(&*change.path);
        let may_go = !resource.exists || resource.may_go.contains(&*change.path) || is_own;
        (!may_go).then(|| format!("(a) {} deleted {} of resource {name}, which exists", change.by, change.path))
    }

    /// (f) No revision without a cause.
    fn revision(&mut self, change: &Change) -> Option<String> {
        let record = change.path.rsplit_once("/sh.helm.release.v1.").filter(|_| change.before.is_none())?.1;
        let (name, number) = record.rsplit_once(".v").filter(|_| change.by.starts_with("op-"))?;
        let resource = self.resources.get_mut(name)?;
        resource.revisions += 1;
        let causes = resource.causes + self.setups - resource.setups;
        let is_wrong = resource.revisions > causes && !resource.judged;
        is_wrong.then(|| {
            format!("(f) revision {number} of {name} has no cause: {causes} causes, {} revisions", resource.revisions)
        })
    }

    /// (b) Values that were generated once stay.
    fn values(&mut self, change: &Change) -> Option<String> {
        let (before, after) = (change.before.as_ref()?, change.after.as_ref()?);
        let (old, new) = (&before["data"]["password"], &after["data"]["password"]);
        if old.is_null() || old == new || !change.by.starts_with("op-") {
            return None;
        }
        if change.path.ends_with("-guarded") {
            return Some(format!("(b) the password in {} changed", change.path));
        }
        let setups = self.setups;
        let (name, resource) = self.resources.iter_mut().find(|(name, _)| is_of(&change.path, name))?;
        resource.passwords += 1;
        let causes = resource.causes + setups - resource.setups;
        let is_wrong = resource.passwords >= causes && !resource.judged;
        is_wrong.then(|| format!("(b) the random password of {name} changed without a cause: {causes} causes"))
    }

    /// (g) No hook twice for one revision; a Job that finished does not run again.
    fn job(&mut self, change: &Change) -> Option<String> {
        let (name, resource) = self
            .resources
            .iter_mut()
            .find(|(name, _)| JOBS.iter().any(|job| job.replace("{}", name) == *change.path))?;
        let run = |job: &Value| job["metadata"]["annotations"]["example.com/run"].as_str().map(str::to_owned);
        let image = |job: &Value| job.pointer("/spec/template/spec/containers/0/image").map(Value::to_string);
        let is_hook = change.path.ends_with("-hook");
        match (&change.before, &change.after) {
            (None, Some(job)) if is_hook && change.by.starts_with("op-") => {
                let run = run(job)?;
                let is_wrong = !resource.hooks.insert(run.clone()) && !resource.judged && !resource.is_helms;
                is_wrong.then(|| format!("(g) the hook of {name} ran again for revision {run}"))
            }
            (None, Some(job)) if !is_hook => {
                let is_new = resource.finished.is_none() || resource.finished != image(job);
                let is_wrong = !is_new && !resource.judged && !resource.is_helms;
                is_wrong.then(|| format!("(a) the Job of {name} runs again"))
            }
            (_, Some(job)) if job["status"]["succeeded"] == 1 && !is_hook => {
                resource.finished = image(job);
                None
            }
            _ => None,
        }
    }

    /// Checks what holds once everything is quiet.
    pub fn quiet(&mut self, objects: &Objects, end: &End) -> Vec<String> {
        let mut found = Vec::new();
        for (name, resource) in &mut self.resources {
            if resource.judged && end.gives_up {
                continue;
            }
            match objects.get(&*format!("{RESOURCES}/{name}")) {
                Some(object) if resource.exists => found.extend(converged(name, object, objects, end)),
                Some(_) => found.push(format!("(i) resource {name} is still being deleted")),
                None => found.extend(left_over(name, resource, objects)),
            }
        }
        found
    }
}

/// How the processes are configured at the end.
pub struct End {
    /// The chart, if they agree.
    pub chart: Option<String>,
    /// Whether some attempt may be the last one.
    pub gives_up: bool,
}

/// The object that a change deletes, or begins to delete.
fn begins_to_go(change: &Change) -> Option<&Arc<Value>> {
    let is_going = |object: &Value| object["metadata"]["deletionTimestamp"].is_string();
    let goes = change.after.as_ref().is_none_or(|after| is_going(after));
    change.before.as_ref().filter(|before| goes && !is_going(before))
}

/// (c) Nobody but people deletes what has to be kept, or what only looks like the release's.
fn kept(change: &Change) -> Option<String> {
    let before = begins_to_go(change)?;
    let is_kept = before["metadata"]["annotations"][KEEP] == "keep" || change.path.contains("/precious-");
    let is_wrong = is_kept && !is_person(&change.by);
    is_wrong.then(|| format!("(c) {} deleted {}, which is kept", change.by, change.path))
}

/// (c) What others wrote stays.
fn others(change: &Change) -> Option<String> {
    let (before, after) = (change.before.as_ref()?, change.after.as_ref()?);
    let note = |object: &Value| object["metadata"]["annotations"][NOTE].is_string();
    let hold = |object: &Value| {
        let finalizers = object["metadata"]["finalizers"].as_array();
        finalizers.is_some_and(|all| all.iter().any(|one| one == FINALIZER))
    };
    let keep = |object: &Value| object["metadata"]["annotations"][KEEP].is_string();
    for (what, has) in [("annotation", &note as &dyn Fn(&Value) -> bool), ("finalizer", &hold), ("keep policy", &keep)]
    {
        if has(before) && !has(after) {
            return Some(format!("(c) {} removed another's {what} from {}", change.by, change.path));
        }
    }
    None
}

fn is_person(by: &str) -> bool {
    matches!(by, "person" | "helm")
}

fn is_of(path: &str, name: &str) -> bool {
    OBJECTS.iter().chain(&SOME).any(|object| object.replace("{}", name) == path)
}

/// (d), (f), (j) of a resource that exists.
fn converged(name: &str, resource: &Value, objects: &Objects, end: &End) -> Vec<String> {
    let mut found = Vec::new();
    let spec = &resource["spec"];
    let mut wanted: Vec<String> = OBJECTS.iter().map(|object| object.replace("{}", name)).collect();
    let has_more = end.chart.as_ref().map(|chart| chart == "web2");
    for (some, is_wanted) in SOME.iter().zip([Some(spec["cache"] == true), has_more]) {
        let path = some.replace("{}", name);
        match is_wanted {
            Some(true) => wanted.push(path),
            Some(false) if objects.get(&*path).is_some_and(|some| some["metadata"]["annotations"][KEEP].is_null()) => {
                found.push(format!("(e) {path} is left over"));
            }
            _ => {}
        }
    }
    found.extend(
        wanted.iter().filter(|path| !objects.contains_key(&***path)).map(|path| format!("(d) {path} is missing")),
    );
    let at = |object: &str, pointer: &str| {
        objects
            .get(&*object.replace("{}", name))
            .and_then(|object| object.pointer(pointer))
            .cloned()
            .unwrap_or_default()
    };
    for (object, pointer, expected) in
        [(OBJECTS[0], "/data/message", &spec["message"]), (OBJECTS[5], "/spec/replicas", &spec["replicas"])]
    {
        let value = at(object, pointer);
        if value != *expected {
            found.push(format!("(d) {}{pointer} is {value}, not {expected}", object.replace("{}", name)));
        }
    }
    let conditions = resource["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let ready = conditions.iter().find(|condition| condition["type"] == "Ready");
    if ready.is_none_or(|ready| ready["status"] != "True") {
        let why = ready.map_or_else(String::new, |ready| format!("{}: {}", ready["reason"], ready["message"]));
        found.push(format!("(j) resource {name} is not ready: {why}"));
    }
    let deployed = records(name, objects).filter(|record| record["metadata"]["labels"]["status"] == "deployed").count();
    if deployed != 1 {
        found.push(format!("(f) {deployed} revisions of {name} are deployed"));
    }
    found
}

fn records<'o>(name: &'o str, objects: &'o Objects) -> impl Iterator<Item = &'o Arc<Value>> {
    objects.iter().filter(|(path, _)| path.contains("/sh.helm.release.v1.")).map(|(_, record)| record).filter(
        move |object| {
            let labels = &object["metadata"]["labels"];
            labels["owner"] == "helm" && labels["name"] == name
        },
    )
}

/// (e) of a resource that is gone.
fn left_over(name: &str, resource: &Resource, objects: &Objects) -> Vec<String> {
    let stays = |path: &str, object: &Value| {
        object["metadata"]["annotations"][KEEP] == "keep" || resource.before.contains(path)
    };
    let own = objects.iter().filter(|(path, object)| is_of(path, name) && !stays(path, object));
    let mut found: Vec<String> = own.map(|(path, _)| format!("(e) {path} is left over")).collect();
    // A person's command may have made one after the operator deleted them.
    if !resource.is_helms && records(name, objects).next().is_some() {
        found.push(format!("(e) records of {name} are left over"));
    }
    found
}
