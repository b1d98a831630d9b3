//! Webhooks on a real control plane.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a helper of a test fails the test")]

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use controller::manager::{Config, Manager};
use controller::webhooks::{Admission, Mutate, Rejection, Request, Settings, Validate, Warnings, Webhooks};
use kube::api::PostParams;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::crd::merge_crds;
use kube::{Api, Client, CustomResourceExt as _};
use serde_json::{Value, json};
use test_cluster::{Namespace, TestCluster, eventually};
use tokio::net::{TcpListener as AsyncListener, TcpStream};
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

mod v1 {
    use kube::CustomResource;
    use schemars::JsonSchema;
    use serde::{Deserialize, Serialize};

    #[derive(Clone, Debug, CustomResource, Serialize, Deserialize, JsonSchema)]
    #[kube(group = "hooks.example.com", version = "v1", kind = "Shop", namespaced)]
    pub(super) struct ShopSpec {
        pub(super) size: u8,
        #[serde(default)]
        pub(super) owner: String,
    }
}

mod v2 {
    use kube::CustomResource;
    use schemars::JsonSchema;
    use serde::{Deserialize, Serialize};

    #[derive(Clone, Debug, CustomResource, Serialize, Deserialize, JsonSchema)]
    #[kube(group = "hooks.example.com", version = "v2", kind = "Shop", namespaced)]
    pub(super) struct ShopSpec {
        pub(super) capacity: u8,
        #[serde(default)]
        pub(super) owner: String,
    }
}

impl From<v1::Shop> for v2::Shop {
    fn from(shop: v1::Shop) -> v2::Shop {
        let spec = v2::ShopSpec { capacity: shop.spec.size, owner: shop.spec.owner };
        v2::Shop { metadata: shop.metadata, spec }
    }
}

impl From<v2::Shop> for v1::Shop {
    fn from(shop: v2::Shop) -> v1::Shop {
        let spec = v1::ShopSpec { size: shop.spec.capacity, owner: shop.spec.owner };
        v1::Shop { metadata: shop.metadata, spec }
    }
}

struct Sizes;

impl Validate for Sizes {
    type Resource = v1::Shop;

    async fn validate(&self, admission: &Admission<'_, v1::Shop>) -> Result<Warnings, Rejection> {
        let size = admission.object.spec.size;
        if admission.old.as_ref().is_some_and(|old| old.spec.size > size) {
            return Err(Rejection::field("spec.size", "must not shrink"));
        }
        match size {
            10..90 => Err(Rejection::field("spec.size", "must be at most 9")),
            98 => std::future::pending().await,
            99 => panic!("as the test asks"),
            _ => Ok(vec!["sizes are in square metres".into()]),
        }
    }
}

struct Owners;

impl Mutate for Owners {
    type Resource = v1::Shop;

    async fn mutate(&self, shop: &mut v1::Shop, _request: &Request<'_>) -> Result<Warnings, Rejection> {
        if shop.spec.owner.is_empty() {
            shop.spec.owner = "nobody".into();
        }
        Ok(Warnings::new())
    }
}

fn webhooks() -> Webhooks {
    Webhooks::new().validate(Sizes).mutate(Owners).convert::<v1::Shop, v2::Shop>()
}

/// Runs one test at a time, because its kind is cluster-wide.
fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Installs the kind, whose schema allows unknown fields.
fn install(cluster: &TestCluster) {
    _ = tracing_subscriber::fmt().with_test_writer().try_init();
    let definition = merge_crds(vec![v1::Shop::crd(), v2::Shop::crd()], "v1").unwrap();
    let mut definition = serde_json::to_value(definition).unwrap();
    for version in definition["spec"]["versions"].as_array_mut().unwrap() {
        version["schema"]["openAPIV3Schema"]["properties"]["spec"]["x-kubernetes-preserve-unknown-fields"] =
            true.into();
    }
    cluster.apply(&definition.to_string()).unwrap();
    cluster
        .kubectl(["wait", "--for=condition=Established", "--timeout=30s", "crd", "shops.hooks.example.com"])
        .unwrap();
}

