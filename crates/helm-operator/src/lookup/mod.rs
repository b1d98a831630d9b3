//! `lookup` of templates over an API server. Counterpart: Helm's `pkg/engine/lookup_func.go`.

mod reach;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use go_encoding::json;
use go_template::{Map, Value};
use helm::engine::{Lookup, LookupError};
use helm_release::kube::{Applier, Call, Error, Resource, Response};
use helm_release::outside;
use tokio::runtime::Handle;
use tokio::time::Instant;

use crate::mask::Mask;
use crate::reconciler::{RenderError, UNANSWERED, lock};
use crate::report::chain;

pub(crate) use reach::{Named, Reach, Release, ServedKinds};

/// The most bytes of Secrets and ConfigMaps that one render reads and that messages are searched for.
const MAX_SEEN: usize = 4 << 20;

/// How long the API server may take, in total, to answer the lookups of one render. The limit of the render itself leaves that time out: it is not the
/// chart's.
const LOOKUP_TIME: Duration = Duration::from_secs(120);

/// What replaces a message that may quote any of too many bytes.
const TOO_MUCH: &str =
    "the message is hidden: templates looked up more than 4 MiB of Secrets and ConfigMaps, and it may quote them";

/// Reads the applier's API server.
pub(crate) struct ClusterLookup {
    /// The server and the kinds that it serves.
    applier: Applier,
    /// Runs the requests.
    runtime: Handle,
    reach: Reach,
    seen: Mutex<Seen>,
    /// Why the render knows too little.
    unknown: Mutex<Option<Unknown>>,
    /// How long requests have taken.
    waited: Mutex<Duration>,
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

impl ClusterLookup {
    /// Reads this server within this reach, and runs requests on this runtime.
    pub(crate) fn new(applier: Applier, runtime: Handle, reach: Reach) -> ClusterLookup {
        ClusterLookup {
            applier,
            runtime,
            reach,
            seen: Mutex::default(),
            unknown: Mutex::default(),
            waited: Mutex::default(),
        }
    }

    /// The text without the data of Secrets and ConfigMaps that templates read.
    pub(crate) fn hide(&self, text: String) -> String {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.bytes > MAX_SEEN { TOO_MUCH.to_owned() } else { seen.mask.hide(text) }
    }

    /// Judges a failed render: one that asked in vain says nothing about its chart.
    pub(crate) fn judge(&self, error: RenderError) -> RenderError {
        match (error, *lock(&self.unknown)) {
            (RenderError::Failed { message, .. }, Some(Unknown::Unanswered)) => {
                RenderError::Unanswered { reason: UNANSWERED, message }
            }
            (RenderError::Failed { message, reason }, Some(Unknown::Refused)) => {
                RenderError::Unanswered { reason, message }
            }
            (error, _) => error,
        }
    }

    /// Notes whether a failed request leaves something unknown, and says to templates why it failed.
    fn failed(&self, error: &Error) -> LookupError {
        let unknown = match error {
            error if error.is_transient() => Some(Unknown::Unanswered),
            error => error.is_unanswered().then_some(Unknown::Refused),
        };
        let mut known = lock(&self.unknown);
        *known = known.or(unknown);
        LookupError::new(chain(error))
    }

