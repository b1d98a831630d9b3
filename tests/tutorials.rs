//! Public tutorials for operator-sdk, typed command by command in an empty folder, with `helm-operator` instead of
//! `operator-sdk`.
//!
//! `make tutorials` prints each command with its duration and the last line of its output.

use std::path::Path;

use crate::shared_build::{share_build, share_library};
use crate::shell::Terminal;

fn words(count: usize) -> impl Fn(&str) -> bool {
    move |said| said.split_whitespace().count() == count
}

#[test]
fn the_tutorial_of_a_kind_in_code_works_to_its_last_line() {
    let Some(mut terminal) = Terminal::open_or_skip("tutorial-code") else { return };
    terminal.types("helm-operator init --domain example.com --repo github.com/example/memcached-operator");
    terminal
        .types("helm-operator create api --group cache --version v1alpha1 --kind Memcached --resource --controller");
    share_build(&terminal.folder);
    terminal.types("make generate");
    terminal.types("make manifests");
    terminal.types("make install");
    terminal.types("kubectl wait --for=condition=Established crd --all");
    terminal.starts("make run", "Starting Controller");
    terminal.types("cat config/samples/cache_v1alpha1_memcached.yaml");
    terminal.types("kubectl apply -f config/samples/cache_v1alpha1_memcached.yaml");
    terminal.waits("kubectl get deployment memcached-sample -o jsonpath={.status.readyReplicas}", |said| said == "2");
    let nodes = "kubectl get memcached/memcached-sample -o jsonpath='{.status.nodes[*]}'";
    terminal.waits(nodes, words(2));
    let pods = terminal.types("kubectl get pods --sort-by=.metadata.name -o jsonpath='{.items[*].metadata.name}'");
    assert_eq!(terminal.types(nodes), pods);
    terminal.types("kubectl patch memcached memcached-sample -p '{\"spec\":{\"size\": 5}}' --type=merge");
    terminal.waits(nodes, words(5));
    let (done, refusal) =
        terminal.try_type("kubectl patch memcached memcached-sample -p '{\"spec\":{\"size\": -1}}' --type=merge");
    assert!(!done && refusal.contains("spec.size"), "{refusal}");
    terminal.types("kubectl delete -f config/samples/cache_v1alpha1_memcached.yaml");
    terminal.waits("kubectl get deployments,pods -o name", str::is_empty);
    let log = terminal.interrupts();
    assert!(!log.contains("panicked") && !log.contains("Api(Status"), "{log}");
    terminal.types("make uninstall");
    follow_it_step_by_step(terminal);
}

/// Types what the tutorial in steps does after the same two commands: install and run in one line, the status as JSON, and the deployment.
fn follow_it_step_by_step(mut terminal: Terminal) {
    terminal.starts("make install run", "Starting Controller");
    terminal.types("kubectl wait --for=condition=Established crd --all");
    terminal.types("kubectl apply -f config/samples/cache_v1alpha1_memcached.yaml");
    let status = "kubectl get memcached memcached-sample -o jsonpath='{.status.nodes}'";
    let is_list =
        |said: &str| said.starts_with("[\"memcached-sample-") && said.matches("memcached-sample-").count() == 2;
    terminal.waits(status, is_list);
    terminal.types("kubectl get deployment memcached-sample -o yaml");
    terminal.types("kubectl delete memcached memcached-sample");
    terminal.waits("kubectl get deployments,pods -o name", str::is_empty);
    let log = terminal.interrupts();
    assert!(log.matches("Ignoring since object must be deleted").count() <= 1, "{log}");
    terminal.types("make deploy IMG=registry.example.com/memcached-operator:v0.0.1");
    let deployment = "kubectl -n tutorial-code-system get deployment tutorial-code-controller-manager";
    let manager = format!("{deployment} -o jsonpath='{{.spec.template.spec.containers[*].name}}'");
    assert_eq!(terminal.types(&manager), "manager", "kubectl logs -c manager");
    terminal.types("make undeploy");
    assert!(!terminal.try_type(deployment).0);
}

