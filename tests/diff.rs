//! `diff` on a real control plane: the plan equals what the operator then writes, and planning writes nothing.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::{Value, json};
use test_cluster::{Namespace, Request, TestCluster};

use crate::account::{self, copy};
use crate::chart::condition;
use crate::hooks::{finish, pod_of};
use crate::operator::{Operator, eventually};
use crate::ownership::{HOLDER, install_kind};
use crate::reader::get;

const CHART: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/charts/quiet");

const ROLES: &str = "--resource=roles.rbac.authorization.k8s.io,rolebindings.rbac.authorization.k8s.io";

/// An operator that serves Holders, and plans for it.
struct Planned<'a> {
    cluster: &'a TestCluster,
    namespace: Namespace<'a>,
    folder: tempfile::TempDir,
    watches: String,
    operator: Option<Operator>,
}

impl<'a> Planned<'a> {
    fn start(cluster: &'a TestCluster, prefix: &str) -> Planned<'a> {
        Planned::serve(cluster, prefix, Path::new(CHART))
    }

    fn serve(cluster: &'a TestCluster, prefix: &str, chart: &Path) -> Planned<'a> {
        install_kind(cluster);
        let namespace = cluster.namespace(prefix).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let watch = json!([{"group": "test.my.domain", "version": "v1", "kind": "Holder", "chart": chart}]).to_string();
        fs::write(folder.path().join("watches.yaml"), &watch).unwrap();
        let operator = Some(Operator::start_in(cluster, &[&namespace], &watch));
        // A person who plans a file may write the resource.
        let user = account::user(namespace.name());
        let rule = ["create", "role", "holders", "--verb=create,update", "--resource=holders.test.my.domain"];
        namespace.kubectl(rule).unwrap();
        let user = format!("--user={user}");
        namespace.kubectl(["create", "rolebinding", "holders", "--role=holders", &user]).unwrap();
        let rule = ["create", "role", "roles", "--verb=get,list,watch,create,patch,delete", ROLES];
        namespace.kubectl(rule).unwrap();
        namespace.kubectl(["create", "rolebinding", "roles", "--role=roles", &user]).unwrap();
        Planned { cluster, namespace, folder, watches: watch, operator }
    }

    /// Runs `diff` as the operator's own account.
    fn diff(&self, arguments: &[&str]) -> Output {
        let kubeconfig = account::kubeconfig(self.cluster, self.namespace.name(), Some(&self.watches));
        let mut command = Command::new(env!("CARGO_BIN_EXE_memcached-operator"));
        command.arg("diff").args(arguments).args(["-n", self.namespace.name(), "--kubeconfig"]).arg(kubeconfig);
        command.args(["--watches-file", "watches.yaml"]).current_dir(self.folder.path());
        command.output().unwrap()
    }

    fn file(&self, spec: &Value) -> String {
        let holder = json!({
            "apiVersion": "test.my.domain/v1", "kind": "Holder", "metadata": {"name": "web"}, "spec": spec,
        });
        let path = self.folder.path().join("web.yaml");
        fs::write(&path, holder.to_string()).unwrap();
        path.display().to_string()
    }

    /// Plans the file with these objects.
    fn plan(&self, objects: &[Value]) -> Value {
        self.plan_of(&spec(objects))
    }

    /// Plans the file with this `spec`. Returns the plan, after checking that planning sent dry runs only.
    fn plan_of(&self, spec: &Value) -> Value {
        let before = self.requests();
        let output = self.diff(&["-f", &self.file(spec), "-o", "json"]);
        let plans: Value = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)));
        let sent = &self.requests()[before.len()..];
        // The operator keeps running, and follows its objects.
        let is_planners = |request: &&Request| !request.is_dry_run && request.resource != "holders/status";
        let written: Vec<&Request> = sent.iter().filter(is_planners).collect();
        assert!(written.is_empty(), "planning wrote: {written:?}");
        plans[0].clone()
    }

    /// Returns the writes of this namespace's operator, dry runs included, without what is no part of a release.
    fn requests(&self) -> Vec<Request> {
        let user = account::user(self.namespace.name());
        let is_own = |request: &Request| {
            request.user == user
                && request.is_write()
                // A controller had just written the object. It is sent again, and a plan leaves it out, too.
                && request.code != 409
                && !["events", "leases"].contains(&request.resource.as_str())
                && !request.resource.ends_with("reviews")
                && request.name != "helm-operator-record-key"
        };
        self.cluster.requests().unwrap().into_iter().filter(is_own).collect()
    }

    /// Plans the objects, applies them, waits for this condition, and compares the plan with the audit log.
    fn compare(&self, objects: &[Value], condition: &str) -> Value {
        self.compare_spec(&spec(objects), || _ = HOLDER.wait_for(&self.namespace, "web", condition))
    }

    /// Plans a `spec`, applies it, waits, and compares the plan with the audit log.
    fn compare_spec(&self, spec: &Value, wait: impl FnOnce()) -> Value {
        let plan = self.plan_of(spec);
        let before = self.requests().len();
        let applied = fs::read_to_string(self.file(spec)).unwrap();
        self.namespace.apply(&applied).unwrap();
        wait();
        eventually("the planned writes", || {
            let sent: Vec<String> =
                self.requests()[before..].iter().filter(|request| !request.is_dry_run).filter_map(sent).collect();
            let (sent, planned) = (sorted(sent), planned(&plan));
            if sent == planned { Ok(()) } else { Err((planned, sent, plan["notice"].clone())) }
        });
        plan
    }
}

