//! Leaders that keep the API server's configuration current, each with the others' changes in its watches.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use http::Method;
use k8s_openapi::api::apps::v1::{ControllerRevision, DaemonSet, Deployment, ReplicaSet, StatefulSet};
use outside::{Error, MemoryApi};
use serde_json::{Value, json};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::context::Context;
use crate::reconciler::Controller as _;
use crate::runtime::readiness::Readiness;

const SECRET: &str = "/api/v1/namespaces/x/secrets/hook-certificate";

fn path(kind: &str) -> String {
    format!("/apis/admissionregistration.k8s.io/v1/{kind}webhookconfigurations/hook")
}

/// Returns a server with the configurations that an installation brings.
fn cluster() -> Arc<MemoryApi> {
    let server = Arc::new(MemoryApi::new());
    for (kind, plural) in [("Validating", "validating"), ("Mutating", "mutating")] {
        let (kind, version) = (format!("{kind}WebhookConfiguration"), "admissionregistration.k8s.io/v1");
        server.serve_cluster_scoped(version, &kind, &format!("{plural}webhookconfigurations"));
        let object = json!({"apiVersion": version, "kind": kind, "metadata": {"name": "hook"}});
        server.put(&self::path(plural), object, "installer");
    }
    server
}

/// Serves webhooks from a namespace, as a leader does.
fn lead(server: &Arc<MemoryApi>, namespace: &str) {
    lead_with(server, namespace, webhooks());
}

fn lead_with(server: &Arc<MemoryApi>, namespace: &str, webhooks: Webhooks) {
    let place = Endpoint { name: "hook".into(), namespace: Some(namespace.into()), url: None };
    lead_at(server, place, Replicas::Several, webhooks);
}

/// Serves webhooks at this place. Returns what stops the leader.
fn lead_at(server: &Arc<MemoryApi>, place: Endpoint, replicas: Replicas, webhooks: Webhooks) -> CancellationToken {
    let certificates = Certificates::new(&Settings::default(), place);
    let needs = NeedsCertificate(Readiness::default().require("certificate", "none"));
    tokio::spawn(certificates.clone().run(watched::client(server), webhooks.clone(), Default::default(), needs));
    lead_trusting(server, certificates, replicas, webhooks)
}

/// Publishes what is to be trusted. Returns what stops the leader.
fn lead_trusting(
    server: &Arc<MemoryApi>,
    certificates: Certificates,
    replicas: Replicas,
    webhooks: Webhooks,
) -> CancellationToken {
    let shutdown = CancellationToken::new();
    let client = watched::client(server);
    let context = Context::new(client, Default::default(), Default::default(), shutdown.clone());
    let publisher = Box::new(Publisher { webhooks, certificates, replicas });
    tokio::spawn(publisher.run(context.for_controller("webhooks")));
    shutdown
}

#[tokio::test(start_paused = true)]
async fn a_rotation_leaves_alone_what_others_keep_in_the_secret() {
    let server = cluster();
    server.make_immutable("secrets", "/type");
    lead(&server, "x");
    sleep(Duration::from_secs(5)).await;
    let mut first = server.object(SECRET).unwrap();
    server.remove(SECRET);
    first["type"] = "Opaque".into();
    first["data"]["note"] = "Q0E=".into();
    let metadata =
        json!({"labels": {"team": "a"}, "annotations": {"rotate": "now", "note": "a"}, "finalizers": ["a/b"]});
    for field in ["labels", "annotations", "finalizers"] {
        first["metadata"][field] = metadata[field].clone();
    }
    server.put(SECRET, first.clone(), "user");
    sleep(Duration::from_secs(60)).await;
    let rotated = server.object(SECRET).unwrap();
    assert_ne!(rotated["data"]["tls.crt"], first["data"]["tls.crt"]);
    assert_eq!((&rotated["data"]["next.json"], &rotated["data"]["note"]), (&Value::Null, &json!("Q0E=")));
    assert_eq!(rotated["type"], "Opaque");
    assert_eq!(rotated["metadata"]["labels"], metadata["labels"]);
    assert_eq!(rotated["metadata"]["finalizers"], metadata["finalizers"]);
    assert_eq!(rotated["metadata"]["annotations"], json!({"note": "a"}), "the request is done");
}

