//! The processes of a cluster that we started: starts, signals and restarts them.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{self, Child, Command, Stdio};
use std::slice;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::error::{Attempt, Error};
use crate::kubeconfig::{self, User};
use crate::ports::Ports;
use crate::tools::Tools;
use crate::watchdog::Watchdog;
use crate::{Component, Options, Processes, RealNode, binaries, folder, real_node};

/// The user that tests run as.
pub(crate) const ADMIN: &str = "admin";
/// The user of the operator under test, with separate audit entries.
pub(crate) const OPERATOR: &str = "operator";

const START_LIMIT: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(50);
const LOG_LINES: usize = 15;

/// A running control plane. Stops its processes and removes its directory on drop.
#[derive(Debug)]
pub(crate) struct ControlPlane {
    folder: PathBuf,
    binaries: PathBuf,
    ports: Ports,
    options: Options,
    users: Vec<User>,
    processes: Mutex<BTreeMap<Component, Child>>,
    watchdog: Mutex<Watchdog>,
}

impl ControlPlane {
    /// Prepares a control plane in an empty directory; starts only the watchdog.
    pub(crate) fn new(folder: &Path, binaries: PathBuf, options: Options) -> Result<ControlPlane, Error> {
        Ok(ControlPlane {
            folder: folder.to_owned(),
            binaries,
            ports: Ports::choose(seed())?,
            options,
            users: users()?,
            processes: Mutex::default(),
            watchdog: Mutex::new(Watchdog::start(folder)?),
        })
    }

    /// Starts the selected processes, and waits until the API answers and, with a node, pods can run.
    pub(crate) fn bring_up(&self, tools: &Tools) -> Result<(), Error> {
        self.write_files()?;
        self.spawn(Component::Etcd)?;
        // An API server that starts too early waits a second before it retries.
        self.wait_until("etcd listens", || listens(self.ports.etcd))?;
        self.spawn(Component::ApiServer)?;
        self.wait_until("the API server has its certificate", || {
            self.certificate().is_ok_and(|text| text.ends_with(b"-----\n"))
        })?;
        self.write_kubeconfigs()?;
        self.wait_for_api(tools)?;
        match self.options.processes {
            Processes::ApiServer => Ok(()),
            Processes::All => self.bring_up_node(tools),
        }
    }

    fn bring_up_node(&self, tools: &Tools) -> Result<(), Error> {
        self.spawn(Component::ControllerManager)?;
        self.spawn(Component::Scheduler)?;
        match &self.options.node {
            None => self.simulate_node(tools)?,
            Some(node) => self.start_real_node(node, tools)?,
        }
        tools.kubectl(["wait", "--for=condition=Ready", "--timeout=60s", "node/node-0"], "")?;
        tools
            .kubectl(["wait", "--for=create", "--timeout=60s", "--namespace=default", "serviceaccount/default"], "")?;
        Ok(())
    }

    fn simulate_node(&self, tools: &Tools) -> Result<(), Error> {
        self.spawn(Component::Kwok)?;
        tools.kubectl(["apply", "-f", "-"], include_str!("../manifests/node.yaml")).map(drop)
    }

    fn start_real_node(&self, node: &RealNode, tools: &Tools) -> Result<(), Error> {
        node.write_files(&self.folder)?;
        real_node::bring_up_network()?;
        self.spawn(Component::Containerd)?;
        self.wait_until("containerd answers", real_node::containerd_answers)?;
        node.import_images()?;
        self.spawn(Component::Kubelet)?;
        self.spawn(Component::KubeProxy)?;
        tools.kubectl(["apply", "-f", "-"], &RealNode::api_server(self.ports.api_server))?;
        self.wait_until("the kubelet has registered its node", || tools.kubectl(["get", "node/node-0"], "").is_ok())
    }

    pub(crate) fn kubeconfig(folder: &Path, user: &str) -> PathBuf {
        // `system:kube-scheduler` uses `kube-scheduler.kubeconfig`.
        folder.join(format!("{}.kubeconfig", user.rsplit(':').next().unwrap_or(user)))
    }

    pub(crate) fn kubeconfig_with_token(&self, token: &str) -> Result<String, Error> {
        Ok(kubeconfig::with_token(self.ports.api_server, &self.certificate()?, token))
    }

    /// Signals a process and waits until it has exited.
    pub(crate) fn end(&self, component: Component, signal: Signal) -> Result<(), Error> {
        let Some(mut child) = self.processes().remove(&component) else { return Ok(()) };
        send(&child, signal);
        let _ = fs::remove_file(self.folder.join(format!("{component}.pid")));
        child.wait().map(drop).attempt(|| format!("wait for {component}"))
    }

    /// Signals a process, if it runs.
    pub(crate) fn signal(&self, component: Component, signal: Signal) {
        if let Some(child) = self.processes().get(&component) {
            send(child, signal);
        }
    }

    /// Kills a process if it runs, and starts it with the same ports and data.
    pub(crate) fn restart(&self, component: Component, tools: &Tools) -> Result<(), Error> {
        self.end(component, Signal::KILL)?;
        self.spawn(component)?;
        match component {
            Component::Etcd | Component::ApiServer => self.wait_for_api(tools),
            _ => Ok(()),
        }
    }

