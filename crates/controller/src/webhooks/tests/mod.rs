//! Admission before the API server in memory, and the server of webhooks over HTTP.

mod publishing;

use std::sync::{Mutex, mpsc};
use std::time::Duration;

use axum::body::Body;
use http::{Request as Http, StatusCode};
use http_body_util::BodyExt as _;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Api, CustomResource, ResourceExt as _};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tower::ServiceExt as _;

use super::*;
use crate::metrics::{Format, Metrics};
use crate::runtime::liveness::{Liveness, OVERDUE};
use crate::testing::Server;

#[derive(Clone, Debug, PartialEq, CustomResource, Serialize, Deserialize, JsonSchema)]
#[kube(group = "example.com", version = "v1", kind = "Shop", namespaced)]
struct ShopSpec {
    size: u8,
    #[serde(default)]
    tags: Vec<String>,
}

/// Refuses sizes above those of the namespace's map, shrinking, and the deletion of large shops.
struct Sizes;

impl Validate for Sizes {
    type Resource = Shop;

    fn operations(&self) -> &[Operation] {
        &[Operation::Create, Operation::Update, Operation::Delete]
    }

    async fn validate(&self, admission: &Admission<'_, Shop>) -> Result<Warnings, Rejection> {
        let (request, size) = (&admission.request, admission.object.spec.size);
        match (request.operation, &admission.old) {
            (Operation::Delete, _) if size > 5 => return Err("large shops stay".into()),
            (Operation::Delete, _) => return Ok(Warnings::new()),
            (_, Some(old)) if old.spec.size > size => return Err(Rejection::field("spec.size", "must not shrink")),
            _ => {}
        }
        match size {
            99 => panic!("as the test asks"),
            98 => std::future::pending().await,
            97 => return Err(Rejection::failed(&std::fmt::Error)),
            _ => {}
        }
        let maps: Api<ConfigMap> = Api::namespaced(request.client.clone(), &request.namespace);
        let most = maps.get_opt("limits").await?.and_then(|map| map.data?.get("size")?.parse().ok()).unwrap_or(9);
        match size > most {
            true => Err(Rejection::field("spec.size", format!("must be at most {most}"))),
            false => Ok(vec!["a warning".into()]),
        }
    }
}

/// Adds a tag with the user's name.
struct Tags;

impl Mutate for Tags {
    type Resource = Shop;

    async fn mutate(&self, shop: &mut Shop, request: &Request<'_>) -> Result<Warnings, Rejection> {
        let tag = format!("by-{}", request.user.username.as_deref().unwrap_or_default());
        if !shop.spec.tags.contains(&tag) {
            shop.spec.tags.push(tag);
        }
        Ok(Warnings::new())
    }
}

/// The next version of shops.
mod next {
    use kube::CustomResource;
    use schemars::JsonSchema;
    use serde::{Deserialize, Serialize};

    #[derive(Clone, Debug, CustomResource, Serialize, Deserialize, JsonSchema)]
    #[kube(group = "example.com", version = "v2", kind = "Shop", namespaced)]
    pub(super) struct ShopSpec {
        pub(super) size: u8,
    }
}

/// Where the conversion of a shop of size 96 reports that it has begun, and waits until it may go on.
static GATE: Mutex<Option<(mpsc::Sender<()>, mpsc::Receiver<()>)>> = Mutex::new(None);

impl From<Shop> for next::Shop {
    fn from(old: Shop) -> next::Shop {
        if old.spec.size == 96 {
            let gate = GATE.lock().unwrap();
            let (begins, released) = gate.as_ref().unwrap();
            _ = begins.send(());
            _ = released.recv();
        }
        next::Shop::new("", next::ShopSpec { size: old.spec.size })
    }
}

impl From<next::Shop> for Shop {
    fn from(new: next::Shop) -> Shop {
        Shop::new("", ShopSpec { size: new.spec.size, tags: Vec::new() })
    }
}

fn webhooks() -> Webhooks {
    Webhooks::new().validate(Sizes).mutate(Tags)
}

fn shop(name: &str, size: u8) -> Shop {
    Shop::new(name, ShopSpec { size, tags: vec!["own".into()] })
}