fn spec(objects: &[Value]) -> Value {
    let texts: Vec<String> = objects.iter().map(Value::to_string).collect();
    json!({"objects": texts})
}

fn sorted(mut lines: Vec<String>) -> Vec<String> {
    lines.sort();
    lines
}

/// Returns a request of the audit log as `patch apps/deployments web`. Status writes follow events, so that their
/// number is not planned; the log has no names of objects that are created.
fn sent(request: &Request) -> Option<String> {
    let name = if request.verb == "create" { "" } else { &request.name };
    let line = format!("{} {}/{} {name}", request.verb, request.group, request.resource);
    (!request.resource.ends_with("/status")).then_some(line)
}

/// Returns the planned writes in the same form.
fn planned(plan: &Value) -> Vec<String> {
    let line = |write: &Value| {
        let (method, path) = (write["method"].as_str()?, write["path"].as_str()?);
        let parts: Vec<&str> = path.trim_start_matches('/').split('/').collect();
        let (group, rest) = if parts[0] == "api" { ("", &parts[2..]) } else { (parts[1], &parts[3..]) };
        let rest = if rest[0] == "namespaces" && rest.len() > 2 { &rest[2..] } else { rest };
        let verb = match method {
            "POST" => "create",
            "PUT" => "update",
            "PATCH" => "patch",
            _ => "delete",
        };
        let name = if verb == "create" { "" } else { rest[1] };
        rest.get(2).is_none().then(|| format!("{verb} {group}/{} {name}", rest[0]))
    };
    sorted(plan["writes"].as_array().unwrap().iter().filter_map(line).collect())
}

/// Returns the plan's changes as `create ConfigMap a`.
fn changes(plan: &Value) -> Vec<String> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let line = |one: &Value| {
        format!("{} {} {}", text(&one["action"]), text(&one["object"]["kind"]), text(&one["object"]["name"]))
    };
    plan["changes"].as_array().unwrap().iter().map(line).collect()
}

fn map(name: &str, x: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"x": x}})
}

fn annotated(mut object: Value, key: &str, value: &str) -> Value {
    object["metadata"]["annotations"][key] = value.into();
    object
}

fn job(image: &str) -> Value {
    let container = json!({"name": "main", "image": image});
    let template = json!({"spec": {"restartPolicy": "Never", "containers": [container]}});
    json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "load"}, "spec": {"template": template}})
}

fn deployment(image: &str) -> Value {
    let labels = json!({"app": "web"});
    let template = json!({"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": image}]}});
    let spec = json!({"selector": {"matchLabels": labels}, "template": template});
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": spec})
}

