//! Tests of the roles that `generate rbac` writes, on a real control plane: each of ten public charts is installed,
//! upgraded and uninstalled by an operator with these permissions only. The audit log shows that no request is
//! rejected, and which permissions are used.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use std::thread;

use serde_json::{Value, json};
use test_cluster::{Namespace, Process, Request, TestCluster, eventually};

use crate::folder::{Folder, PROGRAM};

/// A chart of the corpus, the permissions that it needs, and the values of the upgrade: a file next to the chart, or
/// JSON.
struct Case {
    folder: &'static str,
    upgrade: &'static str,
}

const fn case(folder: &'static str, upgrade: &'static str) -> Case {
    Case { folder, upgrade }
}

const CASES: [Case; 10] = [
    // A Role and a ClusterRole; the upgrade adds a second workload.
    case("elastic__helm-charts/filebeat", "flip.yaml"),
    // A ClusterRole; the upgrade adds a PodDisruptionBudget and an Ingress.
    case("prometheus-community__helm-charts/prometheus-cloudwatch-exporter", "flip.yaml"),
    // A ClusterRole with many rules.
    case("prometheus-community__helm-charts/kube-state-metrics", "02-custom-resource-state-only-values.yaml"),
    // Hooks with Roles of their own, before and after the action.
    case("elastic__helm-charts/kibana", "flip.yaml"),
    // The upgrade adds an autoscaler and a ClusterRole.
    case("prometheus-community__helm-charts/prom-label-proxy", "test-values.yaml"),
    // A binding of a role that is not in the chart.
    case("prometheus-community__helm-charts/prometheus-smartctl-exporter", "resources-values.yaml"),
    case("zalando__postgres-operator/postgres-operator-ui", "flip.yaml"),
    case("DataDog__helm-charts/observability-pipelines-worker", "ingress-values.yaml"),
    case("deliveryhero__helm-charts/kubecost-reports-exporter", "flip.yaml"),
    case("helm__charts/percona", "flip.yaml"),
];

/// The name of each release; short, because some charts append much to it.
const NAME: &str = "one";

/// The number of operators that run at the same time.
const AT_ONCE: usize = 5;

impl Case {
    /// Returns the project's name: the chart's, shortened so that the names of the deployment fit.
    fn name(&self) -> &'static str {
        let name = self.folder.split_once('/').unwrap().1;
        name[..name.len().min(28)].trim_end_matches('-')
    }

    fn values(&self, corpus: &Path) -> Value {
        if self.upgrade.starts_with('{') {
            return serde_json::from_str(self.upgrade).unwrap();
        }
        let file = corpus.join(self.folder).join("values").join(self.upgrade);
        serde_yaml::from_str(&std::fs::read_to_string(file).unwrap()).unwrap()
    }

    fn account(&self) -> (String, String) {
        let name = self.name();
        (format!("{name}-system"), format!("{name}-controller-manager"))
    }
}

/// Unpacks the charts; without the corpus, prints a message and returns `None`.
fn unpack() -> Option<tempfile::TempDir> {
    let archive = shared_cases::path("corpus/corpus.tgz")?;
    let folder = tempfile::tempdir().unwrap();
    let mut tar = Command::new("tar");
    tar.arg("xzf").arg(archive).arg("-C").arg(folder.path()).args(["--strip-components=1"]);
    tar.args(CASES.iter().map(|case| format!("dev/{}", case.folder)));
    assert!(tar.status().unwrap().success());
    Some(folder)
}

/// Creates an operator project with one chart, as a user does; returns its folder.
fn project(case: &Case, corpus: &Path) -> Folder {
    let folder = Folder::new();
    let (name, chart) = (case.name(), corpus.join(case.folder).join("chart"));
    folder.run(&format!("init --domain {name}.test --project-name {name}")).unwrap();
    let api = format!("create api --group charts --version v1 --kind Release --helm-chart {}", chart.display());
    folder.run(&api).unwrap();
    folder
}

/// Deploys the project, and runs the operator on this machine as its ServiceAccount.
fn start(cluster: &TestCluster, case: &Case, project: &Folder, namespace: &Namespace<'_>) -> Process {
    let (system, account) = case.account();
    project.make(cluster, &["install", "deploy"]);
    let crd = format!("crd/releases.charts.{}.test", case.name());
    cluster.kubectl(["wait", "--for=condition=Established", "--timeout=30s", &crd]).unwrap();
    let mut command = Command::new(PROGRAM);
    command.args(["run", "--metrics-bind-address=0", "--health-probe-bind-address=0", "--leader-elect"]);
    command.args(["--leader-election-id", case.name(), "--leader-election-namespace", &system]);
    command.env("KUBECONFIG", cluster.kubeconfig_of(&system, &account).unwrap());
    command.env("WATCH_NAMESPACE", namespace.name()).current_dir(project.path());
    Process::start(cluster, &mut command).unwrap()
}