fn api(server: &Server) -> Api<Shop> {
    Api::namespaced(server.client(), "default")
}

fn message<T: std::fmt::Debug>(outcome: kube::Result<T>) -> String {
    match outcome {
        Err(kube::Error::Api(status)) => format!("{} {}", status.code, status.message),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_write_is_changed_then_validated_then_stored() {
    let server = Server::new().with_webhooks(webhooks());
    let shops = api(&server);
    let created = shops.create(&PostParams::default(), &shop("a", 3)).await.unwrap();
    assert_eq!(created.spec.tags, ["own", "by-user"]);
    assert_eq!(server.get::<Shop>("default", "a").unwrap().spec, created.spec);
    let refusal = r#"422 admission webhook "v1.shops.example.com" denied the request: spec.size: "#;
    assert_eq!(
        message(shops.create(&PostParams::default(), &shop("b", 10)).await),
        format!("{refusal}must be at most 9")
    );
    assert!(server.get::<Shop>("default", "b").is_none(), "a rejected object is not stored");
    let limits = json!({"metadata": {"name": "limits"}, "data": {"size": "4"}});
    server.put(&serde_json::from_value::<ConfigMap>(limits).unwrap());
    assert_eq!(
        message(shops.create(&PostParams::default(), &shop("b", 5)).await),
        format!("{refusal}must be at most 4")
    );
    let size = |size: u8| Patch::Merge(json!({"spec": {"size": size}}));
    let patched = shops.patch("a", &PatchParams::default(), &size(2)).await;
    assert_eq!(message(patched), format!("{refusal}must not shrink"));
    let patched = shops.patch("a", &PatchParams::default(), &size(4)).await.unwrap();
    assert_eq!((patched.spec.size, patched.uid()), (4, created.uid()));
    server.put(&shop("large", 8));
    assert!(message(shops.delete("large", &DeleteParams::default()).await).starts_with("403 "));
    shops.delete("a", &DeleteParams::default()).await.unwrap();
    assert!(server.get::<Shop>("default", "a").is_none());
}

#[tokio::test]
async fn an_object_that_is_going_is_let_go_whatever_its_spec() {
    let going = |spec: Value, finalizers: &[&str]| {
        let metadata = json!({"name": "a", "deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": finalizers});
        json!({"apiVersion": "example.com/v1", "kind": "Shop", "metadata": metadata, "spec": spec})
    };
    let ask = |object: Value, old: Value| async move {
        let (code, answer) = post("/validate/example.com/v1/shops", &review("UPDATE", object, old)).await;
        (code, answer["response"]["allowed"].clone())
    };
    let ok = (StatusCode::OK, json!(true));
    assert_eq!(ask(going(json!({"size": "x"}), &[]), going(json!({"size": "x"}), &["f"])).await, ok);
    assert_eq!(
        ask(going(json!({"size": 10}), &[]), going(json!({"size": 3}), &["f"])).await.1,
        json!(false),
        "a changed spec"
    );
    let mut mended = going(json!({"size": 3}), &[]);
    mended["metadata"]["deletionTimestamp"] = Value::Null;
    assert_eq!(ask(mended, going(json!({"size": "x"}), &["f"])).await, ok, "what is wrong can be mended");
}

fn review(operation: &str, object: Value, old: Value) -> Vec<u8> {
    let kind = json!({"group": "example.com", "version": "v1", "kind": "Shop"});
    let user = json!({"username": "ada"});
    let request = json!({"uid": "u", "kind": kind, "operation": operation, "name": "a", "namespace": "default", "userInfo": user, "object": object, "oldObject": old});
    json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}).to_string().into_bytes()
}

fn object(spec: Value) -> Value {
    json!({"apiVersion": "example.com/v1", "kind": "Shop", "metadata": {"name": "a"}, "spec": spec})
}

fn routes(webhooks: Webhooks, metrics: Metrics) -> axum::Router {
    serve::router(webhooks, Server::new().client(), metrics, Liveness::default())
}

