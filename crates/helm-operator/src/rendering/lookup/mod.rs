//! Implements `lookup` of templates with an API server, as Helm's `pkg/engine/lookup_func.go` does.
//!
//! `reach` determines what templates may read, `answer` is the server's response, chunk by chunk, and `repeated`
//! answers repeated lookups of a render.

mod answer;
mod reach;
mod repeated;

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use controller::report::chain;
use futures::{StreamExt as _, stream};
use go_encoding::json;
use go_template::{Map, Value};
use helm::engine::{Lookup, LookupError};
use helm_release::kube::{Applier, Call, Error, Pieces, Resource};
use outside::sync::lock;
use serde::{Deserialize, Serialize};
use tokio::runtime::Handle;
use tokio::time::Instant;

use crate::mask::{Mask, Published};
use crate::rendering::request::RenderError;
use crate::status::reason::Reason;
use crate::values::count_values;
use crate::values_from::RECORD_KEY;

pub(crate) use answer::Answer;
pub(crate) use reach::{LookupReach, Named, ReleaseReach};
pub(crate) use repeated::{Repeated, once};

/// The maximum size, in bytes, of the Secrets and ConfigMaps that one render may read and that are redacted from
/// messages.
const MAX_SEEN: usize = 4 << 20;

/// The maximum number of values in these bytes: each value takes about 100 bytes of memory, however short it is.
const MAX_SEEN_VALUES: usize = 100_000;

/// The maximum number of different lookups in one render.
pub(crate) const MAX_LOOKUPS: usize = 1000;

/// The maximum size of a response, in bytes, for `template` on the command line, whose user may use as much memory as
/// the operator's author.
const MAX_ANSWER: usize = 64 << 20;

/// The maximum time that the API server may take for all lookups of one render. The time limit of the render itself
/// does not include it, because it is not the chart's fault.
const LOOKUP_TIME: Duration = Duration::from_secs(120);

/// Excludes the key of release records ([`RECORD_KEY`]) from a list of Secrets.
const WITHOUT_KEYS: &str = "?fieldSelector=type%21%3Dhelm.sdk.operatorframework.io%2Frecord-key";

/// The reasons why a message is not shown.
const TOO_MUCH: &str = "templates looked up more than 4 MiB of Secrets and ConfigMaps, which the message may quote: look up single ones by name to see it";
const UNREADABLE: &str = "templates looked up a Secret or ConfigMap that cannot be read, which the message may quote";

/// The arguments of `lookup`: an object, or a list if the name is empty.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct Query {
    pub(crate) api_version: String,
    pub(crate) kind: String,
    pub(crate) namespace: String,
    pub(crate) name: String,
}

impl Query {
    pub(crate) fn new(api_version: &str, kind: &str, namespace: &str, name: &str) -> Query {
        let [api_version, kind, namespace, name] = [api_version, kind, namespace, name].map(str::to_owned);
        Query { api_version, kind, namespace, name }
    }

    /// Returns the total length of its strings, in bytes.
    pub(crate) fn size(&self) -> usize {
        [&self.api_version, &self.kind, &self.namespace, &self.name].map(|text| text.len()).iter().sum()
    }
}

/// Executes lookups with the applier's API server.
pub(crate) struct ClusterLookup {
    /// The server and the kinds that it serves.
    applier: Applier,
    runtime: Handle,
    reach: LookupReach,
    /// How much messages may show of the chart.
    published: Arc<Published>,
    /// The maximum size of a response, in bytes.
    most: usize,
    state: Mutex<State>,
    repeated: Mutex<Repeated>,
}

#[derive(Default)]
struct State {
    /// The number of lookups.
    asked: usize,
    /// The total time of the requests.
    waited: Duration,
    seen: Seen,
    /// Why the render may have got incomplete data.
    unknown: Option<Unknown>,
    /// The limit that the render exceeded, with advice.
    limit: Option<String>,
}

/// The reason why the content of a lookup is unknown.
#[derive(Clone, Copy)]
enum Unknown {
    /// The request was not answered.
    Unanswered,
    /// The server denied the read.
    Refused,
}

/// The data that templates read.
#[derive(Default)]
struct Seen {
    bytes: usize,
    mask: Mask,
    /// Why messages are not shown.
    hidden: Option<&'static str>,
}

