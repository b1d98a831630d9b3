//! Waits for the objects that a resource depends on. Watches wake it, so that no worker waits and no request is sent;
//! only what is not known yet is read once.
//!
//! With a ServiceAccount, the status names only objects that the account may read, and the annotation waits for no
//! others: otherwise, a user could find out with the operator's rights whether an object exists.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use controller::report::chain;
use futures::TryStreamExt as _;
use helm_release::kube::{Api, Call, Error, Resource};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;

use crate::dependencies::{
    Access, CYCLE, Gap, HELD, NOT_READY, Node, Origin, Query, ReadsAs, Standing, Target, UNLISTED, Waiting, Wanted,
    admit, describe_cycle, describe_gaps, describe_holders, describe_unlisted, resolve,
};
use crate::reconcile::controller_context::ControllerContext;
use crate::reconcile::decide::state::Awaits;
use crate::reconcile::failure::{Failed, Unanswered};
use crate::reconcile::learned::{Ended, Learned, NextStep};
use crate::reconcile::step_context::StepContext;
use crate::status::reason::Reason;
use crate::view::dependencies::registry::{Dependencies, User, api_version, key_of};
use crate::view::dependencies::seen::{Judged, Seen};
use crate::view::primary::Primary;
use crate::watches::Dependency;

/// Why an entry is refused in a ring.
const NO_REVERSE_DELETION: &str = "reverseDeletion needs one process that knows all resources, so it is not possible \
    with --controller-ring or --shard-selector";

/// The time limit of a read of at most one object. The read occupies a worker, and many resources may wait for objects of
/// one aggregated API server that stalls. The client limits a page of a list, because it may wait for its turn behind large
/// pages of other kinds.
const ANSWER: Duration = Duration::from_secs(30);

impl ControllerContext {
    /// Returns a resource in the graph of dependencies. The namespace is empty if it is cluster-scoped.
    pub(crate) fn user(&self, namespace: &str, name: &str) -> User {
        let (group, kind) = (self.resource.group().into(), self.resource.kind.clone());
        let node = Node { group, kind, namespace: namespace.into(), name: name.into() };
        (self.settings.controller.clone(), node)
    }

    /// Records what a resource waits for, so that others know of it before it is reconciled.
    pub(crate) fn register_dependencies(&self, primary: &Primary) {
        let mut wanted = self.wanted(&self.settings.depends_on, Origin::Watch, primary).unwrap_or_default();
        wanted.extend(self.annotated(primary).unwrap_or_default());
        self.dependencies.depend(&self.user(primary.own_namespace(), primary.name()), wanted);
    }

    /// Returns the dependencies that the resource's annotation names.
    ///
    /// # Errors
    /// The annotation is invalid, or asks for more than the watch allows; or an entry of the watch makes no name.
    pub(crate) fn annotated(&self, primary: &Primary) -> Result<Vec<Wanted>, String> {
        self.wanted(&self.settings.depends_on, Origin::Watch, primary)
            .map_err(|why| format!("dependsOn in watches.yaml does not fit this resource: {why}"))?;
        let Some(entries) = primary.annotations.depends_on() else { return Ok(Vec::new()) };
        let wanted = self.wanted(&entries?, Origin::Annotation, primary)?;
        let rule = self.settings.depends_on_annotation.as_ref();
        let reads_as = if self.settings.service_account.is_some() { ReadsAs::Account } else { ReadsAs::Operator };
        let is_cluster_scoped = |query: &Query| {
            let known = self.applier.mapper.known(&api_version(&query.group), &query.kind);
            known.is_some_and(|resource| !resource.namespaced)
        };
        admit(&wanted, primary.own_namespace(), rule, reads_as, &is_cluster_scoped)?;
        Ok(wanted)
    }

    fn wanted(&self, entries: &[Dependency], origin: Origin, primary: &Primary) -> Result<Vec<Wanted>, String> {
        let settings = &self.settings;
        let rules =
            |group: &str, kind: &str| settings.expressions.has_rule(group, kind).then(|| settings.controller.clone());
        let wanted = resolve(entries, origin, (primary.own_namespace(), primary.name()), &rules)?;
        match wanted.iter().position(|one| one.reverse_deletion).filter(|_| self.shard.is_some()) {
            Some(at) => Err(format!("[{at}]: {NO_REVERSE_DELETION}")),
            None => Ok(wanted),
        }
    }
}