async fn send(request: Http<Body>) -> (StatusCode, String) {
    let response = routes(webhooks(), Metrics::default()).oneshot(request).await.unwrap();
    let code = response.status();
    (code, String::from_utf8(response.into_body().collect().await.unwrap().to_bytes().to_vec()).unwrap())
}

async fn post(path: &str, body: &[u8]) -> (StatusCode, Value) {
    let (code, text) = send(Http::post(path).body(Body::from(body.to_vec())).unwrap()).await;
    (code, serde_json::from_str(&text).unwrap_or(Value::String(text)))
}

#[tokio::test]
async fn a_patch_has_nothing_but_what_differs() {
    let asked = object(json!({"size": 3, "unknown": {"deep": [1, null]}}));
    let (code, answer) = post("/mutate/example.com/v1/shops", &review("CREATE", asked.clone(), Value::Null)).await;
    assert_eq!(
        (code, &answer["response"]["uid"], &answer["response"]["patchType"]),
        (StatusCode::OK, &json!("u"), &json!("JSONPatch"))
    );
    let patch: k8s_openapi::ByteString = serde_json::from_value(answer["response"]["patch"].clone()).unwrap();
    let patch: Value = serde_json::from_slice(&patch.0).unwrap();
    assert_eq!(patch, json!([{"op": "add", "path": "/spec/tags", "value": ["by-ada"]}]));
    let done = object(json!({"size": 3, "tags": ["by-ada"]}));
    let (_, answer) = post("/mutate/example.com/v1/shops", &review("CREATE", done, Value::Null)).await;
    assert_eq!(answer["response"], json!({"uid": "u", "allowed": true}), "nothing differs");
}

#[tokio::test]
async fn an_undecodable_object_is_refused_with_the_field_named() {
    for path in ["/validate/example.com/v1/shops", "/mutate/example.com/v1/shops"] {
        let (code, answer) = post(path, &review("CREATE", object(json!({"size": 300})), Value::Null)).await;
        let response = &answer["response"];
        assert_eq!(
            (code, &response["allowed"], &response["status"]["code"]),
            (StatusCode::OK, &json!(false), &json!(422))
        );
        let message = "spec.size: invalid value: integer `300`, expected u8";
        assert_eq!(response["status"]["message"], message);
        assert_eq!(response["status"]["details"]["causes"][0]["field"], "spec.size");
    }
}

#[tokio::test(start_paused = true)]
async fn a_panic_a_failure_and_a_hang_end_one_request() {
    let validate = |size: u8| async move {
        post("/validate/example.com/v1/shops", &review("CREATE", object(json!({"size": size})), Value::Null)).await
    };
    assert_eq!(validate(99).await, (StatusCode::INTERNAL_SERVER_ERROR, "the webhook panicked".into()));
    assert_eq!(validate(97).await.0, StatusCode::INTERNAL_SERVER_ERROR);
    let began = tokio::time::Instant::now();
    assert_eq!(validate(98).await, (StatusCode::INTERNAL_SERVER_ERROR, "the webhook did not answer within 8 s".into()));
    assert_eq!(began.elapsed().as_secs(), 8, "before the API server gives up");
    assert_eq!(validate(3).await.1["response"]["warnings"], json!(["a warning"]));
}

/// A blocked thread cannot end its admission in time. Here, that is because nothing polls the request.
#[tokio::test(start_paused = true)]
async fn an_admission_that_keeps_its_thread_makes_the_process_restart() {
    let liveness = Liveness::default();
    let router = serve::router(webhooks(), Server::new().client(), Metrics::default(), liveness.clone());
    let body = Body::from(review("CREATE", object(json!({"size": 98})), Value::Null));
    let mut asked = Box::pin(router.oneshot(Http::post("/validate/example.com/v1/shops").body(body).unwrap()));
    assert!(futures::FutureExt::now_or_never(&mut asked).is_none());
    tokio::time::sleep(OVERDUE).await;
    assert_eq!(liveness.failure(), None, "it may still end");
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert!(liveness.failure().is_some(), "only a restart helps");
    assert_eq!(asked.await.unwrap().status(), StatusCode::INTERNAL_SERVER_ERROR);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(liveness.failure(), None, "it has ended");
}