#[test]
fn no_field_is_lost_before_the_first_process_converts_nor_after_it_has_stopped() {
    let (_alone, Some(cluster)) = (alone(), TestCluster::shared_or_skip()) else { return };
    let namespace = cluster.namespace("unpublished").unwrap();
    let crd = "shops.hooks.example.com";
    let (one, two) = ("shops.v1.hooks.example.com", "shops.v2.hooks.example.com");
    cluster.kubectl(["delete", "crd", crd, "--ignore-not-found"]).unwrap();
    let definition = merge_crds(vec![v1::Shop::crd(), v2::Shop::crd()], "v1").unwrap();
    let mut definition = serde_json::to_value(definition).unwrap();
    let conversion = webhooks().conversion(crd, (namespace.name(), namespace.name())).unwrap();
    definition["spec"]["conversion"] = conversion.clone();
    let apply = || cluster.kubectl_with_input(["apply", "--server-side", "-f", "-"], &definition.to_string());
    apply().unwrap();
    cluster.kubectl(["wait", "--for=condition=Established", "--timeout=30s", "crd", crd]).unwrap();
    namespace.kubectl_with(&["create", "-f", "-"], &shop("v1", "a", &json!({"size": 3}))).unwrap();
    let before = namespace.get(one, "a");
    let untouched = || {
        let refused = namespace.kubectl(["get", two, "a"]).unwrap_err().to_string();
        assert!(refused.contains("conversion webhook"), "{refused}");
        let refused = namespace.kubectl(["label", two, "a", "l=2"]).unwrap_err().to_string();
        assert!(refused.contains("conversion webhook"), "{refused}");
        namespace.get(one, "a")
    };
    assert_eq!(untouched(), before);

    let replica = Replica::start(cluster, &namespace, local(), false);
    until_asked(&namespace);
    eventually("a conversion", || namespace.kubectl(["label", two, "a", "l=1"]));
    let labelled = namespace.get(one, "a");
    assert_eq!((&labelled["spec"]["size"], &labelled["metadata"]["labels"]["l"]), (&json!(3), &json!("1")));
    assert_eq!(labelled["metadata"]["uid"], before["metadata"]["uid"]);
    let refused = apply().unwrap_err().to_string();
    assert!(refused.contains("exactly one of url or service is required"), "as the documentation says: {refused}");
    replica.stop();

    assert_eq!(cluster.get(&["crd", crd]).unwrap()["spec"]["conversion"], conversion);
    apply().unwrap();
    assert_eq!(untouched(), labelled);
    namespace.kubectl(["delete", one, "a"]).unwrap();
    remove_configurations(namespace.name());
}

/// A running process, as far as the API server can tell.
struct Replica {
    runtime: Option<Runtime>,
    done: JoinHandle<Result<(), controller::manager::Error>>,
    shutdown: CancellationToken,
    name: String,
}

impl Replica {
    fn start(cluster: &TestCluster, namespace: &Namespace<'_>, webhooks: Settings, elects: bool) -> Replica {
        let config = Config {
            metrics_bind_address: "0".into(),
            health_probe_bind_address: "0".into(),
            leader_elect: elects,
            leader_election_id: "shops".into(),
            leader_election_namespace: namespace.name().into(),
            webhooks: Settings { name: namespace.name().into(), settle: Duration::from_secs(2), ..webhooks },
            ..Config::default()
        };
        let (runtime, shutdown) = (Runtime::new().unwrap(), CancellationToken::new());
        let (kubeconfig, stop) = (cluster.kubeconfig().unwrap(), shutdown.clone());
        let done = runtime.spawn(async move {
            let client = client(&kubeconfig).await;
            Manager::new(config).webhooks(self::webhooks()).run_until(client, stop).await
        });
        Replica { runtime: Some(runtime), done, shutdown, name: namespace.name().into() }
    }