#[test]
fn the_tutorial_of_a_chart_and_a_kind_in_code_works_to_its_last_line() {
    let Some(mut terminal) = Terminal::open_or_skip("tutorial-hybrid") else { return };
    terminal.types(
        "helm-operator init --plugins=hybrid.helm.sdk.operatorframework.io --project-version=\"3\" --domain my.domain \
         --repo=github.com/example/memcached-operator",
    );
    terminal.types(
        "helm-operator create api --plugins helm.sdk.operatorframework.io/v1 --group cache --version v1 --kind Memcached",
    );
    terminal.types(
        "printf 'y\\ny\\n' | helm-operator create api --group=cache --version v1 --kind MemcachedBackup --plugins=go/v3",
    );
    share_library(&terminal.folder);
    share_build(&terminal.folder);
    terminal.types("make generate");
    terminal.types("make manifests");
    terminal.types("make install");
    terminal.types("kubectl wait --for=condition=Established crd --all");
    terminal.starts("make run", "Starting Controller");
    terminal.types("kubectl apply -f config/samples/cache_v1_memcached.yaml");
    terminal.types("kubectl wait --for=condition=Ready memcached/memcached-sample --timeout=60s");
    terminal.types("kubectl apply -f config/samples/cache_v1_memcachedbackup.yaml");
    terminal.waits("kubectl get memcachedbackup memcachedbackup-sample -o jsonpath='{.status.nodes[*]}'", words(2));
    terminal.types("kubectl get memcacheds,memcachedbackups");
    terminal.types("kubectl delete -f config/samples/cache_v1_memcached.yaml");
    terminal.types("kubectl delete -f config/samples/cache_v1_memcachedbackup.yaml");
    terminal.waits("kubectl get deployments,pods -o name", str::is_empty);
    let log = terminal.interrupts();
    assert!(!log.contains("panicked") && !log.contains("Api(Status"), "{log}");
    terminal.types("make uninstall");
}

#[test]
fn the_tutorial_of_reverse_words_deploys_the_operator_for_a_namespace_of_its_own() {
    let Some(mut terminal) = Terminal::open_or_skip("tutorial-words") else { return };
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/reverse-words");
    terminal.types(&format!("cp -r {0}/config {0}/Makefile .", example.display()));
    terminal.types("sed -i \"s/namespace: .*/namespace: words/g\" config/default/kustomization.yaml");
    terminal.types("kubectl create ns words");
    terminal.types("make deploy IMG=quay.io/example/reverse-words-operator:v0.0.1");
    let watch =
        "{\"name\": \"WATCH_NAMESPACE\", \"valueFrom\": {\"fieldRef\": {\"fieldPath\": \"metadata.namespace\"}}}";
    let containers = format!("[{{\"name\": \"manager\", \"env\": [{watch}]}}]");
    let patch = format!("{{\"spec\": {{\"template\": {{\"spec\": {{\"containers\": {containers}}}}}}}}}");
    let deployment = "deployment/reverse-words-operator-controller-manager";
    terminal.types(&format!("kubectl -n words patch {deployment} -p '{patch}'"));
    terminal.types(&format!("kubectl -n words rollout status {deployment} --timeout=60s"));
    let env = "'{.spec.template.spec.containers[0].env[?(@.name==\"WATCH_NAMESPACE\")].valueFrom.fieldRef.fieldPath}'";
    let watched = terminal.types(&format!("kubectl -n words get {deployment} -o jsonpath={env}"));
    assert_eq!(watched, "metadata.namespace");
    terminal.types("kubectl wait --for=condition=Established crd --all");
    terminal.types("kubectl -n words apply -f config/samples/apps_v1alpha1_reversewordsapp.yaml");
    terminal.types("kubectl -n words delete -f config/samples/apps_v1alpha1_reversewordsapp.yaml");
    terminal.types("make undeploy");
    let (found, _) = terminal.try_type(&format!("kubectl -n words get {deployment}"));
    assert!(!found);
}

#[test]
fn a_tutorial_of_2019_learns_what_its_commands_are_called_today() {
    let Some(mut terminal) = Terminal::open_or_skip("tutorial-old") else { return };
    for (line, today) in [
        ("helm-operator new memcached-operator", "init --domain"),
        ("helm-operator add api --api-version=cache.example.com/v1alpha1 --kind=Memcached", "create api"),
        ("helm-operator add controller --api-version=cache.example.com/v1alpha1 --kind=Memcached", "create api"),
        ("helm-operator generate k8s", "make generate"),
        ("helm-operator build example/memcached-operator:v0.0.1", "make docker-build"),
        ("helm-operator up local", "make run"),
    ] {
        let (done, said) = terminal.try_type(line);
        assert!(!done && said.contains(today), "{line}: {said}");
    }
}
