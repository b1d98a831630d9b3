//! Maps kinds to resources by aggregated discovery, which runs again when a kind is missing.

use std::collections::HashMap;
use std::sync::{Arc, RwLock};
use std::time::Duration;

use outside::{Api, Call, DISCOVERY, Error, Response};
use outside::{group_of, sync};
use serde::Deserialize;
use tokio::time::Instant;

use crate::kube::kinds::resource::Resource;

/// The verbs required to find and delete a kind's objects.
const CLEANABLE: [&str; 2] = ["list", "delete"];

/// The roots of discovery: the core group, and all others.
const ROOTS: [&str; 2] = ["/api", "/apis"];

/// The last discovery.
#[derive(Default)]
struct Table {
    /// When it ran; `None` before the first time.
    read: Option<Instant>,
    /// The entity tags of its responses; an unchanged response is not sent again.
    tags: [Option<String>; 2],
    found: Arc<Found>,
}

/// The result of a discovery.
#[derive(Default)]
struct Found {
    generation: usize,
    resources: HashMap<(Arc<str>, Arc<str>), Arc<Resource>>,
    /// One version of each kind whose objects can be listed and deleted.
    cleanable: Vec<Arc<Resource>>,
    /// The group versions of API servers that do not answer: which kinds they serve is unknown or outdated.
    stale: Vec<Arc<str>>,
    api_versions: Vec<String>,
}

/// The kinds that the server serves, read on first use and again when a requested kind is missing.
pub struct Mapper {
    api: Arc<dyn Api>,
    table: RwLock<Arc<Table>>,
    /// Held during discovery, so that concurrent misses share one.
    refresh: tokio::sync::Mutex<()>,
}

impl Mapper {
    /// Creates a mapper. Sends no request yet.
    pub fn new(api: Arc<dyn Api>) -> Mapper {
        Mapper { api, table: RwLock::default(), refresh: tokio::sync::Mutex::new(()) }
    }

    /// Returns a mapper for another connection that starts with the last discovery of this one.
    pub(crate) fn through(&self, api: Arc<dyn Api>) -> Mapper {
        Mapper { api, table: RwLock::new(self.table()), refresh: tokio::sync::Mutex::new(()) }
    }

    /// Returns the resource that serves the kind. Runs discovery if the kind is unknown.
    ///
    /// # Errors
    /// [`Error::NoKind`] if the kind is not served, [`Error::Unanswered`] if that is unknown, or discovery fails.
    pub async fn resource(&self, api_version: &str, kind: &str) -> Result<Arc<Resource>, Error> {
        let table = self.table();
        if let Some(resource) = find(&table.found, api_version, kind) {
            return Ok(resource);
        }
        self.refresh_unless_newer(&table).await?;
        let found = &self.table().found;
        find(found, api_version, kind).ok_or_else(|| found.lacks(api_version, kind))
    }

    /// Returns a resource that serves the kind: in this version or, if that is no longer served, in another version of
    /// its group.
    ///
    /// # Errors
    /// [`Error::NoKind`] if no version of the kind is served, [`Error::Unanswered`] if that is unknown, or discovery
    /// fails.
    pub async fn any_version(&self, api_version: &str, kind: &str) -> Result<Arc<Resource>, Error> {
        match self.resource(api_version, kind).await {
            Err(unserved @ (Error::NoKind { .. } | Error::Unanswered { .. })) => {
                self.table().found.any_version(group_of(api_version), kind).ok_or(unserved)
            }
            found => found,
        }
    }

    /// Returns the result of [`Mapper::any_version`] as of the last discovery. Sends no request.
    pub fn known(&self, api_version: &str, kind: &str) -> Option<Arc<Resource>> {
        let found = &self.table().found;
        find(found, api_version, kind).or_else(|| found.any_version(group_of(api_version), kind))
    }

    /// Returns whether no version of the kind is served, as of the last discovery. Sends no request.
    pub fn is_unserved(&self, group: &str, kind: &str) -> bool {
        let table = self.table();
        let unknown = || table.found.stale.iter().any(|stale| group_of(stale) == group);
        table.read.is_some() && table.found.any_version(group, kind).is_none() && !unknown()
    }

    /// Returns the group versions of API servers that do not answer and none of whose kinds is known, as of the last
    /// discovery. Charts cannot see what they serve. Sends no request.
    pub fn silent(&self) -> Vec<Arc<str>> {
        self.table().found.silent()
    }