/// A Secret or ConfigMap, or a list of them, of which only the data is read. Whoever may write one of them may nest its
/// managed fields more deeply than serde_json reads values, and templates read them nevertheless.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct DataOnly {
    items: Option<Vec<DataOnly>>,
    #[serde(default)]
    data: serde_json::Value,
    #[serde(default)]
    string_data: serde_json::Value,
    #[serde(default)]
    binary_data: serde_json::Value,
}

impl Seen {
    fn add(&mut self, json: &[u8]) {
        if self.hidden.is_some() {
            return;
        }
        self.bytes = self.bytes.saturating_add(json.len());
        if self.bytes > MAX_SEEN || count_values(json) > MAX_SEEN_VALUES {
            return self.hide_all(TOO_MUCH);
        }
        match serde_json::from_slice::<DataOnly>(json) {
            Ok(answer) => self.keep(&answer),
            Err(_) => self.hide_all(UNREADABLE),
        }
    }

    fn keep(&mut self, answer: &DataOnly) {
        answer.items.iter().flatten().for_each(|item| self.keep(item));
        for data in [&answer.data, &answer.string_data, &answer.binary_data] {
            self.mask.add_texts(data);
        }
    }

    fn hide_all(&mut self, why: &'static str) {
        (self.hidden, self.mask) = (Some(why), Mask::default());
    }
}

impl ClusterLookup {
    /// Creates a lookup in this server within this reach, which runs requests on this runtime.
    pub(crate) fn new(applier: Applier, runtime: Handle, reach: LookupReach) -> ClusterLookup {
        ClusterLookup {
            applier,
            runtime,
            reach,
            published: Arc::default(),
            most: MAX_ANSWER,
            state: Mutex::default(),
            repeated: Mutex::default(),
        }
    }

    /// Sets the maximum size of a response, in bytes. Default: 64 MiB.
    pub(crate) fn within(self, most: u64) -> ClusterLookup {
        ClusterLookup { most: usize::try_from(most).unwrap_or(MAX_ANSWER).min(MAX_ANSWER), ..self }
    }

    /// Sets what messages may show of the chart. Default: nothing.
    pub(crate) fn publishing(self, published: Arc<Published>) -> ClusterLookup {
        ClusterLookup { published, ..self }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Redacts the data of Secrets and ConfigMaps that templates read from a text.
    pub(crate) async fn hide(&self, text: String) -> String {
        let (hidden, mask) = {
            let state = self.state();
            (state.seen.hidden, state.seen.mask.clone())
        };
        match hidden {
            Some(why) => format!("{}{why}", self.published.place(&text)),
            None => mask.hide_apart(text).await,
        }
    }

    /// Redacts that data from the message of an error.
    pub(crate) async fn redact(&self, error: RenderError) -> RenderError {
        let hidden = self.hide(error.to_string()).await;
        error.map_message(|_| hidden)
    }

    /// Reclassifies a failed render: if a lookup was not answered, the failure says nothing about the chart; if a limit
    /// was exceeded, the message names it.
    pub(crate) fn judge(&self, error: RenderError) -> RenderError {
        let state = self.state();
        match (error, &state.limit, state.unknown) {
            (RenderError::Failed { message, .. }, Some(limit), _) => {
                let message = format!("{}{limit}", self.published.place(&message));
                RenderError::Failed { reason: Reason::RenderLimit.as_str(), message }
            }
            (RenderError::Failed { message, .. }, _, Some(Unknown::Unanswered)) => {
                RenderError::Unanswered { reason: Reason::Unanswered.as_str(), message }
            }
            (RenderError::Failed { message, reason }, _, Some(Unknown::Refused)) => {
                RenderError::Unanswered { reason, message }
            }
            (error, ..) => error,
        }
    }

    /// Records whether a failed request leaves data unknown, and returns the error for templates.
    fn failed(&self, error: &Error) -> LookupError {
        let unknown = match error {
            error if error.is_transient() => Some(Unknown::Unanswered),
            error => error.is_unanswered().then_some(Unknown::Refused),
        };
        let mut state = self.state();
        state.unknown = state.unknown.or(unknown);
        LookupError::new(chain(error))
    }

    /// Records the limit that the render exceeds.
    fn exceeded(&self, limit: String) -> LookupError {
        LookupError::new(self.state().limit.insert(limit).clone())
    }

    /// Waits for the API server, within the time for all lookups of a render.
    async fn in_time<T>(&self, work: impl Future<Output = Result<T, LookupError>>) -> Result<T, LookupError> {
        let began = Instant::now();
        let left = LOOKUP_TIME.saturating_sub(self.state().waited);
        let done = tokio::time::timeout(left, work).await;
        self.state().waited += began.elapsed();
        done.unwrap_or_else(|_| {
            self.state().unknown = Some(Unknown::Unanswered);
            let limit = LOOKUP_TIME.as_secs();
            Err(LookupError::new(format!("the API server took more than {limit} s for the lookups of one render")))
        })
    }
}

impl ClusterLookup {
    /// Requests an object or a list; returns `None` if it does not exist. Every `lookup` of this process starts here,
    /// including those of render workers.
    ///
    /// # Errors
    /// Fails as [`Lookup::lookup`] does, or if there were too many lookups, or if they took more than two minutes.
    pub(crate) async fn open(&self, query: &Query) -> Result<Option<Answer<'_>>, LookupError> {
        self.count()?;
        let found = self.in_time(self.ask(query)).await?;
        Ok(found.map(|(resource, pieces)| Answer::new(self, query, &resource, pieces)))
    }