    /// Stops it in order.
    fn stop(mut self) {
        self.shutdown.cancel();
        let runtime = self.runtime.take().unwrap();
        runtime.block_on(&mut self.done).unwrap().unwrap();
    }

    /// Ends it as a crash would.
    fn kill(mut self) {
        self.runtime.take().unwrap().shutdown_background();
    }
}

impl Drop for Replica {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
            // A test that failed must not make others fail.
            remove_configurations(&self.name);
        }
    }
}

fn remove_configurations(name: &str) {
    for kind in ["validatingwebhookconfiguration", "mutatingwebhookconfiguration"] {
        _ = TestCluster::shared().map(|cluster| cluster.kubectl(["delete", kind, name, "--ignore-not-found"]));
    }
}

async fn client(kubeconfig: &str) -> Client {
    let kubeconfig = Kubeconfig::from_yaml(kubeconfig).unwrap();
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    Client::try_from(config).unwrap()
}

fn local() -> Settings {
    Settings { bind_address: "127.0.0.1:0".into(), ..Settings::default() }
}

fn shop(version: &str, name: &str, spec: &Value) -> String {
    json!({"apiVersion": format!("hooks.example.com/{version}"), "kind": "Shop", "metadata": {"name": name}, "spec": spec}).to_string()
}

/// Waits until the API server asks the webhooks.
fn until_asked(namespace: &Namespace<'_>) {
    let refused = |version: &str, spec: &Value| {
        let probe = shop(version, "probe", spec);
        eventually("a refusal of the webhook", || {
            match namespace.kubectl_with(&["create", "--dry-run=server", "-f", "-"], &probe) {
                Err(error) if error.contains("must be at most 9") => Ok(()),
                other => Err(other),
            }
        });
    };
    refused("v1", &json!({"size": 10}));
    // The configurations and the definition, which has the conversion, are separate objects.
    refused("v2", &json!({"capacity": 10}));
    let probe = shop("v1", "probe", &json!({"size": 1}));
    eventually("a change of the webhook", || {
        match namespace.kubectl_with(&["create", "--dry-run=server", "-o=jsonpath={.spec.owner}", "-f", "-"], &probe) {
            Ok(owner) if owner.contains("nobody") => Ok(()),
            other => Err(other),
        }
    });
}

trait WithInput {
    fn kubectl_with(&self, arguments: &[&str], input: &str) -> Result<String, String>;
    fn get(&self, resource: &str, name: &str) -> Value;
}

impl WithInput for Namespace<'_> {
    fn kubectl_with(&self, arguments: &[&str], input: &str) -> Result<String, String> {
        let arguments = [&["--namespace", self.name()], arguments].concat();
        let cluster = TestCluster::shared().unwrap();
        cluster.kubectl_with_input(arguments, input).map_err(|error| error.to_string())
    }

    fn get(&self, resource: &str, name: &str) -> Value {
        serde_json::from_str(&self.kubectl(["get", resource, name, "-o", "json"]).unwrap()).unwrap()
    }
}