    pub(crate) fn is_running(&self, component: Component) -> bool {
        self.processes().get_mut(&component).is_some_and(|child| matches!(child.try_wait(), Ok(None)))
    }

    /// Keeps the processes running after drop.
    pub(crate) fn stand_down(&self) -> Result<(), Error> {
        let stood_down = self.watchdog().stand_down();
        self.processes().clear();
        stood_down
    }

    fn write_files(&self) -> Result<(), Error> {
        let tokens: String = self.users.iter().map(User::line).collect();
        let policy = self.options.audit_policy.as_deref();
        let files = [
            ("tokens.csv", tokens.as_str()),
            ("stages.yaml", include_str!("../manifests/stages.yaml")),
            ("audit-policy.yaml", policy.unwrap_or(include_str!("../manifests/audit-policy.yaml"))),
        ];
        files.into_iter().try_for_each(|(name, text)| write(&self.folder.join(name), text))
    }

    fn write_kubeconfigs(&self) -> Result<(), Error> {
        self.users.iter().try_for_each(|user| {
            write(&ControlPlane::kubeconfig(&self.folder, &user.name), &self.kubeconfig_with_token(&user.token)?)
        })
    }

    /// Returns the API server's self-signed certificate.
    fn certificate(&self) -> Result<Vec<u8>, Error> {
        let path = self.folder.join("certs/apiserver.crt");
        fs::read(&path).attempt(|| format!("read {}", path.display()))
    }

    fn spawn(&self, component: Component) -> Result<(), Error> {
        let log_path = self.log_path(component);
        let open = || File::options().create(true).append(true).open(&log_path);
        let (log, errors) =
            open().and_then(|log| Ok((log, open()?))).attempt(|| format!("open {}", log_path.display()))?;
        let mut command = Command::new(binaries::tool(component.name(), slice::from_ref(&self.binaries)));
        command.args(component.arguments(&self.folder, &self.ports, &self.options));
        command.current_dir(&self.folder).stdin(Stdio::null()).stdout(log).stderr(errors);
        command.process_group(self.watchdog().group()).envs([binaries::GOGC]);
        let child = command.spawn().attempt(|| format!("start {component}"))?;
        let pid = child.id();
        self.processes().insert(component, child);
        folder::record_process(&self.folder, component.name(), pid)
    }

    fn wait_for_api(&self, tools: &Tools) -> Result<(), Error> {
        let ready = ["get", "--raw", "/readyz", "--request-timeout=5s"];
        self.wait_until("the API server is ready", || {
            listens(self.ports.api_server) && tools.kubectl(ready, "").is_ok()
        })
    }

    fn wait_until(&self, what: &str, mut done: impl FnMut() -> bool) -> Result<(), Error> {
        let began = Instant::now();
        while !done() {
            self.check_running()?;
            if began.elapsed() > START_LIMIT {
                let log = self.log_end(Component::ApiServer);
                return Err(Error::TimedOut { what: what.to_owned(), seconds: START_LIMIT.as_secs(), log });
            }
            thread::sleep(POLL);
        }
        Ok(())
    }

    fn check_running(&self) -> Result<(), Error> {
        let ended = self.processes().iter_mut().find_map(|(name, child)| Some((*name, child.try_wait().ok()??)));
        match ended {
            Some((component, status)) => Err(Error::Ended { component, status, log: self.log_end(component) }),
            None => Ok(()),
        }
    }

    fn log_path(&self, component: Component) -> PathBuf {
        self.folder.join(format!("{component}.log"))
    }

    fn log_end(&self, component: Component) -> String {
        let text = fs::read(self.log_path(component)).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(LOG_LINES)..].join("\n")
    }

    fn processes(&self) -> MutexGuard<'_, BTreeMap<Component, Child>> {
        self.processes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn watchdog(&self) -> MutexGuard<'_, Watchdog> {
        self.watchdog.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for ControlPlane {
    fn drop(&mut self) {
        self.watchdog().end(|| self.processes().values_mut().for_each(|child| drop(child.wait())));
    }
}

/// Sends a signal. The child has not been reaped, so its pid cannot have been reused; if it has exited, the signal has
/// no effect.
fn send(child: &Child, signal: Signal) {
    if let Some(pid) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
        let _ = kill_process(pid, signal);
    }
}

fn users() -> Result<Vec<User>, Error> {
    let people = [ADMIN, OPERATOR].into_iter().map(|name| (name, "test-cluster:people"));
    let machinery =
        Component::ALL.into_iter().filter_map(|component| Some((component.user()?, "test-cluster:control-plane")));
    people.chain(machinery).map(|(name, group)| User::new(name, group)).collect()
}

fn listens(port: u16) -> bool {
    TcpStream::connect_timeout(&SocketAddr::from(([127, 0, 0, 1], port)), POLL).is_ok()
}

fn write(path: &Path, text: &str) -> Result<(), Error> {
    fs::write(path, text).attempt(|| format!("write {}", path.display()))
}

/// Returns a seed that differs between processes and between the clusters of one process.
fn seed() -> u64 {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    u64::from(process::id()) * 1009 + NUMBER.fetch_add(211, Ordering::Relaxed)
}
