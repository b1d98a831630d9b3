//! `lookup` of templates over an API server. Counterpart: Helm's `pkg/engine/lookup_func.go`.
//!
//! `reach` says what templates may read, `answer` is what the server says, piece by piece, and `repeated` answers what a render asks again.

mod answer;
mod reach;
mod repeated;

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use controller::report::chain;
use controller::runtime::sync::lock;
use futures::{StreamExt as _, stream};
use go_encoding::json;
use go_template::{Map, Value};
use helm::engine::{Lookup, LookupError};
use helm_release::kube::{Applier, Call, Error, Pieces, Resource};
use serde::{Deserialize, Serialize};
use tokio::runtime::Handle;
use tokio::time::Instant;

use crate::mask::{Mask, Published};
use crate::rendering::request::RenderError;
use crate::status::reason::Reason;
use crate::values::count_values;
use crate::values_from::RECORD_KEY;

pub(crate) use answer::Answer;
pub(crate) use reach::{Named, Reach, Release};
pub(crate) use repeated::{Repeated, once};

/// The most bytes of Secrets and ConfigMaps that one render reads and that messages are searched for.
const MAX_SEEN: usize = 4 << 20;

/// How many values these bytes may hold: each takes about 100 bytes of memory, however short it is.
const MAX_SEEN_VALUES: usize = 100_000;

/// How many different lookups one render may make.
pub(crate) const MAX_LOOKUPS: usize = 1000;

/// The largest answer, in bytes, for who may use as much memory as the operator's author: `template` on the command line.
const MAX_ANSWER: usize = 64 << 20;

/// How long the API server may take, in total, to answer the lookups of one render. The limit of the render itself leaves that time out: it is not the
/// chart's.
const LOOKUP_TIME: Duration = Duration::from_secs(120);

/// Leaves the key of release records ([`RECORD_KEY`]) out of a list of Secrets.
const WITHOUT_KEYS: &str = "?fieldSelector=type%21%3Dhelm.sdk.operatorframework.io%2Frecord-key";

/// Why a message is not shown.
const TOO_MUCH: &str = "templates looked up more than 4 MiB of Secrets and ConfigMaps, which the message may quote: look up single ones by name to see it";

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

    /// How many bytes its texts have.
    pub(crate) fn size(&self) -> usize {
        [&self.api_version, &self.kind, &self.namespace, &self.name].map(|text| text.len()).iter().sum()
    }
}

/// Reads the applier's API server.
pub(crate) struct ClusterLookup {
    /// The server and the kinds that it serves.
    applier: Applier,
    /// Runs the requests.
    runtime: Handle,
    reach: Reach,
    /// What messages may show of the chart.
    published: Arc<Published>,
    /// The largest answer, in bytes.
    most: usize,
    state: Mutex<State>,
    repeated: Mutex<Repeated>,
}

/// What has happened in the render.
#[derive(Default)]
struct State {
    /// How many lookups there were.
    asked: usize,
    /// How long requests have taken.
    waited: Duration,
    seen: Seen,
    /// Why the render knows too little.
    unknown: Option<Unknown>,
    /// The limit that it exceeded, with what to do.
    limit: Option<String>,
}

/// Why something that templates ask for is not known.
#[derive(Clone, Copy)]
enum Unknown {
    /// The request was not answered.
    Unanswered,
    /// The server does not let it be read.
    Refused,
}

/// The data that templates read.
#[derive(Default)]
struct Seen {
    bytes: usize,
    mask: Mask,
}

impl Seen {
    fn add(&mut self, json: &[u8]) {
        self.bytes = self.bytes.saturating_add(json.len());
        if self.bytes > MAX_SEEN || count_values(json) > MAX_SEEN_VALUES {
            (self.bytes, self.mask) = (usize::MAX, Mask::default());
            return;
        }
        let answer: serde_json::Value = serde_json::from_slice(json).unwrap_or_default();
        let items = answer["items"].as_array().map_or(std::slice::from_ref(&answer), Vec::as_slice);
        items.iter().for_each(|object| self.mask.add_data(object));
    }
}