#[test]
fn users_see_refusals_changes_and_every_version() {
    let (_alone, Some(cluster)) = (alone(), TestCluster::shared_or_skip()) else { return };
    let namespace = cluster.namespace("hooks").unwrap();
    install(cluster);
    let replica = Replica::start(cluster, &namespace, local(), false);
    until_asked(&namespace);
    let create = |version: &str, name: &str, spec: Value| {
        namespace.kubectl_with(&["create", "-f", "-"], &shop(version, name, &spec))
    };

    let refused = create("v1", "a", json!({"size": 10})).unwrap_err();
    let text = r#"The Shop "a" is invalid: spec.size: must be at most 9"#;
    assert!(refused.contains(text), "as from the API server itself: {refused}");
    let refused = create("v1", "a", json!({"size": 3, "owner": 7})).unwrap_err();
    assert!(refused.contains("owner"), "{refused}");
    let refused = create("v2", "a", json!({"capacity": 10})).unwrap_err();
    assert!(refused.contains("spec.size: must be at most 9"), "another version is validated, too: {refused}");

    create("v1", "a", json!({"size": 3, "theirs": {"deep": [1, {"x": "y"}]}})).unwrap();
    let one = namespace.get("shops.v1.hooks.example.com", "a");
    assert_eq!(one["spec"], json!({"size": 3, "owner": "nobody", "theirs": {"deep": [1, {"x": "y"}]}}));
    let two = namespace.get("shops.v2.hooks.example.com", "a");
    assert_eq!(two["spec"], json!({"capacity": 3, "owner": "nobody", "theirs": {"deep": [1, {"x": "y"}]}}));
    assert_eq!(
        (&two["metadata"]["uid"], &two["apiVersion"]),
        (&one["metadata"]["uid"], &json!("hooks.example.com/v2"))
    );

    let patch = |version: &str, patch: Value| {
        let resource = format!("shops.{version}.hooks.example.com");
        namespace
            .kubectl(["patch", &resource, "a", "--type=merge", "-p", &patch.to_string()])
            .map_err(|error| error.to_string())
    };
    let refused = patch("v1", json!({"spec": {"size": 2}})).unwrap_err();
    assert!(refused.contains("must not shrink"), "the old object is known: {refused}");
    let refused = patch("v2", json!({"spec": {"capacity": 2}})).unwrap_err();
    assert!(refused.contains("must not shrink"), "{refused}");
    patch("v2", json!({"spec": {"capacity": 5}, "metadata": {"labels": {"l": "1"}}})).unwrap();
    let one = namespace.get("shops.v1.hooks.example.com", "a");
    assert_eq!(one["spec"], json!({"size": 5, "owner": "nobody", "theirs": {"deep": [1, {"x": "y"}]}}));
    assert_eq!(one["metadata"]["labels"]["l"], "1");
    create("v2", "b", json!({"capacity": 4, "owner": "ada"})).unwrap();
    let list =
        namespace.kubectl(["get", "shops.v2.hooks.example.com", "-o", "jsonpath={.items[*].spec.capacity}"]).unwrap();
    assert_eq!(list, "5 4", "a list is converted");

    replica.stop();
    for kind in ["validatingwebhookconfiguration", "mutatingwebhookconfiguration"] {
        let left = cluster.kubectl(["get", kind, namespace.name(), "-o", "jsonpath={.webhooks}"]).unwrap();
        assert_eq!(left, "", "a process that named itself leaves nobody to ask in {kind}");
    }
    remove_configurations(namespace.name());
}

#[test]
fn a_panic_and_a_hang_refuse_one_request_each() {
    let (_alone, Some(cluster)) = (alone(), TestCluster::shared_or_skip()) else { return };
    let namespace = cluster.namespace("hang").unwrap();
    install(cluster);
    let replica = Replica::start(cluster, &namespace, local(), false);
    until_asked(&namespace);
    let create = |name: &str, size: u8| {
        namespace.kubectl_with(&["create", "-f", "-"], &shop("v1", name, &json!({"size": size})))
    };
    let refused = create("a", 99).unwrap_err();
    assert!(refused.contains("the webhook panicked"), "{refused}");
    let refused = create("a", 98).unwrap_err();
    assert!(refused.contains("the webhook did not answer within 8 s"), "{refused}");
    create("a", 3).unwrap();
    replica.stop();
}

