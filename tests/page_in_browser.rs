//! The page in a real browser, over the real program on a real control plane: what is typed filters, changes appear by
//! themselves, and every page is usable by keyboard, without scripts, on a phone and in both themes. Takes the pictures of
//! docs/web.md.
//!
//! `PICTURES` names the folder for the pictures; by default they are only taken. `AXE` names the script `axe.min.js`,
//! which checks accessibility; `make pictures` installs it.

use std::path::{Path, PathBuf};
use std::time::Instant;

use serde_json::{Value, json};
use test_cluster::{Namespace, TestCluster, eventually};

use crate::account;
use crate::browser::{Browser, Screen};
use crate::chart::{condition, set, wait_ready};
use crate::operator::Operator;
use crate::page::watches;
use crate::reader::get;

/// The pictures in docs/web.md. The others are only taken.
const SHOWN: [&str; 7] =
    ["overview-light", "overview-dark", "release-light", "release-dark", "not-ready", "diff", "phone"];

const WIDE: Screen = Screen { width: 960, height: 820, is_dark: false };
const DARK: Screen = Screen { is_dark: true, ..WIDE };
const PHONE: Screen = Screen { width: 390, height: 844, is_dark: false };

/// Creates an account that may do everything in the namespaces, and see the process; returns its header's value.
fn on_call(cluster: &TestCluster, namespace: &Namespace<'_>) -> String {
    let name = format!("{}-on-call", namespace.name());
    let account = format!("--serviceaccount={}:on-call", namespace.name());
    namespace.kubectl(["create", "serviceaccount", "on-call"]).unwrap();
    let admin = ["create", "clusterrolebinding", &name, "--clusterrole=cluster-admin", &account];
    cluster.kubectl(admin).unwrap();
    let user = format!("--user={}", account::user(namespace.name()));
    let reviews = format!("{name}-reviews");
    cluster.kubectl(["create", "clusterrolebinding", &reviews, "--clusterrole=system:auth-delegator", &user]).unwrap();
    let token = namespace.kubectl(["create", "token", "on-call"]).unwrap();
    format!("Bearer {}", token.trim())
}

/// Sets a resource, and waits until its condition `Ready` has this reason.
fn set_until(namespace: &Namespace<'_>, name: &str, spec: Value, is_it: impl Fn(&Value) -> bool) {
    set(namespace, name, spec);
    eventually(name, || {
        let resource = get(namespace, ["memcached", name]);
        if is_it(condition(&resource, "Ready")) { Ok(()) } else { Err(resource) }
    });
}

/// What a test does with each page that it has prepared.
struct Gallery {
    folder: PathBuf,
    axe: Option<String>,
    /// What is wrong with the pages.
    faults: Vec<String>,
    temporary: tempfile::TempDir,
}

impl Gallery {
    fn open() -> Gallery {
        let temporary = tempfile::tempdir().unwrap();
        let folder = std::env::var_os("PICTURES").map_or_else(|| temporary.path().to_owned(), PathBuf::from);
        let axe = std::env::var_os("AXE").map(|path| std::fs::read_to_string(Path::new(&path)).unwrap());
        if axe.is_none() {
            eprintln!("accessibility is not checked: AXE names no axe.min.js");
        }
        Gallery { folder, axe, faults: Vec::new(), temporary }
    }

    /// Checks the page on the screen, and takes its picture.
    fn show(&mut self, browser: &mut Browser, name: &str) {
        let excess = browser.run("document.documentElement.scrollWidth - document.documentElement.clientWidth");
        if excess != 0 {
            self.faults.push(format!("{name} is wider than the screen by {excess}"));
        }
        if let Some(axe) = &self.axe {
            browser.run(&format!("{axe}; 0"));
            let rules = r#"{runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]}"#;
            let found = browser.run(&format!(
                "axe.run(document, {rules}).then(r => r.violations.map(v => v.id + ': ' + v.nodes.map(n => n.html + ' ' + n.failureSummary).join('; ')))"
            ));
            self.faults.extend(found.as_array().unwrap().iter().map(|fault| format!("{name}: {fault}")));
        }
        let folder = if SHOWN.contains(&name) { &self.folder } else { self.temporary.path() };
        browser.picture(&folder.join(format!("page-{name}.png")));
    }
}

