//! A shell in an empty folder in which tests type what people type, with `helm-operator`, `kubectl` and `helm` on its
//! path.

use std::fs::{self, File};
use std::net::TcpListener;
use std::os::unix::fs::symlink;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use rustix::process::{Pid, Signal, kill_process_group};
use test_cluster::{Options, TestCluster, eventually};

const PROGRAM: &str = env!("CARGO_BIN_EXE_memcached-operator");

/// The addresses at which `make run` serves metrics and probes; only one terminal at a time can use them.
const PORTS: [&str; 2] = ["0.0.0.0:8080", "0.0.0.0:8081"];
static TURN: Mutex<()> = Mutex::new(());

/// A shell in an empty folder.
pub(crate) struct Terminal {
    pub(crate) folder: PathBuf,
    /// The terminal's own files, which stay where they are when the shell changes its folder.
    own: PathBuf,
    kubeconfig: PathBuf,
    running: Option<Child>,
    typed: Vec<String>,
    /// Dropped last: what runs in the terminal still reaches it.
    _cluster: Option<TestCluster>,
    _turn: Option<MutexGuard<'static, ()>>,
}

impl Terminal {
    /// Opens it on a cluster without any of our objects, in a folder with this name, which is also the name of the
    /// project's program, because builds share a folder. Returns `None` if the control plane is not built or the ports
    /// are in use.
    pub(crate) fn open_or_skip(name: &str) -> Option<Terminal> {
        TestCluster::shared_or_skip()?;
        let turn = turn_or_skip()?;
        let cluster = TestCluster::start(Options::default()).unwrap();
        let kubeconfig = cluster.kubeconfig_path().to_owned();
        let mut terminal = Terminal::open(name, kubeconfig);
        terminal.links(&cluster);
        (terminal._cluster, terminal._turn) = (Some(cluster), Some(turn));
        Some(terminal)
    }

    /// Opens it on this cluster, which lives longer. Its current namespace is `namespace`. Returns `None` if the ports
    /// are in use.
    pub(crate) fn on_or_skip(cluster: &TestCluster, namespace: &str, name: &str) -> Option<Terminal> {
        let turn = turn_or_skip()?;
        let mut terminal = Terminal::open(name, PathBuf::new());
        terminal.kubeconfig = terminal.own.join("kubeconfig");
        let config = cluster.kubeconfig().unwrap();
        fs::write(&terminal.kubeconfig, config.replace("namespace: default", &format!("namespace: {namespace}")))
            .unwrap();
        terminal.links(cluster);
        terminal._turn = Some(turn);
        Some(terminal)
    }

    /// Opens it without a cluster.
    pub(crate) fn without_cluster(name: &str) -> Terminal {
        Terminal::open(name, PathBuf::from("/dev/null"))
    }

    fn open(name: &str, kubeconfig: PathBuf) -> Terminal {
        let own = target().join("scaffold").join(name);
        let folder = own.join(name);
        let _ = fs::remove_dir_all(&own);
        fs::create_dir_all(&folder).unwrap();
        fs::create_dir(own.join("bin")).unwrap();
        let program = own.join("bin/helm-operator");
        // A copy would be busy (`ETXTBSY`) while a process that another thread has started holds the file open for
        // writing.
        fs::hard_link(PROGRAM, &program).or_else(|_| fs::copy(PROGRAM, &program).map(drop)).unwrap();
        Terminal { folder, own, kubeconfig, running: None, typed: Vec::new(), _cluster: None, _turn: None }
    }

    /// Puts the cluster's programs on the path.
    fn links(&self, cluster: &TestCluster) {
        for program in ["kubectl", "helm"] {
            symlink(cluster.bin(program), self.own.join("bin").join(program)).unwrap();
        }
    }

    fn shell(&self, line: &str) -> Command {
        let path = format!("{}:{}", self.own.join("bin").display(), std::env::var("PATH").unwrap());
        let mut shell = Command::new("bash");
        shell.args(["-c", line]).current_dir(&self.folder).env("PATH", path);
        shell.env("KUBECONFIG", &self.kubeconfig).env_remove("WATCH_NAMESPACE").env_remove("MAKEFLAGS");
        shell.env("CARGO_TARGET_DIR", target()).env("CARGO_NET_OFFLINE", "true").stdin(Stdio::null());
        shell
    }

    /// Types a line; returns whether it succeeded, and its output.
    pub(crate) fn try_type(&mut self, line: &str) -> (bool, String) {
        let began = Instant::now();
        let output = self.shell(line).output().unwrap();
        let said = said(&output);
        let last = said.lines().last().unwrap_or_default();
        self.typed.push(format!("| `{line}` | {:.1} | {last} |", began.elapsed().as_secs_f64()));
        (output.status.success(), said)
    }

    /// Types a line that must succeed; returns its output.
    pub(crate) fn types(&mut self, line: &str) -> String {
        let (done, said) = self.try_type(line);
        assert!(done, "{line}: {said}");
        said
    }

    /// Types lines that must all succeed, and stays in the folder in which they end; returns their output.
    pub(crate) fn types_all(&mut self, lines: &str) -> String {
        let place = self.own.join("place");
        let script = format!("set -euo pipefail\ntrap 'pwd > {}' EXIT\n{lines}", place.display());
        let said = self.types(&script);
        self.folder = fs::read_to_string(&place).unwrap().trim().into();
        said
    }

    /// Types a line repeatedly until its output satisfies `wanted`.
    pub(crate) fn waits(&mut self, line: &str, wanted: impl Fn(&str) -> bool) {
        let said = eventually(line, || {
            let output = self.shell(line).output().unwrap();
            let said = said(&output);
            if output.status.success() && wanted(said.trim()) { Ok(said) } else { Err(said) }
        });
        self.typed.push(format!("| `{line}` | | {} |", said.lines().last().unwrap_or_default()));
    }

    /// Starts a line in another terminal, and waits for this text in its log.
    pub(crate) fn starts(&mut self, line: &str, text: &str) {
        let began = Instant::now();
        let log = self.own.join("run.log");
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

    /// Returns whether a line runs in the other terminal.
    pub(crate) fn is_running(&self) -> bool {
        self.running.is_some()
    }

    /// Presses Ctrl-C where the line runs; returns its log.
    pub(crate) fn interrupts(&mut self) -> String {
        let mut child = self.running.take().unwrap();
        kill_process_group(Pid::from_child(&child), Signal::INT).unwrap();
        eventually("the end", || child.try_wait().unwrap().ok_or("still running"));
        fs::read_to_string(self.own.join("run.log")).unwrap()
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

fn turn_or_skip() -> Option<MutexGuard<'static, ()>> {
    let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(port) = PORTS.iter().find(|port| TcpListener::bind(port).is_err()) {
        eprintln!("skipped: {port} is in use, and `make run` listens there");
        return None;
    }
    Some(turn)
}

/// Returns the folder that this repository's builds share.
fn target() -> &'static Path {
    Path::new(PROGRAM).ancestors().nth(2).unwrap()
}

fn said(output: &Output) -> String {
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    text(&output.stdout) + &text(&output.stderr)
}