#[test]
fn whatever_is_removed_is_repaired() {
    let (_alone, Some(cluster)) = (alone(), TestCluster::shared_or_skip()) else { return };
    let namespace = cluster.namespace("drift").unwrap();
    install(cluster);
    let replica = Replica::start(cluster, &namespace, local(), false);
    until_asked(&namespace);
    let name = namespace.name();
    let configuration = ["validatingwebhookconfiguration", name];
    let get = |kind: &str, name: &str| -> Value {
        serde_json::from_str(&cluster.kubectl(["get", kind, name, "-o", "json"]).unwrap()).unwrap()
    };
    let before = get(configuration[0], name);
    let patch = |kind: &str, name: &str, patch: &str| {
        _ = cluster.kubectl(["patch", kind, name, "--type=json", "-p", patch]).unwrap()
    };
    let repaired = |what: &str| {
        eventually(what, || {
            let now = get(configuration[0], name);
            if now["webhooks"] == before["webhooks"] && now["metadata"]["uid"] == before["metadata"]["uid"] {
                Ok(())
            } else {
                Err(now)
            }
        });
    };
    patch(configuration[0], name, r#"[{"op": "remove", "path": "/webhooks/0/clientConfig/caBundle"}]"#);
    repaired("a CA bundle");
    patch(configuration[0], name, r#"[{"op": "replace", "path": "/webhooks/0/failurePolicy", "value": "Ignore"}]"#);
    repaired("the failure policy");
    patch(configuration[0], name, r#"[{"op": "remove", "path": "/webhooks"}]"#);
    repaired("all webhooks");
    let crd = "shops.hooks.example.com";
    let conversion = get("crd", crd)["spec"]["conversion"].clone();
    patch("crd", crd, r#"[{"op": "replace", "path": "/spec/conversion", "value": {"strategy": "None"}}]"#);
    eventually("the conversion", || match get("crd", crd)["spec"]["conversion"].clone() {
        now if now == conversion => Ok(()),
        now => Err(now),
    });
    let secret = format!("{name}-certificate");
    let certificate = || {
        serde_json::from_str::<Value>(
            &namespace.kubectl(["get", "secret", &secret, "-o", "json", "--ignore-not-found"]).unwrap(),
        )
        .unwrap_or_default()["data"]["tls.crt"]
            .clone()
    };
    let before = certificate();
    assert!(before.is_string());
    namespace.kubectl(["delete", "secret", &secret]).unwrap();
    eventually("the same certificate", || match certificate() {
        now if now == before => Ok(()),
        now => Err(now),
    });
    until_asked(&namespace);
    replica.stop();
}

#[test]
fn no_request_fails_while_the_certificate_is_replaced_twice() {
    let (_alone, Some(cluster)) = (alone(), TestCluster::shared_or_skip()) else { return };
    let namespace = cluster.namespace("rotate").unwrap();
    install(cluster);
    let replica = Replica::start(cluster, &namespace, local(), false);
    until_asked(&namespace);
    let load = Load::start(cluster, &namespace);
    let secret = format!("{}-certificate", namespace.name());
    let certificate = || namespace.get("secret", &secret)["data"]["tls.crt"].clone();
    let mut served = vec![certificate()];
    for _ in 0..2 {
        namespace.kubectl(["annotate", "secret", &secret, "rotate=now"]).unwrap();
        let last = served.last().unwrap().clone();
        served.push(eventually("another certificate", || match certificate() {
            now if now == last => Err("the same"),
            now => Ok(now),
        }));
        // The API server trusts the new authority alone once it has read the last bundle, so it must connect again.
        until_asked(&namespace);
    }
    let (sent, failed) = load.stop();
    assert_eq!(failed, Vec::<String>::new());
    assert!(sent > 50, "{sent} requests");
    let stored = namespace.get("secret", &secret);
    assert!(stored["metadata"]["annotations"].get("rotate").is_none() && stored["data"].get("next.json").is_none());
    replica.stop();
}

#[test]
fn the_other_replica_answers_at_once_when_one_is_killed() {
    let (_alone, Some(cluster)) = (alone(), TestCluster::shared_or_skip()) else { return };
    let namespace = cluster.namespace("replicas").unwrap();
    install(cluster);
    let proxy = Proxy::start();
    let settings = |at: usize| Settings {
        bind_address: proxy.backends[at].to_string(),
        url: Some(proxy.url.clone()),
        ..Settings::default()
    };
    let first = Replica::start(cluster, &namespace, settings(0), true);
    until_asked(&namespace);
    let second = Replica::start(cluster, &namespace, settings(1), true);
    eventually("the second replica's certificate", || std::net::TcpStream::connect(proxy.backends[1]).map(drop));
    let holder = || namespace.get("lease", "shops")["spec"]["holderIdentity"].clone();
    let leader = holder();
    first.kill();
    until_asked(&namespace);
    assert_eq!(holder(), leader, "it answers before it leads");
    second.stop();
    // The leader is gone without having removed them.
    remove_configurations(namespace.name());
}

/// Creates objects, without storing them, for as long as it runs.
struct Load {
    runtime: Runtime,
    stop: CancellationToken,
    done: Vec<JoinHandle<(usize, Vec<String>)>>,
}

impl Load {
    fn start(cluster: &TestCluster, namespace: &Namespace<'_>) -> Load {
        let (runtime, stop) = (Runtime::new().unwrap(), CancellationToken::new());
        let client = runtime.block_on(client(&cluster.kubeconfig().unwrap()));
        let one = |version: &'static str| {
            let (client, namespace, stop) = (client.clone(), namespace.name().to_owned(), stop.clone());
            async move {
                let (mut sent, mut failed) = (0, Vec::new());
                while !stop.is_cancelled() {
                    let dry = PostParams { dry_run: true, field_manager: None };
                    let meta = kube::core::ObjectMeta { name: Some("x".into()), ..Default::default() };
                    let outcome = match version {
                        "v1" => {
                            let spec = v1::ShopSpec { size: 3, owner: String::new() };
                            let api = Api::namespaced(client.clone(), &namespace);
                            api.create(&dry, &v1::Shop { metadata: meta, spec }).await.map(|shop| shop.spec.owner)
                        }
                        _ => {
                            let spec = v2::ShopSpec { capacity: 3, owner: String::new() };
                            let api = Api::namespaced(client.clone(), &namespace);
                            api.create(&dry, &v2::Shop { metadata: meta, spec }).await.map(|shop| shop.spec.owner)
                        }
                    };
                    sent += 1;
                    failed.extend(match outcome {
                        Ok(owner) if owner == "nobody" => None,
                        Ok(owner) => Some(format!("owner {owner:?}")),
                        Err(error) => Some(error.to_string()),
                    });
                }
                (sent, failed)
            }
        };
        let done = ["v1", "v2", "v1", "v2"].map(|version| runtime.spawn(one(version)));
        Load { stop, done: done.into(), runtime }
    }

    /// Returns the number of requests, and what went wrong.
    fn stop(self) -> (usize, Vec<String>) {
        self.stop.cancel();
        let all = self.done.into_iter().map(|one| self.runtime.block_on(one).unwrap());
        all.fold((0, Vec::new()), |(sent, failed), (more, others)| (sent + more, [failed, others].concat()))
    }
}

/// Passes connections on to the first of two processes that listens, as a Service would.
struct Proxy {
    url: String,
    backends: [SocketAddr; 2],
    _runtime: Runtime,
}

impl Proxy {
    fn start() -> Proxy {
        let runtime = Runtime::new().unwrap();
        let free = || TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap();
        let backends = [free(), free()];
        let listener = runtime.block_on(AsyncListener::bind((Ipv4Addr::LOCALHOST, 0))).unwrap();
        let url = format!("https://{}", listener.local_addr().unwrap());
        let targets = Arc::new(backends);
        runtime.spawn(async move {
            while let Ok((mut from, _)) = listener.accept().await {
                let targets = targets.clone();
                tokio::spawn(async move {
                    for target in targets.iter() {
                        if let Ok(mut to) = TcpStream::connect(target).await {
                            _ = tokio::io::copy_bidirectional(&mut from, &mut to).await;
                            return;
                        }
                    }
                });
            }
        });
        Proxy { url, backends, _runtime: runtime }
    }
}
