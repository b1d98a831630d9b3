//! The page of the real program on a real control plane, as three accounts see it: the API server says who they are and
//! what they may read.

use std::path::Path;
use std::sync::Arc;

use serde_json::{Value, json};
use test_cluster::{Namespace, TestCluster, eventually};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use crate::account;
use crate::chart::{set, wait_ready};
use crate::operator::Operator;

const RBAC: &str = "rbac.authorization.k8s.io";

/// Writes a certificate with its key, as a Secret of type `kubernetes.io/tls` is mounted. Returns the flag that names it.
fn write_certificate(folder: &Path) -> String {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    std::fs::write(folder.join("tls.crt"), made.cert.pem()).unwrap();
    std::fs::write(folder.join("tls.key"), made.signing_key.serialize_pem()).unwrap();
    format!("--web-cert-path={}", folder.display())
}

/// Gets a page, and trusts only this certificate; returns the status and the response.
fn get(operator: &Operator, folder: &Path, path: &str, headers: &str) -> (String, String) {
    ask(operator, folder, &format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{headers}\r\n"))
}

/// Sends a form, as a page in a browser does.
fn post(operator: &Operator, folder: &Path, path: &str, headers: &str, form: &str) -> (String, String) {
    let length = form.len();
    let kind = format!("Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {length}\r\n");
    let lines = format!("POST {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{kind}{headers}");
    ask(operator, folder, &format!("{lines}\r\n{form}"))
}

/// Sends a request to the page; returns the status and the response.
fn ask(operator: &Operator, folder: &Path, request: &str) -> (String, String) {
    let line: Value = serde_json::from_str(&operator.logged("Serving page")).unwrap();
    let address = line["bindAddress"].as_str().unwrap().to_owned();
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(folder.join("tls.crt")).unwrap()).unwrap();
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let config =
        builder.with_safe_default_protocol_versions().unwrap().with_root_certificates(roots).with_no_client_auth();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let answer = runtime.block_on(async {
        let tcp = tokio::net::TcpStream::connect(address).await.unwrap();
        let name = ServerName::try_from("localhost").unwrap();
        let mut stream = TlsConnector::from(Arc::new(config)).connect(name, tcp).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        // A server may close without a farewell.
        let _ = stream.read_to_end(&mut answer).await;
        String::from_utf8(answer).unwrap()
    });
    (answer.split(' ').nth(1).unwrap_or_default().to_owned(), answer)
}

/// Creates an account in a namespace with these rights to its Memcacheds; returns its token as a header.
fn account(namespace: &Namespace<'_>, name: &str, verbs: &[&str]) -> String {
    let (group, resources) = (json!(["cache.my.domain"]), json!(["memcacheds"]));
    let rules = json!([{"apiGroups": group, "resources": resources, "verbs": verbs}]);
    let subjects = json!([{"kind": "ServiceAccount", "name": name, "namespace": namespace.name()}]);
    let metadata = json!({"name": name});
    let role = json!({"apiGroup": RBAC, "kind": "Role", "name": name});
    let api = format!("{RBAC}/v1");
    let mut items = vec![json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata})];
    if !verbs.is_empty() {
        items.push(json!({"apiVersion": api, "kind": "Role", "metadata": metadata, "rules": rules}));
        let binding = json!({"apiVersion": api, "kind": "RoleBinding", "metadata": metadata, "roleRef": role, "subjects": subjects});
        items.push(binding);
    }
    namespace.apply(&json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string()).unwrap();
    let token = namespace.kubectl(["create", "token", name]).unwrap();
    format!("Authorization: Bearer {}\r\n", token.trim())
}

/// Grants the operator the two reviews, as docs/web.md says. Returns the binding's name.
fn delegate(cluster: &TestCluster, namespace: &Namespace<'_>) -> String {
    let name = format!("{}-page", namespace.name());
    let user = format!("--user={}", account::user(namespace.name()));
    let role = "--clusterrole=system:auth-delegator";
    cluster.kubectl(["create", "clusterrolebinding", &name, role, &user]).unwrap();
    name
}