#[test]
fn a_plan_names_every_write_that_follows_and_no_other() {
    let Some(cluster) = TestCluster::shared_or_skip() else { return };
    let planned = Planned::start(cluster, "planned");
    let secret =
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "stringData": {"p": "canary-0"}});
    let hook = annotated(map("before", "1"), "helm.sh/hook", "pre-install,pre-upgrade");
    let kept = annotated(map("kept", "1"), "helm.sh/resource-policy", "keep");

    let first = [map("a", "1"), map("b", "1"), deployment("a:1"), secret.clone(), hook.clone(), kept, job("a:1")];
    let plan = planned.compare(&first, "Deployed");
    let mut expected = ["create ConfigMap a", "create ConfigMap b", "create ConfigMap kept", "create Deployment web"];
    expected.sort_unstable();
    let made = changes(&plan);
    assert!(expected.iter().all(|line| made.contains(&(*line).to_owned())), "{made:?}");
    assert_eq!(made[0], "hook ConfigMap before", "the hook runs first: {made:?}");
    assert!(!plan.to_string().contains("canary-0") && plan.to_string().contains("****"), "{plan}");

    // The Job's controller writes its status, so that a write of the Job may have to be sent again.
    eventually("the end of the Job", || {
        let status = get(&planned.namespace, ["job", "load"])["status"].take();
        if status["completionTime"].is_string() { Ok(()) } else { Err(status) }
    });
    HOLDER.wait_for(&planned.namespace, "web", "Ready");
    let second = [map("a", "2"), deployment("a:2"), secret.clone(), hook, job("a:2"), map("c", "1")];
    let plan = planned.compare(&second, "Deployed");
    let expected = [
        "create ConfigMap c",
        "delete ConfigMap b",
        "hook ConfigMap before",
        "keep ConfigMap kept",
        "recreate Job load",
        "update ConfigMap a",
        "update Deployment web",
    ];
    assert_eq!(sorted(changes(&plan)), expected);
    assert_eq!(plan["summary"], "+1 ~2 -1, 1 recreated, 1 kept, 1 hook");

    let plan = planned.plan(&second);
    assert_eq!((changes(&plan), &plan["summary"]), (Vec::new(), &json!("no changes")));
    assert_eq!(planned.diff(&["holder", "web"]).status.code(), Some(0));

    // An object that belongs to someone else, and one that the API server refuses.
    planned.namespace.apply(&map("foreign", "1").to_string()).unwrap();
    let plan = planned.plan(&[map("foreign", "2")]);
    assert_eq!(plan["notice"]["reason"], "ReleaseConflict", "{plan}");
    let mut refused = deployment("a:3");
    refused["spec"]["replicas"] = (-1).into();
    let plan = planned.compare(&[map("a", "3"), refused], "ReleaseFailed");
    assert!(changes(&plan).contains(&"refused Deployment web".to_owned()), "{plan}");
    assert_eq!(plan["notice"]["fails"], true);
    planned.namespace.kubectl(["delete", "holder", "web", "--timeout=60s"]).unwrap();
}