    /// Returns the resources that a person may mean with a word: a kind, its plural name, or that with the group, such as
    /// `memcacheds.cache.my.domain`, in any case. Each is in one version. Runs discovery on first use.
    ///
    /// # Errors
    /// Discovery fails.
    pub async fn named(&self, word: &str) -> Result<Vec<Arc<Resource>>, Error> {
        let table = self.table();
        if table.read.is_none() {
            self.refresh_unless_newer(&table).await?;
        }
        let is_meant = |resource: &&Arc<Resource>| {
            [&*resource.kind, &resource.plural, &resource.full_name()]
                .iter()
                .any(|name| name.eq_ignore_ascii_case(word))
        };
        Ok(self.table().found.cleanable.iter().filter(is_meant).cloned().collect())
    }

    /// Returns every `group/version` and `group/version/Kind`, sorted: Helm's `.Capabilities.APIVersions`. Runs
    /// discovery on first use.
    ///
    /// # Errors
    /// Discovery fails.
    pub async fn api_versions(&self) -> Result<Vec<String>, Error> {
        let table = self.table();
        if table.found.resources.is_empty() {
            self.refresh_unless_newer(&table).await?;
        }
        Ok(self.table().found.api_versions.clone())
    }

    /// Returns the last discovery's API versions without a request, and its generation, which callers can use as a
    /// cache key.
    pub fn known_api_versions(&self) -> (usize, Vec<String>) {
        let found = self.table().found.clone();
        (found.generation, found.api_versions.clone())
    }

    /// Returns what [`Mapper::known_api_versions`] and [`Mapper::silent`] return, both of the same discovery.
    pub fn known_to_charts(&self) -> (usize, Vec<String>, Vec<Arc<str>>) {
        let found = self.table().found.clone();
        (found.generation, found.api_versions.clone(), found.silent())
    }

    /// Runs discovery and returns every kind whose objects can be listed and deleted, each in one version.
    pub(crate) async fn cleanable(&self) -> Result<Vec<Arc<Resource>>, Error> {
        self.refresh().await?;
        Ok(self.table().found.cleanable.clone())
    }

    /// Returns when the last discovery ran; `None` before the first one.
    pub fn discovered_at(&self) -> Option<Instant> {
        self.table().read
    }

    /// Returns a number that changes with each discovery whose result differs.
    pub fn generation(&self) -> usize {
        self.table().found.generation
    }

    /// Runs discovery. Concurrent calls share one run.
    ///
    /// # Errors
    /// Discovery fails; the last result stays.
    pub async fn refresh(&self) -> Result<(), Error> {
        let table = self.table();
        self.refresh_unless_newer(&table).await
    }

    /// Runs discovery if the last result is older than this.
    ///
    /// # Errors
    /// Discovery fails; the last result stays.
    pub async fn refresh_if_older(&self, age: Duration) -> Result<(), Error> {
        let table = self.table();
        let is_fresh = table.read.is_some_and(|read| read.elapsed() <= age);
        if is_fresh { Ok(()) } else { self.refresh_unless_newer(&table).await }
    }

    fn table(&self) -> Arc<Table> {
        sync::read(&self.table).clone()
    }

    async fn refresh_unless_newer(&self, table: &Arc<Table>) -> Result<(), Error> {
        let _one = self.refresh.lock().await;
        if !Arc::ptr_eq(table, &self.table()) {
            return Ok(());
        }
        let (read, [core, groups]) = (Some(Instant::now()), table.tags.clone());
        let mut answers = [self.read(ROOTS[0], core).await?, self.read(ROOTS[1], groups).await?];
        let found = match answers.iter().all(|answer| answer.is_unchanged) {
            true => table.found.clone(),
            false => Arc::new(self.find_all(&mut answers, &table.found).await?),
        };
        let table = Table { read, tags: answers.map(|answer| answer.etag), found };
        *sync::write(&self.table) = Arc::new(table);
        Ok(())
    }

    async fn read(&self, root: &str, known: Option<String>) -> Result<Response, Error> {
        self.api.send(Call { accept: Some(DISCOVERY), known, ..Call::get(root) }).await
    }