/// Returns the watch of the chart whose releases the tests of the page show.
pub(crate) fn watches() -> String {
    let chart = concat!(env!("CARGO_MANIFEST_DIR"), "/helm-charts/memcached");
    json!([{"group": "cache.my.domain", "version": "v1", "kind": "Memcached", "chart": chart}]).to_string()
}

#[test]
fn the_page_shows_each_account_only_what_it_may_read() {
    let Some(cluster) = TestCluster::shared_or_skip() else { return };
    let (ours, theirs) = (cluster.namespace("page-ours").unwrap(), cluster.namespace("page-theirs").unwrap());
    crate::operator::install_kinds(cluster);
    let folder = tempfile::tempdir().unwrap();
    let certificate = write_certificate(folder.path());
    let flags = ["--web-bind-address=127.0.0.1:0", certificate.as_str()];
    let operator = Operator::start_in_with(cluster, &[&ours, &theirs], &watches(), &flags);
    for namespace in [&ours, &theirs] {
        set(namespace, "web", json!({"replicaCount": 1}));
        wait_ready(namespace, "web");
    }
    let get = |path: &str, headers: &str| get(&operator, folder.path(), path, headers);
    let (reader, nobody) = (account(&ours, "reader", &["get", "list"]), account(&ours, "nobody", &[]));
    // On an existing cluster, the operator under test is its administrator.
    if std::env::var_os("USE_KUBECONFIG").is_none() {
        let (status, answer) = get("/", &reader);
        assert_eq!(status, "500", "without the right to ask, nothing is shown: {answer}");
    }
    let binding = delegate(cluster, &ours);
    eventually("the right to ask", || match get("/", &reader) {
        (status, _) if status == "200" => Ok(()),
        other => Err(other),
    });

    let (_, overview) = get("/", &reader);
    let (ours_name, theirs_name) = (ours.name(), theirs.name());
    let link = |namespace: &str| format!("/Memcached.cache.my.domain/{namespace}/web");
    assert!(overview.contains(&link(ours_name)) && overview.contains("1 of 1 ready"), "{overview}");
    assert!(!overview.contains(theirs_name), "{overview}");
    let (status, page) = get(&link(ours_name), &reader);
    assert!(status == "200" && page.contains("Deployment") && page.contains("install"), "{page}");
    let json = format!("{reader}Accept: application/json\r\n");
    let (_, answer) = get(&link(ours_name), &json);
    let release: Value = serde_json::from_str(answer.split("\r\n\r\n").nth(1).unwrap()).unwrap();
    assert_eq!((&release["state"], &release["release"]["revision"]), (&json!("ready"), &json!(1)), "{release}");
    let body = |(status, answer): (String, String)| (status, answer.split("\r\n\r\n").nth(1).unwrap().to_owned());
    let absent = body(get(&link("absent"), &reader));
    assert_eq!((&*absent.0, &absent), ("404", &body(get(&link(theirs_name), &reader))), "both look alike");

    let (status, overview) = get("/", &nobody);
    assert!(status == "200" && !overview.contains("Memcached") && !overview.contains("ready"), "{overview}");
    assert_eq!(body(get(&link(ours_name), &nobody)), absent);
    for headers in ["", "Authorization: Bearer invented\r\n"] {
        let (status, answer) = get("/", headers);
        assert!(status == "401" && answer.contains("kubectl create token"), "{answer}");
    }
    // A role that is taken away counts no longer, without a restart.
    ours.kubectl(["delete", "rolebinding", "reader"]).unwrap();
    eventually("the end of the right", || match get(&link(ours_name), &reader) {
        (status, _) if status == "404" => Ok(()),
        other => Err(other),
    });
    let (status, log) = operator.terminate();
    assert!(status.success() && !log.contains("panicked"), "{log}");
    let token = reader.trim().rsplit(' ').next().unwrap();
    assert!(!log.contains(token), "no token reaches the log");
    cluster.kubectl(["delete", "clusterrolebinding", &binding]).unwrap();
}