impl StepContext<'_> {
    /// Returns whether the resource's dependencies are met.
    pub(crate) fn awaits(&self, primary: &Primary) -> Awaits {
        let user = self.user(primary);
        let standings = self.shared.dependencies.standings(&user);
        let is_open = |(wanted, standing): &(Wanted, Standing)| {
            *standing == Standing::Unknown || self.must_check(&user, wanted, standing)
        };
        let is_lacking = |(_, standing): &(Wanted, Standing)| matches!(standing, Standing::Lacks(_));
        match standings.iter().any(is_open) {
            true => Awaits::Unread,
            false if standings.iter().any(is_lacking) => Awaits::Missing,
            false => Awaits::Nothing,
        }
    }

    /// Returns the resources that depend on this one and must be deleted first. Resources in a cycle would wait
    /// forever.
    pub(crate) fn holders(&self, primary: &Primary) -> Vec<Node> {
        let (_, node) = self.user(primary);
        let holders = self.shared.dependencies.holders(&node);
        if holders.is_empty() || self.shared.dependencies.cycle(&node).is_some() { Vec::new() } else { holders }
    }

    /// Returns whether a resource must be deleted before this one, or may have to be.
    pub(crate) fn may_be_needed(&self, primary: &Primary) -> bool {
        !self.unlisted_holders(primary).is_empty() || !self.holders(primary).is_empty()
    }

    fn unlisted_holders(&self, primary: &Primary) -> BTreeSet<Arc<str>> {
        self.shared.dependencies.unlisted_holders(&self.user(primary).1)
    }

    /// Reports what the resource waits for.
    pub(crate) fn await_dependencies(&self, primary: &Primary) -> Ended {
        self.forget_refusal();
        let user = self.user(primary);
        let standings = self.shared.dependencies.standings(&user);
        let waiting = match self.shared.dependencies.cycle(&user.1) {
            Some(members) => {
                let may_know = |node: &Node| self.may_know(&user, node, &standings);
                Waiting { reason: CYCLE, message: describe_cycle(&members, may_know), is_final: true }
            }
            None => {
                let gaps: Vec<_> = standings.iter().filter_map(|one| self.gap(&user, one)).collect();
                let message = describe_gaps(&gaps, primary.own_namespace());
                Waiting { reason: NOT_READY, message, is_final: false }
            }
        };
        tracing::debug!(resource = %self.key, reason = waiting.reason, "{}", waiting.message);
        NextStep::Done.with([Learned::Waits(waiting)])
    }

    /// Reports which resources must be deleted before this one, or which must be listed to know.
    pub(crate) fn await_dependents(&self, primary: &Primary) -> Ended {
        let has_account = self.shared.settings.service_account.is_some();
        let may_know = |node: &Node| !has_account && *node.namespace == *primary.own_namespace();
        let (holders, unlisted) = (self.holders(primary), self.unlisted_holders(primary));
        let (reason, message) = match holders.is_empty() {
            true => (UNLISTED, describe_unlisted(&unlisted)),
            false => (HELD, describe_holders(&holders, may_know)),
        };
        NextStep::Done.with([Learned::Waits(Waiting { reason, message, is_final: false })])
    }

    fn user(&self, primary: &Primary) -> User {
        self.shared.user(primary.own_namespace(), primary.name())
    }

    /// Returns whether the account's right to read must be checked: before anything is said about an object, and before
    /// a user's own annotation has any effect.
    fn must_check(&self, user: &User, wanted: &Wanted, standing: &Standing) -> bool {
        let reveals_it = wanted.origin == Origin::Annotation || matches!(standing, Standing::Lacks(_));
        self.shared.settings.service_account.is_some()
            && reveals_it
            && self.shared.dependencies.recorded_access(user, &wanted.query, standing).is_none()
    }

    /// Returns what is missing; without details if the account may not know them.
    fn gap(&self, user: &User, (wanted, standing): &(Wanted, Standing)) -> Option<Option<(Arc<Query>, Gap)>> {
        let Standing::Lacks(gap) = standing else { return None };
        let may_read = self.shared.settings.service_account.is_none()
            || self.shared.dependencies.recorded_access(user, &wanted.query, standing) == Some(Access::Granted);
        Some(may_read.then(|| (wanted.query.clone(), gap.clone())))
    }

    /// Returns whether the resource's user may know that another resource exists.
    fn may_know(&self, user: &User, node: &Node, standings: &[(Wanted, Standing)]) -> bool {
        let is_it = |query: &Query| {
            (&query.group, &query.kind) == (&node.group, &node.kind)
                && query.means(&node.namespace, &node.name, &Default::default())
        };
        let direct = standings.iter().find(|(wanted, _)| is_it(&wanted.query));
        match (self.shared.settings.service_account.is_some(), direct) {
            _ if user.1 == *node => true,
            (false, direct) => direct.is_some() || node.namespace == user.1.namespace,
            (true, Some((wanted, standing))) => {
                self.shared.dependencies.recorded_access(user, &wanted.query, standing) == Some(Access::Granted)
            }
            (true, None) => false,
        }
    }

    /// Ends the failure of an earlier read.
    fn forget_refusal(&self) {
        self.shared.memory.change(self.key, |memory| {
            if memory.fault().is_some_and(|fault| fault.reason == Reason::DependencyForbidden) {
                memory.succeed();
            }
        });
    }
}