/// Installs, upgrades and uninstalls the chart; returns the account's requests.
fn run(cluster: &TestCluster, case: &Case, project: &Folder, values: &Value) -> Vec<Request> {
    let namespace = cluster.namespace(case.name()).unwrap();
    let operator = start(cluster, case, project, &namespace);
    let group = format!("charts.{}.test", case.name());
    let resource = format!("releases.{group}");
    for (revision, spec) in [(1, &json!({})), (2, values)] {
        let release =
            json!({"apiVersion": format!("{group}/v1"), "kind": "Release", "metadata": {"name": NAME}, "spec": spec});
        namespace.apply(&release.to_string()).unwrap();
        eventually(case.name(), || {
            let seen = namespace.kubectl(["get", &resource, NAME, "-o", "json"]).unwrap();
            let seen: Value = serde_json::from_str(&seen).unwrap();
            let is_done = seen["status"]["deployedRelease"]["revision"] == revision;
            if is_done { Ok(()) } else { Err(format!("{} {}", seen["status"], operator.log())) }
        });
    }
    let deleted = namespace.kubectl(["delete", &resource, NAME, "--timeout=60s"]);
    assert!(deleted.is_ok(), "{deleted:?} {}", operator.log());
    let (_, log) = operator.terminate().unwrap();
    assert!(!log.contains("lacks rights"), "{log}");
    let (system, account) = case.account();
    let user = format!("system:serviceaccount:{system}:{account}");
    cluster.requests().unwrap().into_iter().filter(|request| request.user == user).collect()
}

/// A permission: group, resource and verb.
type Right = (String, String, String);

/// Returns the permissions that requests used. Server-side apply also needs `create` if the object is new.
fn used(requests: &[Request]) -> BTreeSet<Right> {
    let mut used = BTreeSet::new();
    for request in requests {
        let right = |verb: &str| (request.group.clone(), request.resource.clone(), verb.to_owned());
        used.insert(right(&request.verb));
        if request.verb == "patch" && request.code == 201 {
            used.insert(right("create"));
        }
    }
    used
}

/// A rule of a role, with its preceding comment and its lines.
struct Rule {
    why: String,
    text: String,
}

/// Returns the rules of a generated file.
fn rules(text: &str) -> Vec<Rule> {
    let (mut rules, mut comment) = (Vec::<Rule>::new(), String::new());
    for line in text.lines().skip_while(|line| *line != "rules:").skip(1).take_while(|line| *line != "---") {
        match rules.last_mut() {
            _ if line.starts_with('#') => comment = line.to_owned(),
            Some(rule) if !line.starts_with("- ") => rule.text += &format!("{line}\n"),
            _ => rules.push(Rule { why: std::mem::take(&mut comment), text: format!("{line}\n") }),
        }
    }
    rules
}

impl Rule {
    fn rights(&self) -> Vec<Right> {
        let rule: Value = serde_yaml::from_str(&self.text).unwrap();
        let list = |key: &str| rule[0][key].as_array().cloned().unwrap_or_default();
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let mut found = Vec::new();
        for group in list("apiGroups") {
            for resource in list("resources") {
                found.extend(list("verbs").iter().map(|verb| (text(&group), text(&resource), text(verb))));
            }
        }
        found
    }

    /// Returns whether the rule's comment explains when this permission is used, if not now.
    fn explains(&self, (_, resource, verb): &Right, used: &BTreeSet<Right>) -> bool {
        let names_branch = |line: &str| line.starts_with(&format!("  - {resource} #")) && line.contains(" with ");
        let made = |kinds: [&str; 2]| {
            let right = |kind: &str| ("rbac.authorization.k8s.io".to_owned(), kind.to_owned(), "create".to_owned());
            kinds.iter().any(|kind| used.contains(&right(kind)))
        };
        // Kubernetes compares these permissions with those in a Role, or behind a binding, when such an object is
        // created; no request shows it.
        let is_compared = self.why.contains("templates/")
            && made(if verb == "bind" { ["rolebindings", "clusterrolebindings"] } else { ["roles", "clusterroles"] });
        self.text.lines().any(names_branch)
            || self.text.contains(&format!("# {verb}: "))
            || self.why.contains(" with ")
            || self.why.contains("blockOwnerDeletion")
            || self.why.contains("only while")
            || is_compared
    }
}

/// Returns the unused permissions whose rule does not explain when they are used.
fn unused(role: &str, used: &BTreeSet<Right>) -> Vec<Right> {
    let unused = |rule: &Rule| {
        let rights = rule.rights().into_iter();
        rights.filter(|right| !used.contains(right) && !rule.explains(right, used)).collect::<Vec<_>>()
    };
    rules(role).iter().flat_map(unused).collect()
}

#[test]
fn each_right_of_a_generated_role_is_used_by_its_chart_and_none_is_missing() {
    let Some(cluster) = TestCluster::shared_or_skip() else { return };
    let Some(corpus) = unpack() else { return };
    if std::env::var_os("USE_KUBECONFIG").is_some() {
        return;
    }
    let each = |case: &Case| {
        let folder = project(case, corpus.path());
        let requests = run(cluster, case, &folder, &case.values(corpus.path()));
        let refused: Vec<_> = requests.iter().filter(|request| request.code == 403).collect();
        assert!(refused.is_empty(), "{}: {refused:?}", case.name());
        let used = used(&requests);
        let unused = unused(&folder.text("config/rbac/release_role.yaml"), &used);
        assert!(unused.is_empty(), "{}: {unused:?}", case.name());
        (used, folder)
    };
    let (mut all, mut own) = (BTreeSet::new(), String::new());
    for cases in CASES.chunks(AT_ONCE) {
        thread::scope(|scope| {
            let running: Vec<_> = cases.iter().map(|case| scope.spawn(|| each(case))).collect();
            for thread in running {
                let (used, folder) = thread.join().unwrap();
                all.extend(used);
                own = folder.text("config/rbac/role.yaml");
            }
        });
    }
    assert_eq!(unused(&own, &all), Vec::new());
}