    fn see(&self, resource: &Resource, json: &[u8]) {
        if !resource.group().is_empty() || !matches!(&*resource.kind, "Secret" | "ConfigMap") {
            return;
        }
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.bytes += json.len();
        if seen.bytes > MAX_SEEN {
            seen.mask = Mask::default();
            return;
        }
        let answer: serde_json::Value = serde_json::from_slice(json).unwrap_or_default();
        let items = answer["items"].as_array().map_or(std::slice::from_ref(&answer), Vec::as_slice);
        items.iter().for_each(|object| seen.mask.add_data(object));
    }
}

impl ClusterLookup {
    /// Reads an object, or a list if `name` is empty: the server's JSON, or `None` if there is none. Every `lookup` of this process ends here, also
    /// those of render workers.
    ///
    /// # Errors
    /// As [`Lookup::lookup`]; or the requests of this render took more than two minutes.
    pub(crate) async fn read(
        &self,
        api_version: &str,
        kind: &str,
        namespace: &str,
        name: &str,
    ) -> Result<Option<Vec<u8>>, LookupError> {
        let began = Instant::now();
        let left = LOOKUP_TIME.saturating_sub(*lock(&self.waited));
        let found = tokio::time::timeout(left, self.ask(api_version, kind, namespace, name)).await;
        *lock(&self.waited) += began.elapsed();
        found.unwrap_or_else(|_| {
            *lock(&self.unknown) = Some(Unknown::Unanswered);
            let limit = LOOKUP_TIME.as_secs();
            Err(LookupError::new(format!("the API server took more than {limit} s for the lookups of one render")))
        })
    }

    async fn ask(
        &self,
        api_version: &str,
        kind: &str,
        namespace: &str,
        name: &str,
    ) -> Result<Option<Vec<u8>>, LookupError> {
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
                answer => return answer.map_err(|e| self.failed(&e)),
            }
            self.applier.mapper.refresh().await.map_err(|e| self.failed(&e))?;
        }
    }

    async fn get(&self, resource: &Resource, namespace: &str, name: &str) -> Result<Option<Vec<u8>>, Error> {
        let path = if name.is_empty() { resource.collection(namespace) } else { resource.path(namespace, name) };
        match self.applier.api().send(Call::get(path?)).await {
            Err(error) if error.is_missing_object() => Ok(None),
            answer => answer.map(|Response { body, .. }| {
                self.see(resource, &body);
                Some(body)
            }),
        }
    }
}

/// Lookups for templates. Call it from a thread that may block while other threads drive the runtime.
pub(crate) struct Blocking(pub(crate) Arc<ClusterLookup>);

impl Lookup for Blocking {
    fn lookup(&self, api_version: &str, kind: &str, namespace: &str, name: &str) -> Result<Value, LookupError> {
        let asked = [api_version, kind, namespace, name].map(str::to_owned);
        let cluster = self.0.clone();
        let read = async move {
            let [api_version, kind, namespace, name] = &asked;
            cluster.read(api_version, kind, namespace, name).await
        };
        let found = outside::wait(&self.0.runtime, read);
        value(found.unwrap_or_else(|| Err(LookupError::new("rendering was interrupted")))?.as_deref())
    }
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
    fn a_kind_that_has_just_gone_is_not_an_empty_answer() {
        let api = server();
        api.serve("x.y/v1", "Key", "keys");
        api.put("/apis/x.y/v1/namespaces/ns/keys/a", json!({"data": "kept"}), "someone");
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let api = Arc::new(api);
        let cluster = Applier::new(api.clone());
        let lookup = Arc::new(ClusterLookup::new(cluster, runtime.handle().clone(), Reach::Everything));
        let get = |name: &str| {
            Blocking(lookup.clone()).lookup("x.y/v1", "Key", "ns", name).map(|value| json::to_serde(&value))
        };
        assert_eq!(get("a").unwrap()["data"], "kept");
        // For a moment nothing is served there, as while a definition is made anew.
        api.disturb("/keys/a", 1, Disturbance::Unserved);
        assert_eq!(get("a").unwrap()["data"], "kept");
        assert_eq!(get("b"), Ok(json!({})));
        api.disturb("/keys/a", 2, Disturbance::Unserved);
        assert_eq!(get("a").unwrap_err().to_string(), "404 page not found");
        let error = lookup.judge(RenderError::Failed { reason: "RenderError", message: String::new() });
        assert!(matches!(error, RenderError::Unanswered { .. }), "{error:?}");
        api.unserve("x.y/v1", "Key");
        assert!(get("a").unwrap_err().to_string().contains("no matches for kind \"Key\""));
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