#[tokio::test(start_paused = true)]
async fn two_operators_with_one_configuration_make_way_and_name_each_other() {
    let server = cluster();
    lead(&server, "x");
    lead(&server, "y");
    sleep(Duration::from_secs(60)).await;
    let is_patch = |line: &&String| line.starts_with("PATCH") && line.contains("webhookconfigurations");
    let patches = server.log().iter().filter(is_patch).count();
    assert!((4..=12).contains(&patches), "{patches} writes");
    let events = crate::testing::events(&server, |_| true);
    for other in ["x", "y"] {
        let expected = format!(
            "Warning WebhookConfigurationDisputed: Service {other}/hook also keeps ValidatingWebhookConfiguration hook: \
             set another --webhook-name for one of them"
        );
        let count = events.iter().filter(|event| **event == expected).count();
        assert_eq!(count, 1, "{expected} in {events:#?}");
    }
    sleep(Duration::from_secs(3600)).await;
    let more = server.log().iter().filter(is_patch).count() - patches;
    assert!((10..=60).contains(&more), "{more} writes in an hour");
}

#[tokio::test(start_paused = true)]
async fn what_a_user_changes_is_repaired_at_once_and_ever_more_slowly_after_that() {
    let server = cluster();
    lead(&server, "x");
    sleep(Duration::from_secs(600)).await;
    let path = path("validating");
    let mended = server.object(&path).unwrap();
    let mut changed = mended.clone();
    changed["webhooks"][0]["timeoutSeconds"] = 30.into();
    for pause in [0, 500, 1_000, 2_000, 4_000] {
        server.put(&path, changed.clone(), "user");
        sleep(Duration::from_millis(pause + 10)).await;
        assert_eq!(server.object(&path).unwrap()["webhooks"], mended["webhooks"], "{pause} ms");
    }
}

#[tokio::test(start_paused = true)]
async fn a_certificate_waits_anew_whenever_its_bundle_was_replaced() {
    let server = cluster();
    lead(&server, "x");
    sleep(Duration::from_secs(600)).await;
    let served = |server: &MemoryApi| server.object(SECRET).unwrap()["data"]["tls.crt"].clone();
    let first = served(&server);
    let mut secret = server.object(SECRET).unwrap();
    secret["metadata"]["annotations"] = json!({"rotate": "now"});
    server.put(SECRET, secret, "user");
    sleep(Duration::from_secs(20)).await;
    let mut foreign = server.object(&path("validating")).unwrap();
    foreign["webhooks"][0]["clientConfig"]["caBundle"] = "Q0E=".into();
    server.put(&path("validating"), foreign, "user");
    sleep(Duration::from_secs(25)).await;
    assert_eq!(served(&server), first, "the API server has had the bundle for less than 30 s");
    sleep(Duration::from_secs(10)).await;
    assert_ne!(served(&server), first);
}

fn certificate_of_user() -> certificate::Certificate {
    certificate::Certificate::make(&["localhost".into()], outside::now()).unwrap()
}

fn authority() -> String {
    certificate_of_user().authority
}

/// Serves webhooks with a user's files, as a leader that trusts this bundle. Returns what stops it.
fn lead_with_files(server: &Arc<MemoryApi>, own: &str) -> (Certificates, CancellationToken) {
    let settings = Settings { certificate_dir: Some("unread".into()), ..Settings::default() };
    let place = Endpoint { name: "hook".into(), namespace: Some("x".into()), url: None };
    let certificates = Certificates::new(&settings, place);
    certificates.trusted.send_replace(Some(own.to_owned()));
    let stop = lead_trusting(server, certificates.clone(), Replicas::Several, webhooks());
    (certificates, stop)
}