#[test]
fn a_resource_that_asks_for_a_plan_is_told_what_it_then_does() {
    let Some(cluster) = TestCluster::shared_or_skip() else { return };
    let planned = Planned::start(cluster, "told");
    let secret = |value: &str| json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "stringData": {"p": value}});
    let annotate = |value: &str| {
        let annotation = format!("helm.sdk.operatorframework.io/dry-run{value}");
        planned.namespace.kubectl(["annotate", "holder", "web", &annotation]).unwrap();
    };
    planned.compare(&[map("a", "1"), map("b", "1"), deployment("a:1"), secret("canary-0")], "Deployed");
    annotate("=true");
    let before = planned.requests().len();
    let next = spec(&[map("a", "2"), deployment("a:2"), map("c", "1"), secret("canary-1")]);
    planned.namespace.apply(&fs::read_to_string(planned.file(&next)).unwrap()).unwrap();
    let told = eventually("the plan", || {
        let resource = HOLDER.wait_for(&planned.namespace, "web", "Planned");
        let told = condition(&resource, "Planned")["message"].as_str().unwrap().to_owned();
        if told.starts_with("+1 ~3 -1") { Ok(told) } else { Err(told) }
    });
    let ns = planned.namespace.name();
    let mut lines: Vec<&str> = told.lines().skip(1).collect();
    lines.sort_unstable();
    let expected = [
        format!("+ ConfigMap {ns}/c"),
        format!("- ConfigMap {ns}/b"),
        format!("~ ConfigMap {ns}/a: data.x"),
        format!("~ Deployment {ns}/web: spec.template.spec.containers[0].image"),
        format!("~ Secret {ns}/s: data.p"),
    ];
    assert_eq!(lines, expected);
    let resource = get(&planned.namespace, ["holder", "web"]);
    assert_eq!(condition(&resource, "Planned")["reason"], "WouldChange");
    assert!(!resource["status"].to_string().contains("canary"), "{resource}");
    let written: Vec<Request> =
        planned.requests().split_off(before).into_iter().filter(|one| !one.is_dry_run && sent(one).is_some()).collect();
    assert!(written.is_empty(), "{written:?}");
    eventually("the event", || match HOLDER.events_of(&planned.namespace, "web") {
        events if events.contains("WouldChange: +1 ~3 -1") => Ok(()),
        events => Err(events),
    });

    // The command plans the same, and the operator then does it.
    let plan = planned.plan_of(&next);
    assert_eq!(plan["summary"], "+1 ~3 -1");
    let before = planned.requests().len();
    annotate("-");
    eventually("the planned writes", || {
        let sent: Vec<String> =
            planned.requests()[before..].iter().filter(|request| !request.is_dry_run).filter_map(sent).collect();
        let (sent, planned) = (sorted(sent), self::planned(&plan));
        if sent == planned { Ok(()) } else { Err((planned, sent)) }
    });
    planned.namespace.kubectl(["delete", "holder", "web", "--timeout=60s"]).unwrap();
}

#[test]
fn a_hook_that_the_operator_waits_for_counts_as_done() {
    let Some(cluster) = TestCluster::shared_or_skip() else { return };
    let planned = Planned::start(cluster, "planned-hook");
    let hook = annotated(job("a:1"), "helm.sh/hook", "pre-install");
    let plan = planned.plan(&[hook.clone(), map("a", "1")]);
    assert_eq!(changes(&plan), ["hook Job load", "create ConfigMap a"]);
    let before = planned.requests().len();
    planned.namespace.apply(&fs::read_to_string(planned.file(&spec(&[hook, map("a", "1")]))).unwrap()).unwrap();
    finish(&planned.namespace, &pod_of(&planned.namespace, "load"));
    HOLDER.wait_for(&planned.namespace, "web", "Deployed");
    let sent: Vec<String> = planned.requests()[before..].iter().filter_map(sent).collect();
    assert_eq!(sorted(sent), self::planned(&plan));
}

#[test]
fn a_new_chart_is_planned_for_every_release_and_nothing_is_restarted() {
    let Some(cluster) = TestCluster::shared_or_skip() else { return };
    let mut planned = Planned::start(cluster, "planned-all");
    let one = |number: usize| (format!("h{number:02}"), spec(&[map(&format!("m{number:02}"), "1")]));
    HOLDER.set_all(&planned.namespace, (0..12).map(one));
    for number in 0..12 {
        HOLDER.wait_for(&planned.namespace, &format!("h{number:02}"), "Ready");
    }
    planned.operator.take().map(Operator::terminate);
    let chart = planned.folder.path().join("chart");
    copy(Path::new(CHART), &chart);
    fs::write(chart.join("templates/more.yaml"), map("more-{{ .Release.Name }}", "1").to_string()).unwrap();
    let before = planned.requests().len();
    let output = planned.diff(&["Holder", "--all", "--chart", "chart", "-o", "json"]);
    assert_eq!(output.status.code(), Some(1), "{}", String::from_utf8_lossy(&output.stderr));
    let plans: Value = serde_json::from_slice(&output.stdout).unwrap();
    let summaries: Vec<String> = plans.as_array().unwrap().iter().flat_map(changes).collect();
    let expected: Vec<String> = (0..12).map(|number| format!("create ConfigMap more-h{number:02}")).collect();
    assert_eq!(summaries, expected);
    assert!(planned.requests()[before..].iter().all(|request| request.is_dry_run));
    assert!(get(&planned.namespace, ["configmap", "more-h00"]).is_null());
    let text = planned.diff(&["Holder", "h03", "--chart", "chart"]);
    let text = String::from_utf8_lossy(&text.stdout).into_owned();
    assert!(text.contains("+ ConfigMap ") && text.ends_with("/h03: +1 ~0 -0\n"), "{text}");
}