/// Reads what is not known, and checks whether the account may know it.
///
/// # Errors
/// The operator may not read or watch the objects, the account may not read those of the annotation, or the server does
/// not answer.
pub(crate) async fn read(context: &StepContext<'_>, primary: &Primary) -> Result<NextStep, Failed> {
    let (shared, user) = (context.shared, context.user(primary));
    for (wanted, standing) in shared.dependencies.standings(&user) {
        if standing == Standing::Unknown {
            read_objects(shared, &wanted.query).await?;
        }
    }
    for (wanted, standing) in shared.dependencies.standings(&user) {
        if context.must_check(&user, &wanted, &standing) {
            let access = access(context, &wanted.query).await?;
            if access == Access::Denied && wanted.origin == Origin::Annotation {
                return Err(closed_to_account(context, &wanted.query).into());
            }
            shared.dependencies.record_access(&user, &wanted.query, standing, access);
        }
    }
    Ok(NextStep::Again)
}

/// Reads the objects of a query, and starts a watch of them.
async fn read_objects(shared: &ControllerContext, query: &Query) -> Result<(), Failed> {
    let kind = key_of(query);
    let Some(resource) = served(shared, query).await? else {
        shared.dependencies.unserved(&kind);
        return Ok(());
    };
    shared.dependencies.serve(&kind, resource.clone());
    if resource.namespaced && query.namespace.is_empty() {
        return Ok(());
    }
    if let Some(why) = shared.dependencies.refusal(query) {
        return Err(closed_to_operator(&resource, query, &why).into());
    }
    let Some(reading) = shared.dependencies.begin_read(query) else { return Ok(()) };
    match fetch(shared, &resource, query).await {
        Ok(objects) => shared.dependencies.store(query, objects, &reading),
        Err(error) if error.is_forbidden() => {
            return Err(closed_to_operator(&resource, query, "it may not read them").into());
        }
        Err(error) => return Err(Failed::of_request(&error, &format!("cannot read {}", resource.full_name()))),
    }
    Ok(())
}

/// Returns where a query's kind is served; `None` if it is not.
async fn served(shared: &ControllerContext, query: &Query) -> Result<Option<Arc<Resource>>, Failed> {
    let (mapper, api_version) = (&shared.applier.mapper, api_version(&query.group));
    if let Some(known) = mapper.known(&api_version, &query.kind) {
        return Ok(Some(known));
    }
    match mapper.any_version(&api_version, &query.kind).await {
        Ok(resource) => Ok(Some(resource)),
        Err(Error::NoKind { .. }) => Ok(None),
        Err(error) => Err(Unanswered::request(&error).into()),
    }
}

/// Reads what the query asks of its objects: their metadata, if that suffices.
async fn fetch(shared: &ControllerContext, resource: &Resource, query: &Query) -> Result<Vec<Judged>, Error> {
    let is_whole = !query.needs_only_metadata();
    if let Some(path) = named_path(resource, query)? {
        let call = if is_whole { Call::get(path) } else { Call::metadata(path) };
        return match in_time(shared.api.send(call)).await {
            Ok(answer) => Ok(shared.dependencies.judge(query, &[answer.parse::<Seen>()?])),
            Err(error) if error.is_not_found() => Ok(Vec::new()),
            Err(error) => Err(error),
        };
    }
    let path = selected_path(resource, query)?;
    let call = if is_whole { Call::get(path) } else { Call::metadata_list(path) };
    select(&*shared.api, &shared.dependencies, query, call).await
}

/// Reads all objects with a query's labels, page by page, and keeps only the verdicts. Ends early only if there are too
/// many. A page takes its turn once it has arrived, so a slow server holds up no other kind.
async fn select(api: &dyn Api, dependencies: &Dependencies, query: &Query, call: Call) -> Result<Vec<Judged>, Error> {
    let mut pages = outside::pages_in_turn::<Seen, _, _>(api, call, || dependencies.page_turn());
    let mut found = Vec::new();
    while found.len() <= query.max_objects {
        let Some((_turn, page)) = pages.try_next().await? else { break };
        found.extend(dependencies.judge(query, &page));
    }
    Ok(found)
}