    /// Reads all served kinds, after one of the responses has changed.
    async fn find_all(&self, answers: &mut [Response; 2], before: &Found) -> Result<Found, Error> {
        let mut found = Found { generation: before.generation + 1, ..Found::default() };
        for (root, answer) in ROOTS.into_iter().zip(answers) {
            if answer.is_unchanged {
                *answer = self.read(root, None).await?;
            }
            found.add(answer.parse()?);
        }
        found.keep_unanswered(before);
        found.api_versions.sort();
        found.api_versions.dedup();
        Ok(found)
    }
}

/// Returns whether an entry of `.Capabilities.APIVersions` is a kind of this group version.
fn is_kind_of(entry: &str, api_version: &str) -> bool {
    entry.strip_prefix(api_version).is_some_and(|rest| rest.starts_with('/'))
}

fn find(found: &Found, api_version: &str, kind: &str) -> Option<Arc<Resource>> {
    found.resources.get(&(Arc::from(api_version), Arc::from(kind))).cloned()
}

impl Found {
    fn any_version(&self, group: &str, kind: &str) -> Option<Arc<Resource>> {
        self.cleanable.iter().find(|other| *other.kind == *kind && other.group() == group).cloned()
    }

    fn silent(&self) -> Vec<Arc<str>> {
        self.stale.iter().filter(|stale| !self.knows_kinds_of(stale)).cloned().collect()
    }

    /// Returns whether charts see a kind of this group version.
    fn knows_kinds_of(&self, api_version: &str) -> bool {
        self.api_versions.iter().any(|known| is_kind_of(known, api_version))
    }

    /// Returns why a kind was not found.
    fn lacks(&self, api_version: &str, kind: &str) -> Error {
        let (api_version, kind) = (api_version.to_owned(), kind.to_owned());
        match self.stale.iter().find(|stale| group_of(stale) == group_of(&api_version)) {
            Some(stale) => {
                let (group, version) = stale.split_once('/').unwrap_or(("", stale));
                Error::Unanswered { service: format!("{version}.{group}"), api_version, kind }
            }
            None => Error::NoKind { api_version, kind },
        }
    }

    fn add(&mut self, groups: Groups) {
        for group in groups.items {
            for version in group.versions {
                let api_version: Arc<str> = match group.metadata.name.as_str() {
                    "" => version.version.as_str().into(),
                    name => format!("{name}/{}", version.version).into(),
                };
                self.api_versions.push(api_version.to_string());
                if version.freshness == "Stale" {
                    self.stale.push(api_version.clone());
                }
                for found in version.resources {
                    self.add_resource(&api_version, found);
                }
            }
        }
    }

    /// Keeps for charts the kinds of API servers that do not answer and whose kinds discovery no longer names. A control
    /// plane that has just started does not know them: a chart that asks for one would drop its objects, and the upgrade
    /// would delete them as soon as the server answers.
    fn keep_unanswered(&mut self, before: &Found) {
        for silent in &self.stale {
            let is_named = self.resources.keys().any(|(api_version, _)| api_version == silent);
            let known = before.api_versions.iter().filter(|known| !is_named && is_kind_of(known, silent));
            self.api_versions.extend(known.cloned());
        }
    }

    fn add_resource(&mut self, api_version: &Arc<str>, found: FoundResource) {
        let Some(kind) = found.response_kind.map(|k| Arc::<str>::from(k.kind)) else { return };
        self.api_versions.push(format!("{api_version}/{kind}"));
        let namespaced = found.scope == "Namespaced";
        let resource = Arc::new(Resource {
            api_version: api_version.clone(),
            kind: kind.clone(),
            plural: found.resource.into(),
            namespaced,
        });
        let can = |verb: &str| found.verbs.iter().any(|v| v == verb);
        let known = |other: &Arc<Resource>| other.group() == resource.group() && other.plural == resource.plural;
        if CLEANABLE.into_iter().all(can) && !self.cleanable.iter().any(known) {
            self.cleanable.push(resource.clone());
        }
        self.resources.entry((api_version.clone(), kind)).or_insert(resource);
    }
}

#[derive(Deserialize)]
struct Groups {
    #[serde(default)]
    items: Vec<Group>,
}

#[derive(Deserialize)]
struct Group {
    #[serde(default)]
    metadata: GroupMetadata,
    #[serde(default)]
    versions: Vec<GroupVersion>,
}

#[derive(Default, Deserialize)]
struct GroupMetadata {
    #[serde(default)]
    name: String,
}