#[test]
fn two_charts_are_compared_without_a_cluster() {
    let folder = tempfile::tempdir().unwrap();
    let watch = json!([{"group": "test.my.domain", "version": "v1", "kind": "Holder", "chart": CHART}]);
    fs::write(folder.path().join("watches.yaml"), watch.to_string()).unwrap();
    let holder = json!({
        "apiVersion": "test.my.domain/v1", "kind": "Holder", "metadata": {"name": "web"}, "spec": spec(&[map("a", "1")]),
    });
    fs::write(folder.path().join("web.yaml"), format!("{holder}\n---\nkind: Other\nmetadata: {{name: o}}\n")).unwrap();
    let chart = folder.path().join("chart");
    copy(Path::new(CHART), &chart);
    let diff = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_memcached-operator"));
        command.args(["diff", "--offline", "-f", "web.yaml", "--chart", "chart"]).args(arguments);
        let output = command.current_dir(folder.path()).env("KUBECONFIG", "/nothing").output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (output.status.code(), text(output.stdout), text(output.stderr))
    };
    let skipped = "skipped Other o: the watches file does not serve it\n";
    assert_eq!(diff(&[]), (Some(0), "Holder default/web: no changes\n".into(), skipped.into()));
    fs::write(chart.join("templates/more.yaml"), map("more-{{ .Release.Name }}", "1").to_string()).unwrap();
    let (code, text, _) = diff(&["-n", "prod"]);
    assert!(text.starts_with("+ ConfigMap more-web\n--- (none)\n"), "{text}");
    assert_eq!((code, text.lines().last()), (Some(1), Some("Holder prod/web: +1 ~0 -0")));
    fs::write(chart.join("templates/more.yaml"), "{{ fail \"no\" }}").unwrap();
    let (code, _, error) = diff(&[]);
    assert!(code == Some(2) && error.contains("cannot render Holder default/web with chart chart: "), "{error}");
}

#[test]
fn an_offline_comparison_and_a_render_contain_what_the_watch_adds() {
    const HOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/charts/holder");
    let folder = tempfile::tempdir().unwrap();
    let watch = json!([{
        "group": "test.my.domain", "version": "v1", "kind": "Holder", "chart": HOLDER, "commonLabels": {"team": "shop"},
        "commonAnnotations": {"example.com/owner": "Shop"},
        "overrideValues": {"value": "over"},
        "patches": [{"target": {"kind": "ConfigMap"}, "patch": "[{op: add, path: /data/patched, value: 'yes'}]"}],
    }]);
    fs::write(folder.path().join("watches.yaml"), watch.to_string()).unwrap();
    let holder = json!({
        "apiVersion": "test.my.domain/v1", "kind": "Holder", "metadata": {"name": "web"}, "spec": {"map": "own", "value": "1"},
    });
    fs::write(folder.path().join("web.yaml"), holder.to_string()).unwrap();
    let chart = folder.path().join("chart");
    copy(Path::new(HOLDER), &chart);
    let more = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: more\ndata:\n  a: b\n";
    fs::write(chart.join("templates/more.yaml"), more).unwrap();
    let run = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_memcached-operator"));
        let output = command.args(arguments).current_dir(folder.path()).env("KUBECONFIG", "/nothing").output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (output.status.code(), text(output.stdout), text(output.stderr))
    };
    let (code, text, _) = run(&["diff", "--offline", "-f", "web.yaml", "--chart", "chart"]);
    assert_eq!((code, text.lines().last()), (Some(1), Some("Holder default/web: +1 ~0 -0")), "{text}");
    assert!(text.contains("+  patched: \"yes\"") && text.contains("+    team: shop"), "{text}");
    assert!(text.contains("+    example.com/owner: Shop"), "{text}");

    let kind = ["template", "web", HOLDER, "--set", "map=own", "--watches-file", "watches.yaml"];
    let (_, plain, _) = run(&kind[..5]);
    assert!(plain.contains("name: own") && !plain.contains("patched"), "{plain}");
    let (code, text, error) = run(&kind);
    assert_eq!((code, error.as_str()), (Some(0), ""));
    let owner = "    example.com/owner: Shop";
    for line in ["# Source: holder/templates/all.yaml", "  patched: \"yes\"", "    team: shop", owner, "  value: over"]
    {
        assert!(text.lines().any(|one| one == line), "no {line:?} in\n{text}");
    }
    let (code, _, error) = run(&["template", "web", "chart", "--watches-file", "watches.yaml"]);
    let expected =
        "Error: watches.yaml has no entry for chart chart: choose with --kind, one of Holder.test.my.domain\n";
    assert_eq!((code, error.as_str()), (Some(1), expected));
    let (code, text, _) = run(&["template", "web", "chart", "--watches-file", "watches.yaml", "--kind", "holder"]);
    assert!(code == Some(0) && text.matches("patched: \"yes\"").count() >= 1, "{text}");
}