#[test]
fn the_page_works_in_a_browser() {
    let Some(cluster) = TestCluster::shared_or_skip() else { return };
    let shop = cluster.namespace("shop").unwrap();
    crate::operator::install_kinds(cluster);
    let header = on_call(cluster, &shop);
    let Some(mut browser) = Browser::start_or_skip(&header) else { return };
    let flags = ["--web-bind-address=127.0.0.1:0", "--web-actions"];
    let operator = Operator::start_in_with(cluster, &[&shop], &watches(), &flags);
    let line: Value = serde_json::from_str(&operator.logged("Serving page")).unwrap();
    let page = format!("https://{}", line["bindAddress"].as_str().unwrap());
    let is_false = |ready: &Value| ready["status"] == "False";
    for name in ["cart", "search", "sessions"] {
        set(&shop, name, json!({"replicaCount": 1}));
    }
    ["cart", "search", "sessions"].iter().for_each(|name| _ = wait_ready(&shop, name));
    set(
        &shop,
        "cart",
        json!({"replicaCount": 2, "memory": 128, "image": {"tag": "1.6.39"}, "podLabels": {"tier": "hot"}}),
    );
    wait_ready(&shop, "cart");
    let nowhere = json!({"replicaCount": 1, "nodeSelector": {"disk": "fast"}});
    let is_explained = |ready: &Value| ready["message"].as_str().is_some_and(|why| why.contains("Unschedulable"));
    set_until(&shop, "reports", nowhere, is_explained);
    let is_refused =
        |ready: &Value| is_false(ready) && ready["reason"].as_str().is_some_and(|why| why.ends_with("Error"));
    for name in ["checkout", "stock"] {
        let hosts = json!([{"host": "not_a_host", "paths": [{"path": "/"}]}]);
        set_until(&shop, name, json!({"replicaCount": 1, "ingress": {"enabled": true, "hosts": hosts}}), is_refused);
    }

    let mut gallery = Gallery::open();
    let link = |name: &str| format!("{page}/Memcached.cache.my.domain/{}/{name}", shop.name());
    let rows = "document.querySelectorAll('.releases tbody tr:not(:has(.group))').length";
    for (screen, theme) in [(WIDE, "light"), (DARK, "dark")] {
        browser.screen(screen);
        browser.open(&format!("{page}/"));
        browser.wait("six releases", &format!("{rows} === 6"));
        gallery.show(&mut browser, &format!("overview-{theme}"));
        browser.open(&link("cart"));
        gallery.show(&mut browser, &format!("release-{theme}"));
    }
    browser.open(&link("reports"));
    gallery.show(&mut browser, "not-ready");
    browser.screen(WIDE);
    browser.open(&format!("{}?view=diff&from=1&to=2", link("cart")));
    browser.wait("differences", "document.querySelectorAll('.diff ins').length > 0");
    gallery.show(&mut browser, "diff");
    browser.open(&format!("{}?view=values", link("cart")));
    gallery.show(&mut browser, "values");
    browser.open(&format!("{page}/process"));
    gallery.show(&mut browser, "process");
    browser.screen(PHONE);
    browser.open(&format!("{page}/"));
    gallery.show(&mut browser, "phone");
    browser.open(&link("reports"));
    gallery.show(&mut browser, "phone-release");

    assert_eq!(gallery.faults, Vec::<String>::new());

    browser.screen(WIDE);
    browser.open(&format!("{page}/"));
    browser.tab();
    assert_eq!(browser.run("document.activeElement.className"), "skip", "the first stop skips to the content");
    browser.run("document.getElementById('q').focus()");
    browser.type_text("check");
    browser.wait("the release that was typed", &format!("{rows} === 1 && location.search === '?q=check'"));
    assert_eq!(browser.run("document.activeElement.id"), "q", "the focus stays");
    browser.run("document.getElementById('q').value = ''; document.getElementById('q').dispatchEvent(new Event('input', {bubbles: true}))");
    browser.wait("all releases", &format!("{rows} === 6"));
    browser.run("document.getElementById('sort-name').click()");
    browser.wait("releases by name", "document.querySelector('.releases tbody a').textContent.endsWith('cart')");

    // A change appears without being asked for, in the place of what was there.
    let began = Instant::now();
    set(&shop, "new", json!({"replicaCount": 1}));
    let written = began.elapsed();
    browser.wait("the new release", &format!("{rows} === 7"));
    eprintln!("a new release is visible {:?} after kubectl ended, which took {written:?}", began.elapsed() - written);
    wait_ready(&shop, "new");
    let ready =
        "[...document.querySelectorAll('.releases tr')].some(r => /new.*Ready.*3 objects ready/.test(r.textContent))";
    browser.wait("that it is ready", ready);
    assert_eq!(browser.complaints, Vec::<String>::new());

    // A real browser says where a form comes from.
    let has_button = |word: &str| format!("document.getElementById('action-{word}') !== null");
    browser.open(&link("new"));
    browser.run("document.getElementById('action-suspend').click()");
    browser.wait("the way to resume", &format!("location.search === '?action=suspend' && {}", has_button("resume")));
    browser.scripts(false);
    browser.run("document.getElementById('action-resume').click()");
    browser.wait("the answer without scripts", "location.search === '?action=resume'");
    assert_eq!(browser.complaints, Vec::<String>::new());

    browser.open(&format!("{page}/?q=check"));
    assert_eq!(browser.run(rows), 1, "filters work without scripts");
    let (status, log) = operator.terminate();
    assert!(status.success() && !log.contains("panicked"), "{log}");
}