impl ClusterLookup {
    /// Reads this server within this reach, and runs requests on this runtime.
    pub(crate) fn new(applier: Applier, runtime: Handle, reach: Reach) -> ClusterLookup {
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

    /// Sets the largest answer, in bytes. Default: 64 MiB.
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

    /// The text without the data of Secrets and ConfigMaps that templates read.
    pub(crate) async fn hide(&self, text: String) -> String {
        let mask = {
            let state = self.state();
            (state.seen.bytes <= MAX_SEEN).then(|| state.seen.mask.clone())
        };
        match mask {
            Some(mask) => mask.hide_apart(text).await,
            None => format!("{}{TOO_MUCH}", self.published.place(&text)),
        }
    }

    /// The error without that data in its message.
    pub(crate) async fn veil(&self, error: RenderError) -> RenderError {
        let hidden = self.hide(error.to_string()).await;
        error.map_message(|_| hidden)
    }

    /// Judges a failed render: one that asked in vain says nothing about its chart, and a limit explains itself.
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

    /// Notes whether a failed request leaves something unknown, and says to templates why it failed.
    fn failed(&self, error: &Error) -> LookupError {
        let unknown = match error {
            error if error.is_transient() => Some(Unknown::Unanswered),
            error => error.is_unanswered().then_some(Unknown::Refused),
        };
        let mut state = self.state();
        state.unknown = state.unknown.or(unknown);
        LookupError::new(chain(error))
    }

    /// Notes the limit that the render exceeds.
    fn exceeded(&self, limit: String) -> LookupError {
        LookupError::new(self.state().limit.insert(limit).clone())
    }

    /// Waits for the API server, which has so long for all lookups of a render.
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
    /// Asks for an object or a list; `None` if there is none. Every `lookup` of this process begins here, also those of render workers.
    ///
    /// # Errors
    /// As [`Lookup::lookup`]; there were too many lookups, or they took more than two minutes.
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
                // Nothing is served where the last discovery found the kind: whether the object exists is not known.
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

/// Lookups for templates. Call it from a thread that may block while other threads drive the runtime.
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

/// Returns a Secret, unless it is the key of release records: whoever has that writes records that this operator takes for its own.
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

/// What templates see of an answer: an empty map if there is none.
///
/// # Errors
/// The answer is not JSON.
pub(crate) fn value(json: Option<&[u8]>) -> Result<Value, LookupError> {
    let Some(json) = json else { return Ok(Value::Map(Map::default())) };
    // The answer is not quoted: it may be a Secret.
    let object =
        json::decode_preserving_ints(json).map_err(|_| LookupError::new("cannot read the API server's answer"))?;
    name_items(&object);
    Ok(object)
}

/// Gives each item of a list the kind that only the list has, as the decoder of Kubernetes' client does.
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
        let lookup = ClusterLookup::new(Applier::new(Arc::new(api)), runtime.handle().clone(), Reach::Everything);
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
        let render = || Arc::new(ClusterLookup::new(applier.clone(), runtime.handle().clone(), Reach::Everything));
        let look = |lookup: &Arc<ClusterLookup>, name: &str| {
            Blocking(lookup.clone()).lookup("x.y/v1", "Key", "ns", name).map(|value| json::to_serde(&value))
        };
        let get = |name: &str| look(&render(), name);
        assert_eq!(get("a").unwrap()["data"], "kept");
        // For a moment nothing is served there, as while a definition is made anew.
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

    /// What one render gets that looks up so many ConfigMaps, and how often the server is asked.
    fn looked_up(names: usize, most: u64) -> (Result<(), String>, RenderError, usize) {
        let api = server();
        api.put("/api/v1/namespaces/ns/configmaps/large", json!({"data": {"x": "x".repeat(5000)}}), "someone");
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let api = Arc::new(api);
        let lookup = ClusterLookup::new(Applier::new(api.clone()), runtime.handle().clone(), Reach::Everything);
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
        let lookup = ClusterLookup::new(Applier::new(Arc::new(server())), Handle::current(), Reach::Everything);
        let lookup = lookup.publishing(Arc::new(Published::paths(&["demo/templates/a.yaml"])));
        let large = json!({"data": {"x": "s3cret ".repeat(MAX_SEEN / 7)}}).to_string();
        lookup.state().seen.add(large.as_bytes());
        let shown = lookup.hide("template: demo/templates/a.yaml:3:5: executing at <fail>: s3cret".into()).await;
        assert_eq!(shown, format!("template: demo/templates/a.yaml:3:5: {TOO_MUCH}"));
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