#[test]
fn an_offline_comparison_shows_no_override_value_and_no_word_of_a_secret() {
    let folder = tempfile::tempdir().unwrap();
    let watch = json!([{
        "group": "test.my.domain", "version": "v1", "kind": "Shop", "chart": "before", "overrideValues": {"token": "$SHOP_TOKEN"},
    }]);
    fs::write(folder.path().join("watches.yaml"), watch.to_string()).unwrap();
    let shop = json!({"apiVersion": "test.my.domain/v1", "kind": "Shop", "metadata": {"name": "web"}, "spec": {}});
    fs::write(folder.path().join("web.yaml"), shop.to_string()).unwrap();
    for (chart, copied) in [("before", "none"), ("after", "'{{ .Values.token }} hunter22'")] {
        let templates = folder.path().join(chart).join("templates");
        fs::create_dir_all(&templates).unwrap();
        fs::write(templates.with_file_name("Chart.yaml"), "apiVersion: v2\nname: shop\nversion: 1.0.0\n").unwrap();
        let secret = "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData: {p: hunter22}\n---\n";
        let map = format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: m}}\ndata: {{copied: {copied}}}\n");
        fs::write(templates.join("all.yaml"), format!("{secret}{map}")).unwrap();
    }
    for form in ["text", "json", "markdown"] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_memcached-operator"));
        command
            .args(["diff", "--offline", "-f", "web.yaml", "--chart", "after", "-o", form])
            .current_dir(folder.path());
        let output = command.env("KUBECONFIG", "/nothing").env("SHOP_TOKEN", "t0ken-9").output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert_eq!(output.status.code(), Some(1), "{form}: {}", String::from_utf8_lossy(&output.stderr));
        assert!(text.contains("**** ****"), "{form}: {text}");
        assert!(!text.contains("t0ken-9") && !text.contains("hunter22"), "{form}: {text}");
    }
}

/// Returns a Role, a RoleBinding to it, and a ConfigMap that is applied after both.
fn bound() -> [Value; 3] {
    let rule = json!({"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]});
    let api = "rbac.authorization.k8s.io";
    let role = json!({"apiVersion": format!("{api}/v1"), "kind": "Role", "metadata": {"name": "r"}, "rules": [rule]});
    let binding = json!({
        "apiVersion": format!("{api}/v1"), "kind": "RoleBinding", "metadata": {"name": "r"},
        "roleRef": {"apiGroup": api, "kind": "Role", "name": "r"},
        "subjects": [{"kind": "ServiceAccount", "name": "default"}],
    });
    [role, binding, map("a", "1")]
}

#[test]
fn a_binding_is_planned_with_the_role_that_it_needs() {
    let Some(cluster) = TestCluster::shared_or_skip() else { return };
    let planned = Planned::start(cluster, "planned-binding");
    let plan = planned.compare(&bound(), "Deployed");
    assert_eq!(changes(&plan), ["create ConfigMap a", "create Role r", "create RoleBinding r"], "{plan}");
    assert_eq!(plan["changes"][2]["unchecked"], true);
}