/// Waits for a read of at most one object, but no longer than [`ANSWER`].
async fn in_time<T>(read: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
    let late = Error::TimedOut { seconds: ANSWER.as_secs() };
    tokio::time::timeout(ANSWER, read).await.unwrap_or(Err(late))
}

/// Returns the path of the object that a query names; `None` if labels select the objects.
fn named_path(resource: &Resource, query: &Query) -> Result<Option<String>, Error> {
    query.name().map(|name| resource.path(&query.namespace, name)).transpose()
}

fn selected_path(resource: &Resource, query: &Query) -> Result<String, Error> {
    let selector = match &query.target {
        Target::Selected(selector) => selector.to_string(),
        Target::Named(_) => String::new(),
    };
    let selector = utf8_percent_encode(&selector, NON_ALPHANUMERIC);
    Ok(format!("{}?labelSelector={selector}", resource.collection(&query.namespace)?))
}

/// Returns whether the release's account may read the objects of a query. The server's answer to a read is the only
/// judge that needs no further right.
async fn access(context: &StepContext<'_>, query: &Query) -> Result<Access, Failed> {
    // Everyone may know which kinds are served.
    let Some(resource) = served(context.shared, query).await? else { return Ok(Access::Granted) };
    if resource.namespaced && query.namespace.is_empty() {
        return Ok(Access::Granted);
    }
    let path = |error| Failed::of_request(&error, "cannot check what the account may read");
    let call = match named_path(&resource, query).map_err(path)? {
        Some(path) => Call::metadata(path),
        None => Call::metadata_list(format!("{}&limit=1", selected_path(&resource, query).map_err(path)?)),
    };
    match in_time(context.applier.api().send(call)).await {
        Ok(_) => Ok(Access::Granted),
        Err(error) if error.is_not_found() => Ok(Access::Granted),
        Err(error) if error.is_forbidden() && !chain(&error).contains(" cannot impersonate") => Ok(Access::Denied),
        Err(error) => Err(path(error)),
    }
}

fn closed_to_operator(resource: &Resource, query: &Query, why: &str) -> Unanswered {
    let (namespace, rule) = (&query.namespace, rule(resource, "get, list, watch"));
    let what = resource.full_name();
    let message = format!(
        "cannot wait for {what} in namespace {namespace:?}: {why}; add this rule to the operator's role: {rule}"
    );
    Unanswered::with_reason(Reason::DependencyForbidden, message)
}

/// Describes that the account may not read what the annotation names, whether it exists or not.
fn closed_to_account(context: &StepContext<'_>, query: &Query) -> Unanswered {
    let account = context.shared.settings.service_account.as_ref().map_or("", |account| &*account.name);
    let verb = if query.name().is_some() { "get" } else { "list" };
    let resource = context.shared.applier.mapper.known(&api_version(&query.group), &query.kind);
    let rule = resource.map(|resource| rule(&resource, verb)).unwrap_or_default();
    let (kind, namespace) = (&query.kind, &query.namespace);
    let message = format!(
        "annotation depends-on: ServiceAccount {account:?} may not {verb} {kind} in namespace {namespace:?}, and so the \
         resource cannot wait for it; add this rule to its role: {rule}"
    );
    Unanswered::with_reason(Reason::DependencyForbidden, message)
}

fn rule(resource: &Resource, verbs: &str) -> String {
    let group = Value::from(resource.group());
    let group = if resource.group().is_empty() { group.to_string() } else { resource.group().to_owned() };
    format!("{{apiGroups: [{group}], resources: [{}], verbs: [{verbs}]}}", resource.plural)
}

#[cfg(test)]
mod tests {
    use futures::future::BoxFuture;
    use helm_release::kube::{Applier, MemoryApi, Response};
    use serde_json::json;
    use tokio::time::Instant;

    use super::*;
    use crate::dependencies::{Missing, parse};

    const DATABASES: &str = "/apis/db.example.com/v1/namespaces/ns/databases";
    const SLOW: &str = "/apis/db.example.com/v1/namespaces/slow/databases";

    /// A server that sends two objects in a page.
    struct Small(MemoryApi);

