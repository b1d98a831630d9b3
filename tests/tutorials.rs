//! Public tutorials for operator-sdk, typed command by command in an empty folder, with `helm-operator` in place of
//! `operator-sdk`.
//!
//! `make tutorials` prints each command with its duration and the last line of its output.

use std::fs::{self, File};
use std::net::TcpListener;
use std::os::unix::fs::symlink;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard};
use std::time::Instant;

use rustix::process::{Pid, Signal, kill_process_group};
use test_cluster::{Options, TestCluster, eventually};

const PROGRAM: &str = env!("CARGO_BIN_EXE_memcached-operator");

/// The addresses at which `make run` serves metrics and probes; only one tutorial at a time can use them.
const PORTS: [&str; 2] = ["0.0.0.0:8080", "0.0.0.0:8081"];
static TURN: Mutex<()> = Mutex::new(());

/// A shell in an empty folder, on a cluster without any of our objects.
struct Terminal {
    cluster: TestCluster,
    folder: PathBuf,
    path: String,
    running: Option<Child>,
    typed: Vec<String>,
    _turn: MutexGuard<'static, ()>,
}

impl Terminal {
    /// Opens it in a folder with this name, which is also the name of the project's program, because builds share a
    /// folder. Returns `None` if the control plane is not built or the ports are in use.
    fn open_or_skip(name: &str) -> Option<Terminal> {
        TestCluster::shared_or_skip()?;
        let turn = TURN.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some(port) = PORTS.iter().find(|port| TcpListener::bind(port).is_err()) {
            eprintln!("skipped: {port} is in use, and `make run` listens there");
            return None;
        }
        let cluster = TestCluster::start(Options::default()).unwrap();
        let folder = target().join("scaffold").join(name).join(name);
        let _ = fs::remove_dir_all(&folder);
        let programs = folder.parent().unwrap().join("bin");
        fs::create_dir_all(&folder).unwrap();
        let _ = fs::remove_dir_all(&programs);
        fs::create_dir(&programs).unwrap();
        fs::copy(PROGRAM, programs.join("helm-operator")).unwrap();
        symlink(cluster.bin("kubectl"), programs.join("kubectl")).unwrap();
        let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap());
        Some(Terminal { cluster, folder, path, running: None, typed: Vec::new(), _turn: turn })
    }

    fn shell(&self, line: &str) -> Command {
        let mut shell = Command::new("bash");
        shell.args(["-c", line]).current_dir(&self.folder).env("PATH", &self.path);
        shell.env("KUBECONFIG", self.cluster.kubeconfig_path());
        shell.env("CARGO_TARGET_DIR", target()).env("CARGO_NET_OFFLINE", "true").stdin(Stdio::null());
        shell
    }

    /// Types a line; returns whether it succeeded, and its output.
    fn try_type(&mut self, line: &str) -> (bool, String) {
        let began = Instant::now();
        let output = self.shell(line).output().unwrap();
        let said = said(&output);
        let last = said.lines().last().unwrap_or_default();
        self.typed.push(format!("| `{line}` | {:.1} | {last} |", began.elapsed().as_secs_f64()));
        (output.status.success(), said)
    }

    /// Types a line that must succeed; returns its output.
    fn types(&mut self, line: &str) -> String {
        let (done, said) = self.try_type(line);
        assert!(done, "{line}: {said}");
        said
    }

    /// Types a line repeatedly until its output satisfies `wanted`.
    fn waits(&mut self, line: &str, wanted: impl Fn(&str) -> bool) {
        let said = eventually(line, || {
            let output = self.shell(line).output().unwrap();
            let said = said(&output);
            if output.status.success() && wanted(said.trim()) { Ok(said) } else { Err(said) }
        });
        self.typed.push(format!("| `{line}` | | {} |", said.lines().last().unwrap_or_default()));
    }

    /// Starts a line in another terminal, and waits for this text in its log.
    fn starts(&mut self, line: &str, text: &str) {
        let began = Instant::now();
        let log = self.folder.with_file_name("run.log");
        let file = File::create(&log).unwrap();
        let mut shell = self.shell(line);
        shell.stdout(file.try_clone().unwrap()).stderr(file).process_group(0);
        self.running = Some(shell.spawn().unwrap());
        let found = eventually(text, || {
            let said = fs::read_to_string(&log).unwrap();
            said.lines().find(|line| line.contains(text)).map(str::to_owned).ok_or(said)
        });
        self.typed.push(format!("| `{line}` | {:.1} | {found} |", began.elapsed().as_secs_f64()));
    }

    /// Presses Ctrl-C where the line runs; returns its log.
    fn interrupts(&mut self) -> String {
        let mut child = self.running.take().unwrap();
        kill_process_group(Pid::from_child(&child), Signal::INT).unwrap();
        eventually("the end", || child.try_wait().unwrap().ok_or("still running"));
        fs::read_to_string(self.folder.with_file_name("run.log")).unwrap()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        if let Some(mut child) = self.running.take() {
            let _ = kill_process_group(Pid::from_child(&child), Signal::KILL);
            let _ = child.wait();
        }
        eprintln!("| command | seconds | its last line |\n|---|---|---|\n{}", self.typed.join("\n"));
    }
}

/// Returns the folder that this repository's builds share.
fn target() -> &'static Path {
    Path::new(PROGRAM).ancestors().nth(2).unwrap()
}

fn said(output: &Output) -> String {
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    text(&output.stdout) + &text(&output.stderr)
}

fn words(count: usize) -> impl Fn(&str) -> bool {
    move |said| said.split_whitespace().count() == count
}

#[test]
fn the_tutorial_of_a_kind_in_code_works_to_its_last_line() {
    let Some(mut terminal) = Terminal::open_or_skip("tutorial-code") else { return };
    terminal.types("helm-operator init --domain example.com --repo github.com/example/memcached-operator");
    terminal
        .types("helm-operator create api --group cache --version v1alpha1 --kind Memcached --resource --controller");
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