    fn count(&self) -> Result<(), LookupError> {
        let asked = {
            let mut state = self.state();
            state.asked += 1;
            state.asked
        };
        if asked <= MAX_LOOKUPS {
            return Ok(());
        }
        Err(self.exceeded(format!(
            "the templates look up more than {MAX_LOOKUPS} different objects in one render (limit MAX_LOOKUPS): \
             look up a list once, with an empty name, instead of one object after another"
        )))
    }

    async fn ask(&self, query: &Query) -> Result<Option<(Arc<Resource>, Pieces)>, LookupError> {
        let Query { api_version, kind, namespace, name } = query;
        let mut is_second = false;
        loop {
            let resource = self.applier.mapper.resource(api_version, kind).await;
            let resource = resource.map_err(|e| self.failed(&e))?;
            if let Some(why) = self.reach.refusal(&resource, namespace, name) {
                return Err(LookupError::new(why));
            }
            match self.get(&resource, namespace, name).await {
                // The kind of the last discovery is no longer served there, so whether the object exists is unknown.
                Err(error) if error.is_unserved_path() && !is_second => is_second = true,
                answer => {
                    let pieces = answer.map_err(|e| self.failed(&e))?;
                    return Ok(pieces.map(|pieces| (resource, pieces)));
                }
            }
            self.applier.mapper.refresh().await.map_err(|e| self.failed(&e))?;
        }
    }

    async fn get(&self, resource: &Resource, namespace: &str, name: &str) -> Result<Option<Pieces>, Error> {
        let is_secret = resource.group().is_empty() && &*resource.kind == "Secret";
        let path = match (name, is_secret) {
            ("", true) => resource.collection(namespace)? + WITHOUT_KEYS,
            ("", false) => resource.collection(namespace)?,
            _ => resource.path(namespace, name)?,
        };
        match self.applier.api().stream(Call::get(path)).await {
            Err(error) if error.is_missing_object() => Ok(None),
            pieces if is_secret && !name.is_empty() => unless_key(pieces?).await,
            pieces => pieces.map(Some),
        }
    }
}

/// The lookup for templates. Use it in a thread that may block while other threads drive the runtime.
pub(crate) struct Blocking(pub(crate) Arc<ClusterLookup>);

impl Lookup for Blocking {
    fn lookup(&self, api_version: &str, kind: &str, namespace: &str, name: &str) -> Result<Value, LookupError> {
        let query = Query::new(api_version, kind, namespace, name);
        once(&self.0.repeated, query, |query| {
            let (cluster, query) = (self.0.clone(), query.clone());
            let read = async move {
                match cluster.open(&query).await? {
                    Some(answer) => answer.whole().await.map(Some),
                    None => Ok(None),
                }
            };
            let found = outside::wait(&self.0.runtime, read);
            found.unwrap_or_else(|| Err(LookupError::new("rendering was interrupted")))
        })
    }
}

