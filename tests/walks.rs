//! Types the commands of README.md and the book, block by block, as `commands` finds them there.

use std::fs;
use std::path::Path;
use std::sync::OnceLock;

use serde_json::Value;
use test_cluster::{Options, TestCluster};

use crate::commands::{block_with, run_by};
use crate::shell::Terminal;
use crate::take_over;

/// Returns the cluster that the walks share; they install kinds of the same names as other tests.
fn cluster() -> Option<&'static TestCluster> {
    static CLUSTER: OnceLock<TestCluster> = OnceLock::new();
    TestCluster::shared_or_skip()?;
    Some(CLUSTER.get_or_init(|| TestCluster::start(Options::default()).unwrap()))
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Types what a page says, with `instead` of some words. An operator starts in another terminal, and replaces one that
/// runs.
fn types(terminal: &mut Terminal, page: &str, test: &str, instead: &[(&str, &str)]) -> Vec<String> {
    run_by(page, test).iter().map(|script| types_one(terminal, script, instead)).collect()
}

/// Types a block; returns its output.
fn types_one(terminal: &mut Terminal, script: &str, instead: &[(&str, &str)]) -> String {
    let script = instead.iter().fold(script.to_owned(), |script, (words, other)| script.replace(words, other));
    let (mut said, mut lines) = (String::new(), String::new());
    for line in script.lines() {
        let starts = ["make run", "make install run", "helm-operator run"].iter().any(|start| line.starts_with(start));
        if starts {
            said += &terminal.types_all(&std::mem::take(&mut lines));
            if terminal.is_running() {
                terminal.interrupts();
            }
            terminal.starts(line, "Starting Controller");
        } else {
            lines += &format!("{line}\n");
        }
    }
    said + &terminal.types_all(&lines)
}

/// Copies a chart of this repository into the terminal's folder.
fn chart(terminal: &mut Terminal, to: &str) {
    let from = root().join("helm-charts/memcached");
    terminal.types_all(&format!("mkdir -p $(dirname {to}) && cp -r {} {to}", from.display()));
}

/// Ends the operator, after the resources of these kinds have gone.
fn leaves(terminal: &mut Terminal, kinds: &[&str]) {
    for kind in kinds {
        terminal.types(&format!("kubectl delete {kind} --all --all-namespaces --timeout=60s"));
    }
    let log = terminal.interrupts();
    assert!(!log.contains("panicked"), "{log}");
    terminal.types("kubectl delete -k config/crd --timeout=60s");
}

#[test]
fn charts_are_rendered_as_the_pages_say() {
    let mut terminal = Terminal::without_cluster("page-render");
    chart(&mut terminal, "path/to/chart");
    chart(&mut terminal, "chart");
    terminal.types_all("echo 'replicaCount: 2' > values.yaml");
    let test = "charts_are_rendered_as_the_pages_say";
    let rendered = types(&mut terminal, "README.md", test, &[]);
    assert!(rendered[0].contains("kind: Deployment"), "{rendered:?}");
    let order = types(&mut terminal, "docs/order.md", test, &[]);
    assert!(order[0].contains("Deployment"), "{order:?}");
}

#[test]
fn projects_begin_as_the_pages_say() {
    let mut terminal = Terminal::without_cluster("page-projects");
    let start = terminal.folder.clone();
    let test = "projects_begin_as_the_pages_say";
    for page in ["docs/quickstart.md", "docs/projects.md", "docs/reconciler.md"] {
        for (number, script) in run_by(page, test).iter().enumerate() {
            terminal.folder = start.join(page.replace('/', "-")).join(format!("project-{number}"));
            fs::create_dir_all(&terminal.folder).unwrap();
            types_one(&mut terminal, script, &[]);
            assert!(terminal.folder.join("PROJECT").exists(), "{page}: {script}");
        }
    }
}

#[test]
fn charts_render_as_with_helm_as_the_pages_say() {
    let Some(cluster) = cluster() else { return };
    let Some(mut terminal) = Terminal::on_or_skip(cluster, "default", "page-helm") else { return };
    chart(&mut terminal, "CHART");
    for page in ["README.md", "docs/watches.md"] {
        types(&mut terminal, page, "charts_render_as_with_helm_as_the_pages_say", &[]);
    }
}