#[derive(Deserialize)]
struct GroupVersion {
    version: String,
    /// `Stale` if the server behind an APIService did not answer: k8s.io/kube-aggregator
    /// `pkg/apiserver/handler_discovery.go`.
    #[serde(default)]
    freshness: String,
    #[serde(default)]
    resources: Vec<FoundResource>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct FoundResource {
    resource: String,
    response_kind: Option<ResponseKind>,
    #[serde(default)]
    scope: String,
    #[serde(default)]
    verbs: Vec<String>,
}

#[derive(Deserialize)]
struct ResponseKind {
    #[serde(default)]
    kind: String,
}

#[cfg(test)]
mod tests {
    use outside::MemoryApi;

    use super::*;

    fn resource(api_version: &str, namespaced: bool) -> Resource {
        Resource { api_version: api_version.into(), kind: "Thing".into(), plural: "things".into(), namespaced }
    }

    fn mapper() -> (Arc<MemoryApi>, Mapper) {
        let server = Arc::new(MemoryApi::default());
        server.serve("v1", "Secret", "secrets");
        server.serve_cluster_scoped("x.y/v1", "Db", "dbs");
        (server.clone(), Mapper::new(server))
    }

    const DISCOVERIES: [&str; 2] = ["GET /api", "GET /apis"];

    #[tokio::test]
    async fn missing_kinds_trigger_a_new_discovery() {
        let (server, mapper) = mapper();
        assert_eq!(mapper.generation(), 0);
        let db = Resource { kind: "Db".into(), plural: "dbs".into(), ..resource("x.y/v1", false) };
        assert_eq!(*mapper.resource("x.y/v1", "Db").await.unwrap(), db);
        let secret = Resource { kind: "Secret".into(), plural: "secrets".into(), ..resource("v1", true) };
        assert_eq!(*mapper.resource("v1", "Secret").await.unwrap(), secret);
        assert_eq!((server.log(), mapper.generation()), (DISCOVERIES.map(str::to_owned).to_vec(), 1));
        let error = mapper.resource("x.y/v1", "Later").await.unwrap_err();
        assert!(
            matches!(&error, Error::NoKind { api_version, kind } if (api_version.as_str(), kind.as_str()) == ("x.y/v1", "Later")),
            "{error}"
        );
        server.serve("x.y/v1", "Later", "laters");
        assert_eq!(&*mapper.resource("x.y/v1", "Later").await.unwrap().plural, "laters");
        assert_eq!(
            (server.log().len(), mapper.generation()),
            (6 + 1, 2),
            "the core group is read again beside the others"
        );
    }

    #[tokio::test]
    async fn kinds_are_found_in_another_version_of_their_group() {
        let (server, mapper) = mapper();
        server.serve_cluster_scoped("x.y/v2", "Db", "dbs");
        server.serve_cluster_scoped("other/v2", "Job", "jobs");
        let found = async |api_version: &str, kind: &str| match mapper.any_version(api_version, kind).await {
            Ok(resource) => resource.api_version.to_string(),
            Err(error) => error.to_string(),
        };
        assert_eq!(found("x.y/v2", "Db").await, "x.y/v2");
        assert_eq!(found("x.y/v1beta1", "Db").await, "x.y/v1");
        assert_eq!(found("x.y/v2", "Job").await, "no matches for kind \"Job\" in version \"x.y/v2\"");
        assert_eq!(found("v2", "Db").await, "no matches for kind \"Db\" in version \"v2\"");
        assert_eq!(found("v2", "Secret").await, "v1");
        server.refuse(|call| (call.path == "/apis").then(|| Error::from_status(503, "ServiceUnavailable", "away")));
        assert!(!matches!(mapper.any_version("x.y/v3", "Db").await, Err(Error::NoKind { .. }) | Ok(_)));
    }

    #[tokio::test]
    async fn a_kind_of_a_server_that_does_not_answer_may_be_served() {
        let (server, mapper) = mapper();
        server.serve_stale("route.my.domain/v1");
        server.serve("route.my.domain/v2", "Known", "knowns");
        let found = async |api_version: &str, kind: &str| match mapper.any_version(api_version, kind).await {
            Ok(resource) => resource.api_version.to_string(),
            Err(error) => error.to_string(),
        };
        let unknown = "cannot find out whether kind \"Route\" in version \"route.my.domain/v1\" is served: the API server behind APIService \"v1.route.my.domain\" does not answer";
        assert!(!mapper.is_unserved("x.y", "Later"), "nothing is known yet");
        assert_eq!(found("route.my.domain/v1", "Route").await, unknown);
        assert!(mapper.resource("route.my.domain/v1", "Route").await.unwrap_err().is_transient());
        assert_eq!(found("route.my.domain/v1", "Known").await, "route.my.domain/v2");
        assert_eq!(found("x.y/v1", "Later").await, "no matches for kind \"Later\" in version \"x.y/v1\"");
        let unserved = |group: &str, kind: &str| mapper.is_unserved(group, kind);
        assert!(unserved("x.y", "Later") && unserved("", "Db"));
        assert!(!unserved("x.y", "Db") && !unserved("route.my.domain", "Route"));
    }