/// Checks that a few seconds later, both configurations have these authorities.
async fn publishes(server: &MemoryApi, authorities: &[&String]) {
    sleep(Duration::from_secs(5)).await;
    let expected: String = authorities.iter().map(|authority| authority.as_str()).collect();
    for kind in ["validating", "mutating"] {
        let bundle = server.object(&path(kind)).unwrap()["webhooks"][0]["clientConfig"]["caBundle"].clone();
        assert_eq!(bundle, json!(k8s_openapi::ByteString(expected.clone().into_bytes())), "{kind}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_leader_keeps_the_authorities_that_it_finds_until_its_files_change() {
    let server = cluster();
    let [a, b, c] = [(); 3].map(|()| authority());
    for (own, expected) in [(&a, &[&a][..]), (&b, &[&b, &a]), (&b, &[&b, &a]), (&a, &[&a, &b])] {
        let (_, stop) = lead_with_files(&server, own);
        publishes(&server, expected).await;
        stop.cancel();
    }
    let (certificates, _) = lead_with_files(&server, &a);
    publishes(&server, &[&a, &b]).await;
    certificates.trusted.send_replace(Some(format!("{c}{a}")));
    publishes(&server, &[&c, &a]).await;
}

/// Other replicas may still serve certificates of the authority that was published.
#[tokio::test(start_paused = true)]
async fn a_leader_whose_first_lists_fail_keeps_the_authorities_that_it_finds_later() {
    let server = cluster();
    let [a, b] = [(); 2].map(|()| authority());
    let (_, stop) = lead_with_files(&server, &a);
    publishes(&server, &[&a]).await;
    stop.cancel();
    server.refuse(|call| {
        let is_refused = call.method == Method::GET && call.path.contains("webhookconfigurations");
        is_refused.then(|| Error::from_status(500, "InternalError", "no leader"))
    });
    lead_with_files(&server, &b);
    publishes(&server, &[&a]).await;
    server.accept();
    sleep(Duration::from_secs(600)).await;
    publishes(&server, &[&b, &a]).await;
}

/// Writes files as a user mounts them.
fn mount(folder: &Path, own: &certificate::Certificate) {
    for (file, text) in [("tls.crt", &own.certificate), ("tls.key", &own.key), ("ca.crt", &own.authority)] {
        std::fs::write(folder.join(file), text).unwrap();
    }
}

/// Starts a replica with the files in a folder.
fn start_replica(client: kube::Client, webhooks: Webhooks, folder: &Path) -> (Certificates, Readiness) {
    let settings = Settings { certificate_dir: Some(folder.into()), ..Settings::default() };
    let place = Endpoint { name: "hook".into(), namespace: Some("x".into()), url: None };
    let (replica, readiness) = (Certificates::new(&settings, place), Readiness::default());
    let needs = NeedsCertificate(readiness.require("certificate", "none"));
    tokio::spawn(replica.clone().run(client, webhooks, Default::default(), needs));
    (replica, readiness)
}

/// The leader may see the files a minute later, or never, if it mounts others.
#[tokio::test(start_paused = true)]
async fn a_replica_that_starts_with_new_files_is_ready_once_their_authority_is_published_or_after_two_minutes() {
    for is_published in [true, false] {
        let (server, a) = (cluster(), authority());
        let (leader, _) = lead_with_files(&server, &a);
        publishes(&server, &[&a]).await;
        let (folder, own) = (tempfile::tempdir().unwrap(), certificate_of_user());
        mount(folder.path(), &own);
        let (_, readiness) = start_replica(watched::client(&server), webhooks(), folder.path());
        sleep(Duration::from_secs(60)).await;
        let unmet = readiness.unmet();
        assert!(unmet.len() == 1 && unmet[0].contains("has not published the authority of ca.crt"), "{unmet:?}");
        match is_published {
            true => _ = leader.trusted.send_replace(Some(format!("{}{a}", own.authority))),
            false => sleep(Duration::from_secs(60)).await,
        }
        sleep(Duration::from_secs(15)).await;
        assert_eq!(readiness.unmet(), Vec::<String>::new(), "published: {is_published}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_replica_without_answers_follows_its_files_and_is_ready_after_two_minutes() {
    type Answer = Result<http::Response<kube::client::Body>, tower::BoxError>;
    let silent = |_: http::Request<kube::client::Body>| std::future::pending::<Answer>();
    let client = kube::Client::new(tower::service_fn(silent), "default");
    let (folder, [first, next]) = (tempfile::tempdir().unwrap(), [(); 2].map(|()| certificate_of_user()));
    mount(folder.path(), &first);
    let (replica, readiness) = start_replica(client, webhooks(), folder.path());
    // The files are read after 20 and after 40 seconds.
    sleep(Duration::from_secs(25)).await;
    mount(folder.path(), &next);
    let unmet = readiness.unmet();
    assert!(unmet.len() == 1 && unmet[0].contains("has not answered"), "{unmet:?}");
    sleep(Duration::from_secs(20)).await;
    let trusted = replica.trusted.borrow().clone().unwrap();
    assert!(trusted.contains(&next.authority) && trusted.contains(&first.authority), "{trusted}");
    sleep(Duration::from_secs(95)).await;
    assert_eq!(readiness.unmet(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_replica_with_many_objects_that_are_read_slowly_is_ready_as_soon_as_all_are_published() {
    let (folder, own, reads) = (tempfile::tempdir().unwrap(), certificate_of_user(), Arc::new(AtomicUsize::new(0)));
    mount(folder.path(), &own);
    let bundle = k8s_openapi::ByteString(own.authority.clone().into_bytes());
    let client = json!({"service": {"namespace": "x", "name": "hook"}, "caBundle": bundle});
    let published = json!({"metadata": {"name": "any"}, "webhooks": [{"clientConfig": client}]}).to_string();
    let count = reads.clone();
    let slow = tower::service_fn(move |_: http::Request<kube::client::Body>| {
        let (published, count) = (published.clone(), count.clone());
        async move {
            sleep(Duration::from_millis(1500)).await;
            count.fetch_add(1, Ordering::Relaxed);
            Ok::<_, std::convert::Infallible>(http::Response::new(kube::client::Body::from(published.into_bytes())))
        }
    });
    let apps = webhooks()
        .convert::<ControllerRevision, ControllerRevision>()
        .convert::<DaemonSet, DaemonSet>()
        .convert::<Deployment, Deployment>()
        .convert::<ReplicaSet, ReplicaSet>()
        .convert::<StatefulSet, StatefulSet>();
    let all = apps.convert::<Shop, Shop>();
    let (_, readiness) = start_replica(kube::Client::new(slow, "default"), all, folder.path());
    sleep(Duration::from_secs(5)).await;
    assert_eq!((readiness.unmet(), reads.load(Ordering::Relaxed)), (Vec::<String>::new(), 8));
}

/// Asks for another certificate, and returns whether it is served a minute later.
async fn rotates(server: &MemoryApi) -> bool {
    let served = || server.object(SECRET).unwrap()["data"]["tls.crt"].clone();
    let (mut secret, before) = (server.object(SECRET).unwrap(), served());
    secret["metadata"]["annotations"] = json!({"rotate": "now"});
    server.put(SECRET, secret, "user");
    sleep(Duration::from_secs(60)).await;
    served() != before
}

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// Installs a definition. Returns its path.
fn define(server: &MemoryApi, name: &str) -> String {
    let (path, version, kind) =
        (format!("{DEFINITIONS}/{name}"), "apiextensions.k8s.io/v1", "CustomResourceDefinition");
    server.serve_cluster_scoped(version, kind, "customresourcedefinitions");
    server.put(&path, json!({"apiVersion": version, "kind": kind, "metadata": {"name": name}}), "installer");
    path
}

/// Serves webhooks that also convert two kinds.
fn lead_conversions(server: &Arc<MemoryApi>) {
    lead_with(server, "x", webhooks().convert::<Deployment, Deployment>().convert::<Shop, Shop>());
}

#[tokio::test(start_paused = true)]
async fn a_missing_definition_stops_neither_the_others_nor_the_rotation() {
    let server = cluster();
    let shops = define(&server, "shops.example.com");
    lead_conversions(&server);
    sleep(Duration::from_secs(5)).await;
    assert!(rotates(&server).await);
    let bundle = server.object(SECRET).unwrap()["data"]["ca.crt"].clone();
    let trusted = |path: &str| {
        let live = server.object(path).unwrap();
        live["spec"]["conversion"]["webhook"]["clientConfig"]["caBundle"].clone()
    };
    assert_eq!(trusted(&shops), bundle);
    let deployments = define(&server, "deployments.apps");
    sleep(Duration::from_secs(5)).await;
    assert_eq!(trusted(&deployments), bundle, "once it is there");
}

#[tokio::test(start_paused = true)]
async fn a_definition_that_cannot_be_read_stops_no_other_and_no_certificate_is_served_that_it_may_not_trust() {
    let server = cluster();
    let (shops, deployments) = (define(&server, "shops.example.com"), define(&server, "deployments.apps"));
    server.refuse(|call| {
        let is_refused = call.method == Method::GET && call.path.contains("deployments.apps");
        is_refused.then(|| Error::from_status(403, "Forbidden", "no role"))
    });
    lead_conversions(&server);
    sleep(Duration::from_secs(5)).await;
    let conversion = |path: &str| server.object(path).unwrap()["spec"]["conversion"].clone();
    assert!(conversion(&shops).is_object() && conversion(&deployments).is_null());
    assert!(!rotates(&server).await);
    let secret = server.object(SECRET).unwrap();
    assert!(secret["data"]["next.json"].is_string(), "the next certificate is made, and waits");
    server.accept();
    sleep(Duration::from_secs(600)).await;
    assert!(conversion(&deployments).is_object());
    assert!(server.object(SECRET).unwrap()["data"]["next.json"].is_null(), "and is served");
}

#[tokio::test(start_paused = true)]
async fn a_refused_definition_stops_no_other_and_no_certificate_is_served_that_it_does_not_trust() {
    let server = cluster();
    let (shops, deployments) = (define(&server, "shops.example.com"), define(&server, "deployments.apps"));
    server.refuse(move |call| {
        let is_refused = call.method == Method::PATCH && call.path.starts_with(&deployments);
        is_refused.then(|| Error::from_status(403, "Forbidden", "a policy"))
    });
    lead_conversions(&server);
    sleep(Duration::from_secs(5)).await;
    assert!(server.object(&shops).unwrap()["spec"]["conversion"].is_object());
    assert!(!rotates(&server).await);
    server.accept();
    sleep(Duration::from_secs(600)).await;
    let secret = server.object(SECRET).unwrap();
    assert_eq!(
        (&secret["data"]["next.json"], &secret["metadata"]["annotations"]["rotate"]),
        (&Value::Null, &Value::Null)
    );
}

/// Returns the number of webhooks in both configurations.
fn configured(server: &MemoryApi) -> [usize; 2] {
    ["validating", "mutating"].map(|kind| {
        let configuration = server.object(&path(kind)).unwrap();
        configuration["webhooks"].as_array().map_or(0, Vec::len)
    })
}

fn conversions() -> Webhooks {
    Webhooks::new().convert::<Shop, Shop>()
}

#[tokio::test(start_paused = true)]
async fn a_version_without_admission_webhooks_removes_those_of_the_last_one_and_no_others() {
    for (namespace, expected) in [("x", [0, 0]), ("y", [1, 1])] {
        let server = cluster();
        let shops = define(&server, "shops.example.com");
        let uids =
            || ["validating", "mutating"].map(|kind| server.object(&path(kind)).unwrap()["metadata"]["uid"].clone());
        let before = uids();
        let last = Endpoint { name: "hook".into(), namespace: Some(namespace.into()), url: None };
        let stop = lead_at(&server, last, Replicas::Several, webhooks());
        sleep(Duration::from_secs(5)).await;
        assert_eq!(configured(&server), [1, 1]);
        stop.cancel();
        sleep(Duration::from_secs(1)).await;
        lead_with(&server, "x", conversions());
        sleep(Duration::from_secs(5)).await;
        assert_eq!((configured(&server), uids()), (expected, before), "of namespace {namespace}");
        assert!(server.object(&shops).unwrap()["spec"]["conversion"].is_object());
    }
}

#[tokio::test(start_paused = true)]
async fn a_configuration_that_is_to_be_empty_and_cannot_be_read_does_not_delay_the_certificate() {
    let server = cluster();
    let shops = define(&server, "shops.example.com");
    server.refuse(|call| {
        let is_refused = call.method == Method::GET && call.path.contains("webhookconfigurations");
        is_refused.then(|| Error::from_status(403, "Forbidden", "no role"))
    });
    lead_with(&server, "x", conversions());
    sleep(Duration::from_secs(5)).await;
    assert!(server.object(&shops).unwrap()["spec"]["conversion"].is_object());
    assert!(rotates(&server).await);
}

/// Makes a definition name this client, as its installation does.
fn name_client(server: &MemoryApi, path: &str, conversion: &Value) {
    let mut definition = server.object(path).unwrap();
    definition["spec"]["conversion"] = conversion.clone();
    server.put(path, definition, "installer");
}

#[tokio::test(start_paused = true)]
async fn a_url_takes_the_place_of_a_service_until_its_last_process_stops() {
    for (url, replicas, expected) in [
        ("https://127.0.0.1:1", Replicas::Several, "back"),
        ("https://balancer", Replicas::Several, "kept for the other replicas"),
        ("https://tunnel", Replicas::One, "back"),
    ] {
        let server = cluster();
        let path = define(&server, "shops.example.com");
        let webhooks = webhooks().convert::<Shop, Shop>();
        let installed = webhooks.conversion("shops.example.com", ("other", "y")).unwrap();
        name_client(&server, &path, &installed);
        let place = Endpoint { name: "hook".into(), namespace: Some("x".into()), url: Some(url.into()) };
        let shutdown = lead_at(&server, place, replicas, webhooks);
        sleep(Duration::from_secs(5)).await;
        let conversion = || server.object(&path).unwrap()["spec"]["conversion"].clone();
        let published = conversion();
        let client = &published["webhook"]["clientConfig"];
        assert_eq!(client["url"], format!("{url}/convert/example.com/shops"));
        assert!(client["caBundle"].is_string() && client.get("service").is_none(), "{client}");
        assert_eq!(configured(&server), [1, 1]);
        let asked = || server.object(&self::path("validating")).unwrap()["webhooks"][0]["clientConfig"]["url"].clone();
        assert_eq!(asked(), format!("{url}/validate/example.com/v1/shops"));
        shutdown.cancel();
        sleep(Duration::from_secs(5)).await;
        let is_back = expected == "back";
        assert_eq!(conversion(), if is_back { installed } else { published }, "{url}: {expected}");
        assert_eq!(configured(&server), if is_back { [0, 0] } else { [1, 1] }, "{url}: {expected}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_service_takes_the_place_of_a_url_that_somebody_else_entered() {
    let server = cluster();
    let path = define(&server, "shops.example.com");
    let client = json!({"url": "https://127.0.0.1:1", "caBundle": "Q0E="});
    let webhook = json!({"clientConfig": client, "conversionReviewVersions": ["v1"]});
    name_client(&server, &path, &json!({"strategy": "Webhook", "webhook": webhook}));
    lead_with(&server, "x", webhooks().convert::<Shop, Shop>());
    sleep(Duration::from_secs(5)).await;
    let definition = server.object(&path).unwrap();
    let client = &definition["spec"]["conversion"]["webhook"]["clientConfig"];
    assert_eq!((&client["service"]["namespace"], client.get("url")), (&json!("x"), None));
    assert_eq!(client["caBundle"], server.object(SECRET).unwrap()["data"]["ca.crt"]);
}