/// Returns a Secret, unless it is the key of release records: anyone who has the key can create records that this
/// operator accepts as its own.
async fn unless_key(mut pieces: Pieces) -> Result<Option<Pieces>, Error> {
    #[derive(Default, Deserialize)]
    struct Typed {
        #[serde(default, rename = "type")]
        kind: String,
    }
    let mut secret = Vec::new();
    while let Some(piece) = pieces.next().await {
        secret.extend_from_slice(&piece?);
    }
    let typed: Typed = serde_json::from_slice(&secret).unwrap_or_default();
    Ok((typed.kind != RECORD_KEY).then(|| stream::iter([Ok(secret)]).boxed()))
}

/// Decodes a response for templates; without one, returns an empty map.
///
/// # Errors
/// Fails if the response is not JSON.
pub(crate) fn value(json: Option<&[u8]>) -> Result<Value, LookupError> {
    let Some(json) = json else { return Ok(Value::Map(Map::default())) };
    // The error does not quote the response, which may be a Secret.
    let object =
        json::decode_preserving_ints(json).map_err(|_| LookupError::new("cannot read the API server's answer"))?;
    name_items(&object);
    Ok(object)
}

/// Sets the kind of each item of a list, which only the list contains, as the decoder of Kubernetes' client does.
fn name_items(object: &Value) {
    let Value::Map(list) = object else { return };
    let (Some(Value::List(items)), Some(Value::String(kind))) = (list.get("items"), list.get("kind")) else { return };
    let kind = kind.to_text();
    let kind = kind.strip_suffix("List").unwrap_or(&kind);
    for item in items.iter() {
        if let Value::Map(item) = item
            && item.get("kind").is_none()
            && item.get("apiVersion").is_none()
        {
            item.insert("kind", Value::from(kind));
            item.insert("apiVersion", list.get("apiVersion").unwrap_or_default());
        }
    }
}

#[cfg(test)]
mod tests {
    use helm_release::kube::{Disturbance, MemoryApi};
    use serde_json::json;

    use super::*;