    #[tokio::test]
    async fn charts_see_the_kinds_of_a_server_that_does_not_answer_as_before() {
        let (server, mapper) = mapper();
        server.serve("route.my.domain/v1", "Route", "routes");
        mapper.refresh().await.unwrap();
        server.unserve("route.my.domain/v1", "Route");
        server.serve_stale("route.my.domain/v1");
        for other in ["Later", "Last"] {
            server.serve("x.y/v1", other, &other.to_lowercase());
            mapper.refresh().await.unwrap();
            let known = mapper.known_api_versions().1;
            for kind in ["route.my.domain/v1/Route".to_owned(), format!("x.y/v1/{other}")] {
                assert!(known.contains(&kind), "{known:?}");
            }
            let error = mapper.resource("route.my.domain/v1", "Route").await.unwrap_err();
            assert!(matches!(error, Error::Unanswered { .. }), "{error}");
        }
    }

    #[tokio::test]
    async fn a_server_that_does_not_answer_is_silent_until_one_of_its_kinds_is_known() {
        let (server, mapper) = mapper();
        server.serve_stale("route.my.domain/v1");
        server.serve("route.my.domain/v10", "Route", "routes");
        assert!(mapper.silent().is_empty(), "nothing is known yet");
        mapper.refresh().await.unwrap();
        assert_eq!(mapper.silent(), [Arc::<str>::from("route.my.domain/v1")]);
        let (generation, api_versions) = mapper.known_api_versions();
        assert_eq!(mapper.known_to_charts(), (generation, api_versions, mapper.silent()));
        server.serve("route.my.domain/v1", "Route", "routes");
        mapper.refresh().await.unwrap();
        assert!(mapper.silent().is_empty(), "discovery names one");
        server.unserve("route.my.domain/v1", "Route");
        mapper.refresh().await.unwrap();
        assert!(mapper.silent().is_empty(), "one was known before");
    }

    #[test]
    fn only_a_silent_servers_kinds_that_discovery_does_not_name_are_kept() {
        let found = |versions: serde_json::Value| {
            let mut found = Found::default();
            let group = serde_json::json!({"metadata": {"name": "x.y"}, "versions": versions});
            found.add(serde_json::from_value(serde_json::json!({"items": [group]})).unwrap());
            found
        };
        let kind = |kind: &str| serde_json::json!({"resource": kind, "responseKind": {"kind": kind}});
        let version = |number: &str, of: &str| serde_json::json!({"version": number, "resources": [kind(of)]});
        let before = found(serde_json::json!([version("v1", "A"), version("v10", "B")]));
        for (behaviour, versions, expected) in [
            ("gone", serde_json::json!([{"version": "v2", "resources": []}]), vec!["x.y/v2"]),
            ("answers", serde_json::json!([{"version": "v1", "resources": []}]), vec!["x.y/v1"]),
            ("silent", serde_json::json!([{"version": "v1", "freshness": "Stale"}]), vec!["x.y/v1", "x.y/v1/A"]),
            (
                "silent, but named",
                serde_json::json!([{"version": "v1", "freshness": "Stale", "resources": [kind("C")]}]),
                vec!["x.y/v1", "x.y/v1/C"],
            ),
        ] {
            let mut now = found(versions);
            now.keep_unanswered(&before);
            assert_eq!(now.api_versions, expected, "{behaviour}");
        }
    }