#[tokio::test(start_paused = true)]
async fn whatever_else_is_sent_is_refused_within_limits() {
    let path = "/validate/example.com/v1/shops";
    let refused = |body: Vec<u8>| async move { post(path, &body).await.0 };
    assert_eq!(refused(Vec::new()).await, StatusCode::BAD_REQUEST);
    assert_eq!(refused(b"{\"request\": {}}".to_vec()).await, StatusCode::BAD_REQUEST);
    assert_eq!(refused("[".repeat(100_000).into_bytes()).await, StatusCode::BAD_REQUEST, "deep JSON");
    let deep = format!("{{\"request\": {{\"object\": {}{}}}}}", "[".repeat(100_000), "]".repeat(100_000));
    assert_eq!(refused(deep.into_bytes()).await, StatusCode::BAD_REQUEST);
    assert_eq!(refused(vec![b' '; 8 << 20]).await, StatusCode::PAYLOAD_TOO_LARGE);
    let values = format!("[{}0]", r#"{"":0},"#.repeat(100_000));
    let hostile = review("CREATE", object(json!({"size": 3, "x": "__x__"})), Value::Null);
    let hostile = String::from_utf8(hostile).unwrap().replace("\"__x__\"", &values);
    assert!(hostile.len() < 1 << 20);
    assert_eq!(refused(hostile.into_bytes()).await, StatusCode::PAYLOAD_TOO_LARGE, "it would take 64 MB");
    let other = String::from_utf8(review("CREATE", object(json!({"size": 3})), Value::Null)).unwrap();
    let other = other.replace(r#""kind":"Shop","version":"v1""#, r#""kind":"Secret","version":"v1""#);
    let (code, why) = post(path, other.as_bytes()).await;
    assert_eq!(code, StatusCode::BAD_REQUEST, "{why}");
    assert!(why.as_str().unwrap().contains("Secret"), "{why}");
    assert_eq!(post("/validate/example.com/v1/others", b"").await.0, StatusCode::NOT_FOUND);
    assert_eq!(post("/convert/example.com/shops", b"").await.0, StatusCode::NOT_FOUND);
    assert_eq!(send(Http::get(path).body(Body::empty()).unwrap()).await.0, StatusCode::METHOD_NOT_ALLOWED);
    let slow = Body::from_stream(futures::stream::pending::<Result<Vec<u8>, std::io::Error>>());
    assert_eq!(send(Http::post(path).body(slow).unwrap()).await.0, StatusCode::INTERNAL_SERVER_ERROR);
}

/// The review of an update has two states of the object.
#[tokio::test]
async fn an_object_that_is_admitted_can_be_updated_later() {
    let of = |items: usize| {
        let mut shop = object(json!({"size": 3, "unknown": vec![json!({"": 0}); items]}));
        shop["metadata"]["finalizers"] = json!(["f"]);
        shop
    };
    let ask = |operation: &'static str, object: Value, old: Value| async move {
        post("/validate/example.com/v1/shops", &review(operation, object, old)).await
    };
    let (largest, mut free) = (of(23_000), of(23_000));
    free["metadata"]["finalizers"] = Value::Null;
    assert_eq!(ask("CREATE", largest.clone(), Value::Null).await.0, StatusCode::OK);
    assert_eq!(ask("UPDATE", free, largest).await.0, StatusCode::OK, "its finalizer goes");
    let refused = (StatusCode::PAYLOAD_TOO_LARGE, json!("the object is too large to be updated later"));
    assert_eq!(ask("CREATE", of(24_000), Value::Null).await, refused);
    assert_eq!(ask("UPDATE", of(24_000), of(1)).await, refused);
    assert_eq!(ask("UPDATE", of(1), of(24_000)).await.0, StatusCode::OK, "it is shortened");
    assert_eq!(ask("DELETE", Value::Null, of(30_000)).await.0, StatusCode::OK, "it is deleted");
}

#[tokio::test]
async fn all_bodies_together_have_a_limit_and_give_it_back() {
    let metrics = Metrics::default();
    let router = routes(webhooks(), metrics.clone());
    let body = || {
        let first = futures::stream::once(async { Ok::<_, std::io::Error>(vec![b' '; 7 << 20]) });
        Body::from_stream(futures::StreamExt::chain(first, futures::stream::pending()))
    };
    let path = "/validate/example.com/v1/shops";
    let held: Vec<_> = (0..9)
        .map(|_| {
            let mut waiting = Box::pin(router.clone().oneshot(Http::post(path).body(body()).unwrap()));
            assert!(futures::FutureExt::now_or_never(&mut waiting).is_none());
            waiting
        })
        .collect();
    let padded = || [review("CREATE", object(json!({"size": 3})), Value::Null), vec![b' '; 2 << 20]].concat();
    let ask = || router.clone().oneshot(Http::post(path).body(Body::from(padded())).unwrap());
    assert_eq!(ask().await.unwrap().status(), StatusCode::SERVICE_UNAVAILABLE);
    drop(held);
    assert_eq!(ask().await.unwrap().status(), StatusCode::OK);
    let text = metrics.encode(Format::Classic);
    for code in [200, 503] {
        let count = format!("controller_runtime_webhook_requests_total{{code=\"{code}\",webhook=\"{path}\"}} 1");
        assert!(text.contains(&count), "{count} in {text}");
    }
}

/// Returns the API server's request to convert shops of these sizes, with this much space at its end.
fn conversion(sizes: &[u8], space: usize) -> Http<Body> {
    let objects: Vec<Value> = sizes.iter().map(|size| object(json!({"size": size}))).collect();
    let request = json!({"uid": "u", "desiredAPIVersion": "example.com/v2", "objects": objects});
    let body = [json!({"request": request}).to_string().into_bytes(), vec![b' '; space]].concat();
    Http::post("/convert/example.com/shops").body(Body::from(body)).unwrap()
}

#[test]
fn a_conversion_that_outlives_its_limit_keeps_its_share_and_ends_before_its_next_object() {
    let paused = || tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    // Dropped after the channels, because it waits for the thread of the conversion.
    let first = paused();
    let (begins, begun) = mpsc::channel();
    let (release, released) = mpsc::channel();
    *GATE.lock().unwrap() = Some((begins, released));
    let liveness = Liveness::default();
    let router = first.block_on(async {
        let hooks = webhooks().convert::<Shop, next::Shop>();
        let router = serve::router(hooks, Server::new().client(), Metrics::default(), liveness.clone());
        let mut asked = Box::pin(router.clone().oneshot(conversion(&[96, 96], 23 << 20)));
        assert!(futures::FutureExt::now_or_never(&mut asked).is_none());
        begun.recv_timeout(Duration::from_secs(60)).unwrap();
        // Time does not advance by itself while a thread works.
        tokio::time::advance(Duration::from_secs(26)).await;
        assert_eq!(asked.await.unwrap().status(), StatusCode::INTERNAL_SERVER_ERROR);
        let other = router.clone().oneshot(conversion(&[3], 3 << 20)).await.unwrap();
        assert_eq!(other.status(), StatusCode::SERVICE_UNAVAILABLE, "the thread has the memory");
        let review = review("CREATE", object(json!({"size": 3})), Value::Null);
        let admission = Http::post("/validate/example.com/v1/shops").body(Body::from(review)).unwrap();
        let admitted = router.clone().oneshot(admission).await.unwrap();
        assert_eq!(admitted.status(), StatusCode::OK, "conversions leave a part to admissions");
        assert_eq!(liveness.failure(), None, "it may still end");
        tokio::time::advance(OVERDUE).await;
        assert!(liveness.failure().is_some(), "only a restart helps");
        router
    });
    release.send(()).unwrap();
    // A second object would otherwise wait for ever, and so would the drop of the runtime.
    drop(release);
    drop(first);
    assert!(begun.try_recv().is_err(), "the second object was converted");
    assert_eq!(liveness.failure(), None, "it has ended");
    let other = paused().block_on(router.oneshot(conversion(&[3], 3 << 20))).unwrap();
    assert_eq!(other.status(), StatusCode::OK);
}