#[test]
fn a_button_of_the_page_is_the_patch_of_whoever_presses_it() {
    let Some(cluster) = TestCluster::shared_or_skip() else { return };
    let ours = cluster.namespace("page-acts").unwrap();
    crate::operator::install_kinds(cluster);
    let folder = tempfile::tempdir().unwrap();
    let certificate = write_certificate(folder.path());
    let flags = ["--web-bind-address=127.0.0.1:0", certificate.as_str(), "--web-actions", "--zap-log-level=debug"];
    let binding = delegate(cluster, &ours);
    let operator = Operator::start_in_with(cluster, &[&ours], &watches(), &flags);
    set(&ours, "web", json!({"replicaCount": 1}));
    wait_ready(&ours, "web");
    let (reader, writer) = (account(&ours, "reader", &["get"]), account(&ours, "writer", &["get", "patch"]));
    let link = format!("/Memcached.cache.my.domain/{}/web", ours.name());
    let show = |who: &str| get(&operator, folder.path(), &link, who).1;
    let press = |who: &str, more: &str, form: &str| {
        post(&operator, folder.path(), &link, &format!("{who}Sec-Fetch-Site: same-origin\r\n{more}"), form)
    };
    let suspended = || {
        let key = r"jsonpath={.metadata.annotations.helm\.sdk\.operatorframework\.io/suspend}";
        ours.kubectl(["get", "memcached", "web", "-o", key]).unwrap()
    };
    let sees = |button: &str| {
        eventually(button, || match show(&writer) {
            page if page.contains(&format!(">{button}</button>")) => Ok(()),
            page => Err(page),
        });
    };

    assert!(!show(&reader).contains("method=\"post\""), "who may only read has no button");
    let (status, page) = press(&reader, "", "action=suspend");
    assert!(status == "403" && page.contains("cannot patch resource"), "{page}");
    for foreign in ["Sec-Fetch-Site: cross-site\r\n", "Origin: https://evil\r\n", ""] {
        let (status, page) = post(&operator, folder.path(), &link, &format!("{writer}{foreign}"), "action=suspend");
        assert_eq!(status, "403", "{foreign}: {page}");
    }
    assert_eq!(suspended(), "");

    sees("Suspend");
    let (status, answer) = press(&writer, "", "action=suspend");
    assert!(status == "303" && answer.contains(&format!("location: {link}?action=suspend\r\n")), "{answer}");
    assert_eq!(suspended(), "true");
    sees("Resume");
    let (status, _) = press(&writer, "", "action=resume");
    assert_eq!((&*status, &*suspended()), ("303", ""));
    sees("Reconcile now");
    press(&writer, "", "action=reconcile-now");
    eventually("the reconcile", || {
        let told =
            ours.kubectl(["get", "memcached", "web", "-o", "jsonpath={.status.lastHandled.reconcileNow}"]).unwrap();
        if told.is_empty() { Err(told) } else { Ok(()) }
    });
    let user = |name: &str| format!("system:serviceaccount:{}:{name}", ours.name());
    eventually("the event", || {
        let events = ours.kubectl(["events", "--for", "memcached/web"]).unwrap();
        let told = format!("{} asked for \"Suspend\" on the page", user("writer"));
        if events.contains("ActionRequested") && events.contains(&told) { Ok(()) } else { Err(events) }
    });

    // The API server saw each person as the user. The operator's only patch is that of its finalizer.
    let operators = account::user(ours.name());
    let (own, patches): (Vec<_>, Vec<_>) = cluster
        .requests()
        .unwrap()
        .into_iter()
        .filter(|one| one.verb == "patch" && one.resource == "memcacheds" && one.namespace == ours.name())
        .filter(|one| one.user.starts_with("system:serviceaccount:"))
        .map(|one| (one.user, one.acting_as, one.code))
        .partition(|(user, ..)| *user == operators);
    let by = |name: &str, code: u16| (user(name), user(name), code);
    assert!(own.len() <= 1, "{own:?}");
    assert_eq!(patches, [by("reader", 403), by("writer", 200), by("writer", 200), by("writer", 200)]);

    let (status, log) = operator.terminate();
    assert!(status.success() && !log.contains("panicked"), "{log}");
    for token in [reader, writer] {
        assert!(!log.contains(token.trim().rsplit(' ').next().unwrap()), "no token reaches the log, at no level");
    }
    cluster.kubectl(["delete", "clusterrolebinding", &binding]).unwrap();
}