#[test]
fn the_reference_operator_runs_as_the_pages_say() {
    let Some(cluster) = cluster() else { return };
    let Some(mut terminal) = Terminal::on_or_skip(cluster, "shop", "page-reference") else { return };
    let test = "the_reference_operator_runs_as_the_pages_say";
    root().clone_into(&mut terminal.folder);
    terminal.types("kubectl create namespace shop");
    let [start, look] = &run_by("README.md", test)[..] else { panic!("README.md has two blocks") };
    // `make run` would compile what this test has: the same program, with other features for tests.
    types_one(&mut terminal, start, &[("make run ", "helm-operator run --watches-file=./watches.yaml --reload ")]);
    terminal.types("kubectl wait --for=condition=Ready memcached,memcachedbackup --all --timeout=60s");
    assert!(types_one(&mut terminal, look, &[]).contains("memcachedbackup-sample"));
    let resource = "{apiVersion: cache.my.domain/v1, kind: Memcached, metadata: {name: web}}";
    for revision in 1..=3 {
        terminal.types(&format!("echo '{resource}' | kubectl apply -f -"));
        let patch =
            format!("kubectl patch memcached web --type=merge -p '{{\"spec\": {{\"replicaCount\": {revision}}}}}'");
        terminal.types(&patch);
        has_revision(&mut terminal, "memcached web", revision);
    }
    terminal.types("kubectl wait --for=condition=Ready memcached web --timeout=60s");
    types(&mut terminal, "docs/annotations.md", test, &[]);
    types(&mut terminal, "docs/inspecting.md", test, &[]);
    types(&mut terminal, "docs/web.md", test, &[]);
    types(&mut terminal, "docs/operating.md", test, &[("NAMESPACE", "shop")]);
    leaves(&mut terminal, &["memcached", "memcachedbackup"]);
    terminal.types("kubectl delete namespace shop --timeout=60s");
}

/// Waits until the release is at this revision or a later one.
fn has_revision(terminal: &mut Terminal, resource: &str, revision: u32) {
    let reached = |said: &str| said.parse::<u32>().is_ok_and(|found| found >= revision);
    terminal.waits(&format!("kubectl get {resource} -o jsonpath='{{.status.deployedRelease.revision}}'"), reached);
}

#[test]
fn projects_of_charts_run_as_the_pages_say() {
    let Some(cluster) = cluster() else { return };
    let Some(mut terminal) = Terminal::on_or_skip(cluster, "default", "page-charts") else { return };
    let (start, test) = (terminal.folder.clone(), "projects_of_charts_run_as_the_pages_say");
    let ready = "kubectl wait --for=condition=Ready memcached --all --timeout=60s";
    chart(&mut terminal, "../hybrid-helm-operator/helm-charts/memcached");
    let looked = types(&mut terminal, "README.md", test, &[]).pop().unwrap();
    assert!(looked.contains("memcached-0.1.0"), "{looked}");
    leaves(&mut terminal, &["memcached"]);
    terminal.folder = start.parent().unwrap().join("projects");
    fs::create_dir(&terminal.folder).unwrap();
    chart(&mut terminal, "memcached");
    let [project, install] = &run_by("docs/projects.md", test)[..] else { panic!("docs/projects.md has two blocks") };
    types_one(&mut terminal, project, &[]);
    terminal.types(ready);
    leaves(&mut terminal, &["memcached"]);
    terminal.types("make helm-chart");
    types_one(&mut terminal, install, &[]);
    terminal.types("helm uninstall cache-operator --namespace cache-operator-system");
    terminal.types("kubectl delete -k config/crd --timeout=60s");
}

#[test]
fn the_quickstart_works_to_its_last_line() {
    let Some(cluster) = cluster() else { return };
    let Some(mut terminal) = Terminal::on_or_skip(cluster, "default", "page-quickstart") else { return };
    chart(&mut terminal, "web");
    let said = types(&mut terminal, "docs/quickstart.md", "the_quickstart_works_to_its_last_line", &[]);
    let last = said.last().unwrap();
    assert!(last.contains("replicaCount") && last.contains("deployed"), "{last}");
    leaves(&mut terminal, &["web"]);
}

/// Makes a project with the kind `Shop`, whose chart is `../shop`.
fn shop(terminal: &mut Terminal) {
    chart(terminal, "../shop");
    terminal.types_all(
        "helm-operator init --domain example.com --project-name shop-operator\n\
         helm-operator create api --group shop --version v1 --kind Shop --helm-chart ../shop",
    );
}

/// Types each line of a block, of which some succeed and others report by the exit code 1 that something changes.
fn compares(terminal: &mut Terminal, script: &str) -> String {
    script.lines().map(|line| terminal.types(&format!("{{ {line}\n}} || test $? = 1"))).collect()
}