    fn lookup_in(api: MemoryApi, kind: &str, name: &str) -> Result<Value, String> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let lookup = ClusterLookup::new(Applier::new(Arc::new(api)), runtime.handle().clone(), LookupReach::Everything);
        Blocking(Arc::new(lookup)).lookup("v1", kind, "ns", name).map_err(|error| error.to_string())
    }

    fn server() -> MemoryApi {
        let api = MemoryApi::new();
        let object = json!({"data": {"x": "1"}, "count": 9007199254740993_i64, "ratio": 0.5});
        api.put("/api/v1/namespaces/ns/configmaps/a", object, "someone");
        api
    }

    #[test]
    fn lookup_finds_an_object_a_list_or_nothing() {
        let get = |kind, name| lookup_in(server(), kind, name).map(|value| json::to_serde(&value));
        assert_eq!(get("ConfigMap", "a").unwrap()["data"]["x"], "1");
        assert_eq!(get("ConfigMap", "").unwrap()["items"].as_array().map(Vec::len), Some(1));
        assert_eq!(get("ConfigMap", "b").unwrap(), json!({}));
        assert!(get("Nothing", "b").unwrap_err().contains("no matches for kind \"Nothing\""));
    }

    #[test]
    fn the_key_of_release_records_is_not_there_for_templates() {
        let secrets = || {
            let api = server();
            for (name, kind) in [("key", RECORD_KEY), ("other", "Opaque")] {
                let object = json!({"metadata": {"name": name}, "type": kind, "data": {"current": "eA=="}, "n": 9007199254740993_i64});
                api.put(&format!("/api/v1/namespaces/ns/secrets/{name}"), object, "someone");
            }
            api
        };
        let get = |name| lookup_in(secrets(), "Secret", name).map(|value| json::to_serde(&value)).unwrap();
        assert_eq!((get("key"), &get("other")["type"]), (json!({}), &json!("Opaque")));
        let listed = get("")["items"].take();
        assert_eq!((listed.as_array().map(Vec::len), &listed[0]["type"]), (Some(1), &json!("Opaque")));
        assert_eq!(listed[0]["n"], json!(9_007_199_254_740_993_i64), "numbers stay as they are");
    }

    #[test]
    fn a_kind_that_has_just_gone_is_not_an_empty_answer() {
        let api = server();
        api.serve("x.y/v1", "Key", "keys");
        api.put("/apis/x.y/v1/namespaces/ns/keys/a", json!({"data": "kept"}), "someone");
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let api = Arc::new(api);
        let applier = Applier::new(api.clone());
        let render =
            || Arc::new(ClusterLookup::new(applier.clone(), runtime.handle().clone(), LookupReach::Everything));
        let look = |lookup: &Arc<ClusterLookup>, name: &str| {
            Blocking(lookup.clone()).lookup("x.y/v1", "Key", "ns", name).map(|value| json::to_serde(&value))
        };
        let get = |name: &str| look(&render(), name);
        assert_eq!(get("a").unwrap()["data"], "kept");
        // The kind is not served for a moment, as when a definition is recreated.
        api.disturb("/keys/a", 1, Disturbance::Unserved);
        assert_eq!(get("a").unwrap()["data"], "kept");
        assert_eq!(get("b"), Ok(json!({})));
        api.disturb("/keys/a", 2, Disturbance::Unserved);
        let lookup = render();
        assert_eq!(look(&lookup, "a").unwrap_err().to_string(), "404 page not found");
        let error = lookup.judge(RenderError::Failed { reason: "RenderError", message: String::new() });
        assert!(matches!(error, RenderError::Unanswered { .. }), "{error:?}");
        api.unserve("x.y/v1", "Key");
        assert!(get("a").unwrap_err().to_string().contains("no matches for kind \"Key\""));
    }

    /// Renders a template with this many lookups of ConfigMaps, and returns the result and how often the server was
    /// asked.
    fn looked_up(names: usize, most: u64) -> (Result<(), String>, RenderError, usize) {
        let api = server();
        api.put("/api/v1/namespaces/ns/configmaps/large", json!({"data": {"x": "x".repeat(5000)}}), "someone");
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let api = Arc::new(api);
        let lookup = ClusterLookup::new(Applier::new(api.clone()), runtime.handle().clone(), LookupReach::Everything);
        let lookup = lookup.within(most).publishing(Arc::new(Published::paths(&["demo/templates/a.yaml"])));
        let lookup = Arc::new(lookup);
        let blocking = Blocking(lookup.clone());
        let found = (0..names).try_for_each(|n| blocking.lookup("v1", "ConfigMap", "ns", &n.to_string()).map(drop));
        let found =
            found.and_then(|()| blocking.lookup("v1", "ConfigMap", "ns", "").map(drop)).map_err(|e| e.to_string());
        let message =
            format!("template: demo/templates/a.yaml:3:5: executing: {}", found.clone().err().unwrap_or_default());
        let judged = lookup.judge(RenderError::Failed { reason: "RenderError", message });
        let asked = api.log().iter().filter(|line| line.contains("/configmaps")).count();
        (found, judged, asked)
    }

    #[test]
    fn lookups_of_one_render_are_limited_and_the_condition_says_what_to_do() {
        let (found, _, asked) = looked_up(MAX_LOOKUPS - 1, 1 << 20);
        assert_eq!((found, asked), (Ok(()), MAX_LOOKUPS));
        let (found, judged, asked) = looked_up(MAX_LOOKUPS + 10, 1 << 20);
        assert!(found.is_err() && asked == MAX_LOOKUPS, "{asked}");
        assert_eq!(judged.reason(), "RenderLimit");
        let expected =
            "template: demo/templates/a.yaml:3:5: the templates look up more than 1000 different objects in one render";
        assert!(
            judged.to_string().starts_with(expected) && judged.to_string().contains("look up a list once"),
            "{judged}"
        );
    }

    #[test]
    fn a_large_answer_is_refused_with_what_to_do() {
        let (found, judged, _) = looked_up(0, 4 << 10);
        assert!(found.is_err());
        assert_eq!(judged.reason(), "RenderLimit");
        let expected = "template: demo/templates/a.yaml:3:5: lookup of ConfigMap in namespace \"ns\" returns more than 4 KiB (limit: an eighth of --render-memory)";
        assert!(judged.to_string().starts_with(expected), "{judged}");
    }

    #[tokio::test]
    async fn a_message_that_may_quote_too_much_says_where_and_what_to_do() {
        let lookup = ClusterLookup::new(Applier::new(Arc::new(server())), Handle::current(), LookupReach::Everything);
        let lookup = lookup.publishing(Arc::new(Published::paths(&["demo/templates/a.yaml"])));
        let large = json!({"data": {"x": "s3cret ".repeat(MAX_SEEN / 7)}}).to_string();
        lookup.state().seen.add(large.as_bytes());
        let shown = lookup.hide("template: demo/templates/a.yaml:3:5: executing at <fail>: s3cret".into()).await;
        assert_eq!(shown, format!("template: demo/templates/a.yaml:3:5: {TOO_MUCH}"));
    }

    /// Templates decode what nests 500 levels deep, and whoever may write one object decides how deep it nests.
    #[tokio::test]
    async fn data_beside_deep_metadata_is_hidden_and_so_is_a_message_that_may_quote_unreadable_data() {
        let lookup = ClusterLookup::new(Applier::new(Arc::new(server())), Handle::current(), LookupReach::Everything);
        let lookup = lookup.publishing(Arc::new(Published::paths(&["demo/templates/a.yaml"])));
        let deep = format!("{}1{}", "{\"a\":".repeat(200), "}".repeat(200));
        let managed = format!(r#"{{"managedFields":[{{"fieldsV1":{deep}}}]}}"#);
        let list = format!(r#"{{"items":[{{"data":{{"x":"s3cret"}}}},{{"metadata":{managed},"data":null}}]}}"#);
        let map = format!(r#"{{"metadata":{managed},"data":{{"x":"0pen"}},"binaryData":{{"y":"cGFzc3cwcmQ="}}}}"#);
        for json in [&list, &map] {
            assert!(value(Some(json.as_bytes())).is_ok());
            lookup.state().seen.add(json.as_bytes());
        }
        let quotes = "template: demo/templates/a.yaml:3:5: executing at <fail>: s3cret 0pen passw0rd";
        let shown = lookup.hide(quotes.into()).await;
        assert_eq!(shown, "template: demo/templates/a.yaml:3:5: executing at <fail>: **** **** ****");
        let unreadable = format!(r#"{{"data":{{"x":{deep}}}}}"#);
        assert!(value(Some(unreadable.as_bytes())).is_ok());
        lookup.state().seen.add(unreadable.as_bytes());
        assert_eq!(lookup.hide(quotes.into()).await, format!("template: demo/templates/a.yaml:3:5: {UNREADABLE}"));
        lookup.state().seen.add(map.as_bytes());
        assert_eq!(lookup.hide(quotes.into()).await, format!("template: demo/templates/a.yaml:3:5: {UNREADABLE}"));
    }

    #[test]
    fn an_impossible_name_finds_nothing_and_a_path_is_an_error() {
        let get = |name| lookup_in(server(), "ConfigMap", name).map(|value| json::to_serde(&value));
        assert_eq!(get("my app"), Ok(json!({})));
        assert_eq!(get("a?b#c"), Ok(json!({})));
        assert_eq!(get("a/b").unwrap_err(), "invalid resource name \"a/b\": [may not contain '/']");
        assert_eq!(get("..").unwrap_err(), "invalid resource name \"..\": [may not be '..']");
    }

    #[test]
    fn integers_are_int64_and_other_numbers_float64() {
        let Value::Map(object) = lookup_in(server(), "ConfigMap", "a").unwrap() else { panic!("no map") };
        let found = |key: &str| format!("{:?}", object.get(key).unwrap());
        assert_eq!(found("count"), format!("{:?}", Value::int64(9_007_199_254_740_993)));
        assert_eq!(found("ratio"), format!("{:?}", Value::Float(0.5)));
    }

    #[test]
    fn items_of_a_list_get_their_kind() {
        let named = |list: &str| {
            let list = json::decode_preserving_ints(list.as_bytes()).unwrap();
            name_items(&list);
            json::to_serde(&list)["items"].take()
        };
        assert_eq!(
            named(r#"{"kind":"SecretList","apiVersion":"v1","items":[{},{"kind":"Pod"},{"apiVersion":"x"}]}"#),
            json!([{"kind": "Secret", "apiVersion": "v1"}, {"kind": "Pod"}, {"apiVersion": "x"}])
        );
        assert_eq!(named(r#"{"apiVersion":"v1","items":[{}]}"#), json!([{}]));
        assert_eq!(named(r#"{"kind":"SecretList","items":null}"#), json!(null));
    }
}