    impl Api for Small {
        fn send(&self, call: Call) -> BoxFuture<'_, Result<Response, Error>> {
            self.0.send(Call { path: call.path.replace("limit=500", "limit=2"), ..call })
        }
    }

    /// A server whose answers from one namespace take longer than a named read may.
    struct Stalling(Small);

    impl Api for Stalling {
        fn send(&self, call: Call) -> BoxFuture<'_, Result<Response, Error>> {
            Box::pin(async move {
                if call.path.starts_with(SLOW) {
                    tokio::time::sleep(2 * ANSWER).await;
                }
                self.0.send(call).await
            })
        }
    }

    /// Returns a server with so many objects, of which only the last is not ready.
    fn server(count: usize) -> Small {
        let server = MemoryApi::new();
        server.serve("db.example.com/v1", "Database", "databases");
        for number in 1..=count {
            let name = format!("db-{number:05}");
            let ready = if number < count { "True" } else { "False" };
            let status = json!({"conditions": [{"type": "Ready", "status": ready}]});
            let metadata = json!({"name": name, "namespace": "ns", "labels": {"tier": "db"}});
            server.put(&format!("{DATABASES}/{name}"), json!({"metadata": metadata, "status": status}), "user");
        }
        Small(server)
    }

    /// Returns a registry in which a resource waits for all objects with a label.
    fn registry(origin: Origin) -> (Arc<Dependencies>, User, Arc<Query>) {
        let mapper = Applier::new(Arc::new(MemoryApi::new())).mapper;
        let dependencies = Dependencies::new(None, Default::default(), mapper, Arc::default());
        let labels = json!({"matchLabels": {"tier": "db"}});
        let entries = parse(&json!([{"group": "db.example.com", "kind": "Database", "selector": labels}])).unwrap();
        let wanted = resolve(&entries, origin, ("ns", "web"), &|_, _| None).unwrap();
        let query = wanted[0].query.clone();
        let node = Node { group: "g".into(), kind: "Shop".into(), namespace: "ns".into(), name: "web".into() };
        let user = ("shop-controller".into(), node);
        dependencies.depend(&user, wanted);
        (dependencies, user, query)
    }

    /// Returns the standing after a read of all objects with a label, and the number of pages that this took.
    async fn read_all(server: &Small, origin: Origin) -> (Standing, usize) {
        let (dependencies, user, query) = registry(origin);
        let reading = dependencies.begin_read(&query).unwrap();
        let before = server.0.log().len();
        let found = select(server, &dependencies, &query, Call::get(DATABASES)).await.unwrap();
        dependencies.store(&query, found, &reading);
        (dependencies.standings(&user).remove(0).1, server.0.log().len() - before)
    }

    #[tokio::test]
    async fn the_last_of_many_pages_counts_unless_there_are_too_many_objects() {
        let lacks = |object: Option<&str>, missing| Standing::Lacks(Gap { object: object.map(Arc::from), missing });
        for (origin, count, expected, pages) in [
            (Origin::Watch, 101, lacks(Some("db-00101"), Missing::Unready), 51),
            (Origin::Annotation, 100, lacks(Some("db-00100"), Missing::Unready), 50),
            (Origin::Annotation, 300, lacks(None, Missing::TooMany), 51),
        ] {
            assert_eq!(read_all(&server(count), origin).await, (expected, pages), "{origin:?} {count}");
        }
    }

    /// Returns a server with three objects, and one in the namespace whose answers take long.
    fn stalling() -> Stalling {
        let server = server(3);
        server.0.put(&format!("{SLOW}/db"), json!({"metadata": {"name": "db", "namespace": "slow"}}), "user");
        Stalling(server)
    }

    #[tokio::test(start_paused = true)]
    async fn a_page_that_takes_long_delays_no_other_read_and_has_the_time_that_the_client_gives_it() {
        let (server, (dependencies, _, query)) = (stalling(), registry(Origin::Watch));
        let read = |path: &'static str| {
            let read = select(&server, &dependencies, &query, Call::get(path));
            async { (read.await.unwrap().len(), Instant::now()) }
        };
        let began = Instant::now();
        let (stalled, another, other) = tokio::join!(read(SLOW), read(SLOW), read(DATABASES));
        assert_eq!(other, (3, began));
        assert!(stalled.1.min(another.1) >= began + 2 * ANSWER);
    }

    #[tokio::test(start_paused = true)]
    async fn a_named_read_is_not_awaited_for_long() {
        let (server, began) = (stalling(), Instant::now());
        let error = in_time(server.send(Call::get(format!("{SLOW}/db")))).await.err().unwrap();
        assert_eq!(error.to_string(), "the API server did not complete its response within 30 s");
        assert!(error.is_unanswered() && began.elapsed() < 2 * ANSWER);
    }
}