#[test]
fn a_shop_is_looked_after_as_the_pages_say() {
    let Some(cluster) = cluster() else { return };
    let Some(mut terminal) = Terminal::on_or_skip(cluster, "prod", "page-shop") else { return };
    let test = "a_shop_is_looked_after_as_the_pages_say";
    shop(&mut terminal);
    let resource = |name: &str, namespace: &str| {
        format!("{{apiVersion: shop.example.com/v1, kind: Shop, metadata: {{name: {name}, namespace: {namespace}}}}}")
    };
    let guarded = block_with("docs/good-charts.md", "lookup \"v1\" \"Secret\"");
    fs::write(terminal.folder.join("helm-charts/memcached/templates/auth.yaml"), guarded).unwrap();
    terminal.types("cp -r ../shop ../shop-0.3.0 && sed -i 's/^version:.*/version: 0.3.0/' ../shop-0.3.0/Chart.yaml");
    terminal.types("mkdir resources && kubectl create namespace prod && kubectl create namespace shop");
    fs::write(terminal.folder.join("resources/shop.yaml"), resource("my-shop", "prod")).unwrap();
    fs::copy(terminal.folder.join("resources/shop.yaml"), terminal.folder.join("config/samples/shop.yaml")).unwrap();
    let allowed = "s/^  kind: Shop/&\\n  dependsOnAnnotation: {kinds: [Database.db.example.com]}/";
    terminal.types(&format!("sed -i '{allowed}' watches.yaml && make manifests"));
    types_one(&mut terminal, "make install\nmake run", &[]);
    for (name, namespace) in [("my-shop", "prod"), ("web", "prod"), ("web", "shop")] {
        terminal.types(&format!("echo '{}' | kubectl apply -f -", resource(name, namespace)));
    }
    terminal.types("kubectl wait --for=condition=Ready shop --all --all-namespaces --timeout=60s");
    let [plans, planned] = &run_by("docs/diff.md", test)[..] else { panic!("docs/diff.md has two blocks") };
    let said = compares(&mut terminal, plans);
    assert!(said.contains("Shop prod/my-shop") && !said.contains("error"), "{said}");
    let [healthy, checks] = &run_by("docs/gitops.md", test)[..] else { panic!("docs/gitops.md has two blocks") };
    assert!(types_one(&mut terminal, healthy, &[]).contains("prod_my-shop-memcached_apps_Deployment"));
    assert!(!compares(&mut terminal, checks).contains("error:"));
    terminal.types("kubectl annotate shop my-shop helm.sdk.operatorframework.io/dry-run=true");
    types_one(&mut terminal, planned, &[]);
    let password = "kubectl get secret web-auth -o jsonpath={.data.password}";
    let generated = terminal.types(password);
    for revision in 1..=3 {
        let patch = format!("kubectl patch shop web --type=merge -p '{{\"spec\": {{\"replicaCount\": {revision}}}}}'");
        terminal.types(&patch);
        has_revision(&mut terminal, "shop web", revision);
    }
    assert_eq!(terminal.types(password), generated, "the guard of the page for authors of charts keeps it");
    assert_eq!(generated.len(), 44, "{generated}");
    let [values, revisions] = &run_by("docs/operating.md", test)[..] else {
        panic!("docs/operating.md has two blocks")
    };
    assert!(types_one(&mut terminal, values, &[]).contains("replicaCount"));
    assert!(compares(&mut terminal, revisions).contains("deployed"));
    types(&mut terminal, "docs/watches.md", test, &[]);
    types(&mut terminal, "docs/charts.md", test, &[("NAMESPACE", "shop")]);
    leaves(&mut terminal, &["shop"]);
    terminal.types("kubectl delete namespace prod shop --timeout=60s");
}

#[test]
fn the_charts_install_as_the_page_says() {
    let Some(cluster) = cluster() else { return };
    let Some(mut terminal) = Terminal::on_or_skip(cluster, "default", "page-install") else { return };
    shop(&mut terminal);
    let charts = root().join("charts");
    let instead = [("$CHARTS", charts.to_str().unwrap()), ("bases/example.com_", "bases/shop.example.com_")];
    types(&mut terminal, "docs/installing.md", "the_charts_install_as_the_page_says", &instead);
    terminal.types("kubectl delete -k config/crd --timeout=60s");
}