    #[tokio::test]
    async fn api_versions_are_sorted_and_refreshed_only_on_demand() {
        let (server, mapper) = mapper();
        assert_eq!(mapper.known_api_versions(), (0, vec![]));
        let first = ["v1", "v1/Secret", "x.y/v1", "x.y/v1/Db"].map(str::to_owned).to_vec();
        assert_eq!(mapper.api_versions().await.unwrap(), first);
        assert_eq!(mapper.known_api_versions(), (1, first.clone()));
        server.serve("a.b/v2", "Thing", "things");
        assert_eq!(mapper.api_versions().await.unwrap(), first);
        assert_eq!(server.log().len(), 2);
        mapper.refresh().await.unwrap();
        let second = [["a.b/v2", "a.b/v2/Thing"].map(str::to_owned).to_vec(), first].concat();
        assert_eq!(mapper.known_api_versions(), (2, second.clone()));
        assert_eq!(mapper.api_versions().await.unwrap(), second);
        assert_eq!(server.log().len(), 4 + 1);
    }

    #[tokio::test(start_paused = true)]
    async fn an_old_result_is_read_again_and_stays_if_that_fails() {
        let (server, mapper) = mapper();
        let age = Duration::from_secs(5);
        mapper.refresh_if_older(age).await.unwrap();
        server.serve("a.b/v2", "Thing", "things");
        tokio::time::advance(age).await;
        mapper.refresh_if_older(age).await.unwrap();
        assert_eq!((server.log().len(), mapper.generation()), (2, 1));
        tokio::time::advance(Duration::from_secs(1)).await;
        server.refuse(|call| (call.path == "/apis").then(|| Error::from_status(503, "ServiceUnavailable", "away")));
        assert!(mapper.refresh_if_older(age).await.is_err());
        assert_eq!(mapper.known_api_versions().0, 1);
        server.accept();
        mapper.refresh_if_older(age).await.unwrap();
        assert!(mapper.known_api_versions().1.contains(&"a.b/v2/Thing".to_owned()));
    }

    #[tokio::test]
    async fn concurrent_misses_share_one_discovery() {
        let (server, mapper) = mapper();
        let (a, b) = tokio::join!(mapper.resource("v1", "Secret"), mapper.resource("x.y/v1", "Db"));
        assert!(a.is_ok() && b.is_ok());
        let (table, _) = (mapper.table(), mapper.refresh().await);
        mapper.refresh_unless_newer(&table).await.unwrap();
        assert_eq!((server.log().len(), mapper.generation()), (4, 1), "nothing has changed");
    }

    #[test]
    fn the_first_of_several_resources_serves_a_kind() {
        let mut table = Found::default();
        let groups = serde_json::json!({"items": [{"versions": [{"version": "v1", "resources": [
            {"resource": "pods", "scope": "Namespaced", "responseKind": {"kind": "Pod"}},
            {"resource": "others", "scope": "Cluster", "responseKind": {"kind": "Pod"}},
            {"resource": "nothing"},
        ]}]}]});
        table.add(serde_json::from_value(groups).unwrap());
        let pod = find(&table, "v1", "Pod").unwrap();
        assert_eq!((&*pod.plural, pod.namespaced), ("pods", true));
        assert_eq!(table.api_versions, ["v1", "v1/Pod", "v1/Pod"]);
        assert!(find(&table, "v1", "Other").is_none() && find(&table, "v2", "Pod").is_none());
    }

    #[tokio::test]
    async fn each_kind_is_cleanable_in_one_version() {
        let (server, mapper) = mapper();
        server.serve_cluster_scoped("x.y/v2", "Db", "dbs");
        server.serve_cluster_scoped("x.y/v2", "Table", "tables");
        server.serve("z.w/v1", "Db", "dbs");
        let found = mapper.cleanable().await.unwrap();
        let found: Vec<_> = found.iter().map(|r| (&*r.api_version, &*r.plural)).collect();
        assert_eq!(found, [("v1", "secrets"), ("x.y/v1", "dbs"), ("x.y/v2", "tables"), ("z.w/v1", "dbs")]);
    }

    #[test]
    fn only_listable_and_deletable_kinds_are_cleanable() {
        let kind = |kind: &str, verbs: &[&str]| serde_json::json!({"resource": kind, "responseKind": {"kind": kind}, "verbs": verbs});
        let resources = [
            kind("Review", &["create"]),
            kind("Status", &["get", "list"]),
            kind("Binding", &["create", "delete"]),
            kind("Pod", &["get", "list", "delete"]),
        ];
        let mut table = Found::default();
        let groups = serde_json::json!({"items": [{"versions": [{"version": "v1", "resources": resources}]}]});
        table.add(serde_json::from_value(groups).unwrap());
        assert_eq!(table.cleanable.iter().map(|resource| &*resource.kind).collect::<Vec<_>>(), ["Pod"]);
    }
}