#[test]
fn charts_are_checked_as_the_page_for_their_authors_says() {
    let mut terminal = Terminal::without_cluster("page-authors");
    chart(&mut terminal, "../memcached");
    chart(&mut terminal, "../memcached-0.2.0");
    terminal.types_all(
        "helm-operator init --domain my.domain\n\
         helm-operator create api --group cache --version v1 --kind Memcached --helm-chart ../memcached\n\
         mv config/samples/cache_v1_memcached.yaml config/samples/memcached.yaml\n\
         sed -i s/cache_v1_// config/samples/Kustomization\n\
         sed -i 's/^version:.*/version: 0.2.0/' ../memcached-0.2.0/Chart.yaml",
    );
    for script in run_by("docs/good-charts.md", "charts_are_checked_as_the_page_for_their_authors_says") {
        compares(&mut terminal, &script);
    }
}

#[test]
fn the_release_of_the_page_for_flux_renders() {
    let mut terminal = Terminal::without_cluster("page-flux");
    let release: Value = serde_yaml::from_str(&block_with("docs/gitops.md", "kind: HelmRelease")).unwrap();
    fs::write(terminal.folder.join("values.yaml"), release["spec"]["values"].to_string()).unwrap();
    let chart = root().join(release["spec"]["chart"]["spec"]["chart"].as_str().unwrap());
    let rendered = terminal.types(&format!("helm-operator template shop-operator {} -f values.yaml", chart.display()));
    assert!(
        rendered.contains("oci://registry.example.com/charts/shop") && rendered.contains("- shops/status"),
        "{rendered}"
    );
}

#[test]
fn a_project_of_operator_sdk_moves_as_the_pages_say() {
    let Some(scaffold) = shared_cases::path("upstream-state/scaffold") else { return };
    let Some(recording) = shared_cases::path("upstream-state/operator-sdk") else { return };
    let Some(cluster) = cluster() else { return };
    let namespace = cluster.namespace("moves").unwrap();
    let Some(mut terminal) = Terminal::on_or_skip(cluster, namespace.name(), "page-moves") else { return };
    let test = "a_project_of_operator_sdk_moves_as_the_pages_say";
    let start = terminal.folder.clone();
    let copy = format!("cp -r {} memcached-operator && chmod -R u+w memcached-operator", scaffold.display());
    terminal.types_all(&copy);
    types(&mut terminal, "docs/projects.md", test, &[]);
    assert!(terminal.types("helm-operator lint").contains("0 errors, 0 warnings"));

    // The recorded release is of another group, version and chart than the project.
    terminal.folder = start.join("hour");
    fs::create_dir(&terminal.folder).unwrap();
    terminal.types_all(&copy);
    terminal.types_all(
        "cd memcached-operator\n\
         sample=config/samples/cache_v1alpha1_memcached.yaml\n\
         sed -i 's/example.com/my.domain/g; s/v1alpha1/v1/g' PROJECT watches.yaml config/crd/bases/* $sample\n\
         rm -r helm-charts/memcached && helm create helm-charts/memcached\n\
         sed -i '/^spec:/,$d' $sample && echo 'spec: {replicaCount: 3}' >> $sample\n\
         kubectl apply -k config/crd && kubectl wait --for=condition=Established crd --all\n\
         kubectl create namespace memcached-operator-system\n\
         kubectl create deployment -n memcached-operator-system memcached-operator-controller-manager --image old",
    );
    terminal.folder = start.join("hour");
    take_over::restore(cluster, &namespace, &recording);
    let pods = take_over::pods(&namespace, 3);
    let specs = "kubectl get deployment,service -o jsonpath='{.items[*].spec}'";
    let (before, mut said) = (terminal.types(specs), Vec::new());
    for script in run_by("docs/from-operator-sdk.md", test) {
        // A comparison reports by the exit code 1 that fields change their managers.
        let is_plan = script.contains("helm-operator diff");
        said.push(if is_plan { compares(&mut terminal, &script) } else { types_one(&mut terminal, &script, &[]) });
        if said.len() == 4 {
            assert_eq!(take_over::pods(&namespace, 3), pods, "no pod restarts");
            assert_eq!(terminal.types(specs), before, "defaults stay");
        }
    }
    let [_, plan, _, switched, _] = &said[..] else { panic!("docs/from-operator-sdk.md has five blocks") };
    assert!(plan.contains("takes fields from sdk-helm-operator"), "{plan}");
    assert!(!plan.contains("sessionAffinity") && !plan.contains("dnsPolicy"), "defaults stay: {plan}");
    assert!(switched.contains("Upgrade complete") && switched.contains("revision 2"), "{switched}");
    let kept = take_over::pods(&namespace, 4);
    assert!(pods.iter().all(|pod| kept.get(pod.0) == Some(pod.1)), "{kept:?}");
    leaves(&mut terminal, &["memcached"]);
    terminal.types("kubectl delete namespace memcached-operator-system --wait=false");
}
