//! A running cluster: start it, ask it, break it. Where its binaries come from is decided in `binaries`, what each
//! process is told in `component`, and who cleans up in `watchdog`.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};
use std::{env, iter, process, thread};

use rustix::process::{Pid, Signal, kill_process};

use crate::binaries::{self, Binaries};
use crate::error::{Attempt, Error};
use crate::kubeconfig::{self, User};
use crate::ports::Ports;
use crate::watchdog::Watchdog;
use crate::{Component, Namespace, Request, audit, folder};

const ADMIN: &str = "admin";
const OPERATOR: &str = "operator";
const START_LIMIT: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(50);

/// What kind of cluster to start; the default is a temporary one without an audit log.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Whether to log each request for [`TestCluster::requests`].
    pub audit: bool,
    /// Where to keep the cluster's files; must not exist. By default a temporary folder.
    pub folder: Option<PathBuf>,
}

/// A control plane with one node. Dropping it ends the processes and removes their folder.
#[derive(Debug)]
pub struct TestCluster {
    folder: PathBuf,
    kubeconfig: PathBuf,
    tools: Vec<PathBuf>,
    own: Option<Own>,
}

/// What there is only for a cluster that we started.
#[derive(Debug)]
struct Own {
    binaries: PathBuf,
    ports: Ports,
    audit: bool,
    users: Vec<User>,
    processes: Mutex<BTreeMap<Component, Child>>,
    watchdog: Mutex<Watchdog>,
}

impl TestCluster {
    /// Starts a cluster and waits until its node is ready; some seconds.
    ///
    /// # Errors
    /// [`Error::NoBinaries`] if there is nothing to start, others if a process fails.
    pub fn start(options: Options) -> Result<TestCluster, Error> {
        folder::sweep();
        match Binaries::find()? {
            Binaries::Existing(kubeconfig) => TestCluster::existing(kubeconfig),
            Binaries::Folder(binaries) => TestCluster::start_own(binaries, options),
        }
    }

    /// The one cluster that all tests of this process share, started by the first that asks.
    ///
    /// # Errors
    /// As [`TestCluster::start`].
    pub fn shared() -> Result<&'static TestCluster, Error> {
        static SHARED: OnceLock<Result<TestCluster, Error>> = OnceLock::new();
        match SHARED.get_or_init(|| TestCluster::start(Options { audit: true, folder: None })) {
            Ok(cluster) => Ok(cluster),
            Err(Error::NoBinaries { looked_in, missing, built }) => {
                Err(Error::NoBinaries { looked_in: looked_in.clone(), missing: missing.clone(), built: built.clone() })
            }
            Err(error) => Err(Error::Shared(error.to_string())),
        }
    }

    /// [`TestCluster::shared`] for tests: `None`, after saying so, when there are no binaries and `CI` is not set.
    ///
    /// # Panics
    /// When the cluster should start and does not.
    #[must_use]
    #[allow(clippy::panic, reason = "called by tests only, where a panic is the failure")]
    pub fn shared_or_skip() -> Option<&'static TestCluster> {
        match TestCluster::shared() {
            Ok(cluster) => Some(cluster),
            Err(error) if error.is_no_binaries() && env::var_os("CI").is_none() => {
                let _ = writeln!(std::io::stderr(), "skipped: {error}");
                None
            }
            Err(error) => panic!("{error}"),
        }
    }

    /// Ends a cluster that [`TestCluster::leave_running`] left in this folder, and removes the folder.
    ///
    /// # Errors
    /// When the folder cannot be removed.
    pub fn end_left_running(folder: &Path) -> Result<bool, Error> {
        if !folder.exists() {
            return Ok(false);
        }
        let ended = folder::end_processes(folder);
        fs::remove_dir_all(folder).attempt(|| format!("remove {}", folder.display()))?;
        Ok(ended > 0)
    }

    /// Whether the API server of a cluster that was left running in this folder still runs.
    #[must_use]
    pub fn is_left_running(folder: &Path) -> bool {
        folder::runs(folder, Component::ApiServer.name())
    }

    /// The administrator's kubeconfig.
    #[must_use]
    pub fn kubeconfig_path(&self) -> &Path {
        &self.kubeconfig
    }

    /// The administrator's kubeconfig, as text.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn kubeconfig(&self) -> Result<String, Error> {
        read(&self.kubeconfig)
    }

    /// A kubeconfig of the user `operator`, who has the administrator's rights and whose requests can be told apart.
    /// On an existing cluster it is the administrator's.
    #[must_use]
    pub fn operator_kubeconfig_path(&self) -> PathBuf {
        match self.own {
            Some(_) => self.user_kubeconfig(OPERATOR),
            None => self.kubeconfig.clone(),
        }
    }

    /// A kubeconfig for whoever holds `token`, say a ServiceAccount (`kubectl create token NAME`).
    ///
    /// # Errors
    /// [`Error::NotOurs`] on an existing cluster.
    pub fn kubeconfig_with_token(&self, token: &str) -> Result<String, Error> {
        let own = self.own(Component::ApiServer)?;
        Ok(kubeconfig::with_token(own.ports.api_server, &self.certificate()?, token))
    }

    /// Where the logs (`NAME.log`) and the audit log are.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// A tool of the cluster (`kubectl`, `helm`), else its bare name for `PATH` to find.
    #[must_use]
    pub fn bin(&self, name: &str) -> PathBuf {
        binaries::tool(name, &self.tools)
    }

    /// A command that runs a tool as the administrator, with caches in the cluster's folder.
    #[must_use]
    pub fn command(&self, name: &str) -> Command {
        let mut command = Command::new(self.bin(name));
        command.env("KUBECONFIG", &self.kubeconfig).env("KUBECACHEDIR", self.folder.join("cache"));
        for (variable, folder) in
            [("HELM_CACHE_HOME", "helm/cache"), ("HELM_CONFIG_HOME", "helm/config"), ("HELM_DATA_HOME", "helm/data")]
        {
            command.env(variable, self.folder.join(folder));
        }
        command
    }

    /// Runs kubectl as the administrator and gives what it printed.
    ///
    /// # Errors
    /// [`Error::Kubectl`] with what it said when it failed.
    pub fn kubectl<A: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = A>) -> Result<String, Error> {
        self.kubectl_with_input(arguments, "")
    }

    /// As [`TestCluster::kubectl`], with standard input.
    ///
    /// # Errors
    /// As there.
    pub fn kubectl_with_input<A: AsRef<OsStr>>(
        &self,
        arguments: impl IntoIterator<Item = A>,
        input: &str,
    ) -> Result<String, Error> {
        let mut command = self.command("kubectl");
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().attempt(|| "start kubectl".into())?;
        // It may end before it has read everything: its own message says why.
        let _ = child.stdin.take().map(|mut stdin| stdin.write_all(input.as_bytes()));
        let output = child.wait_with_output().attempt(|| "wait for kubectl".into())?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        let arguments: Vec<_> = command.get_args().map(OsStr::to_string_lossy).collect();
        let stderr = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        Err(Error::Kubectl { arguments: arguments.join(" "), stderr })
    }

    /// Applies a manifest as the administrator.
    ///
    /// # Errors
    /// As [`TestCluster::kubectl`].
    pub fn apply(&self, manifest: &str) -> Result<String, Error> {
        self.kubectl_with_input(["apply", "-f", "-"], manifest)
    }

    /// Makes a namespace that no other test uses, its name beginning with `prefix`.
    ///
    /// # Errors
    /// As [`TestCluster::kubectl`].
    pub fn namespace(&self, prefix: &str) -> Result<Namespace<'_>, Error> {
        Namespace::create(self, prefix)
    }

    /// The finished requests of everyone but the control plane, oldest first; empty without [`Options::audit`].
    ///
    /// # Errors
    /// When the audit log cannot be read.
    pub fn requests(&self) -> Result<Vec<Request>, Error> {
        audit::read(&self.folder.join("audit.log"))
    }

    /// Kills a process (SIGKILL), as a crash would.
    ///
    /// # Errors
    /// [`Error::NotOurs`] on an existing cluster.
    pub fn kill(&self, component: Component) -> Result<(), Error> {
        self.end(component, Signal::KILL)
    }

    /// Asks a process to end (SIGTERM) and waits for it.
    ///
    /// # Errors
    /// [`Error::NotOurs`] on an existing cluster.
    pub fn stop(&self, component: Component) -> Result<(), Error> {
        self.end(component, Signal::TERM)
    }

    /// Freezes a process (SIGSTOP): its connections stay open and nothing answers.
    ///
    /// # Errors
    /// [`Error::NotOurs`] on an existing cluster.
    pub fn pause(&self, component: Component) -> Result<(), Error> {
        self.signal(component, Signal::STOP)
    }

    /// Lets a frozen process go on.
    ///
    /// # Errors
    /// [`Error::NotOurs`] on an existing cluster.
    pub fn resume(&self, component: Component) -> Result<(), Error> {
        self.signal(component, Signal::CONT)
    }

    /// Starts a process again, on the same ports and data, killing it first if it runs; waits until the API answers.
    ///
    /// # Errors
    /// [`Error::NotOurs`] on an existing cluster; others when it fails to start.
    pub fn restart(&self, component: Component) -> Result<(), Error> {
        self.kill(component)?;
        self.spawn(component)?;
        match component {
            Component::Etcd | Component::ApiServer => self.wait_for_api(),
            _ => Ok(()),
        }
    }

    /// Whether a process of ours runs.
    #[must_use]
    pub fn is_running(&self, component: Component) -> bool {
        let Some(own) = &self.own else { return false };
        own.processes().get_mut(&component).is_some_and(|child| matches!(child.try_wait(), Ok(None)))
    }

    /// Lets the cluster outlive this process, until [`TestCluster::end_left_running`] with its folder.
    ///
    /// # Errors
    /// When the watchdog does not listen.
    pub fn leave_running(mut self) -> Result<(), Error> {
        let Some(own) = self.own.take() else { return Ok(()) };
        own.watchdog().stand_down()
    }

    fn existing(kubeconfig: PathBuf) -> Result<TestCluster, Error> {
        let folder = folder::create()?;
        Ok(TestCluster { folder, kubeconfig, tools: tool_folders(None), own: None })
    }

    fn start_own(binaries: PathBuf, options: Options) -> Result<TestCluster, Error> {
        let folder = match options.folder {
            Some(folder) => folder::create_private(&folder).map(|()| folder)?,
            None => folder::create()?,
        };
        let own = Own {
            ports: Ports::choose(seed())?,
            audit: options.audit,
            users: users()?,
            processes: Mutex::default(),
            watchdog: Mutex::new(Watchdog::start(&folder)?),
            binaries,
        };
        let tools = tool_folders(Some(&own.binaries));
        let cluster = TestCluster { kubeconfig: folder.join("admin.kubeconfig"), folder, tools, own: Some(own) };
        cluster.bring_up().map(|()| cluster)
    }

    fn bring_up(&self) -> Result<(), Error> {
        let own = self.own(Component::ApiServer)?;
        self.write_files(own)?;
        self.spawn(Component::Etcd)?;
        // An API server that comes too early waits a second before it tries again.
        self.wait_until("etcd listens", || Ok(listens(own.ports.etcd)))?;
        self.spawn(Component::ApiServer)?;
        let certificate = self.folder.join("certs/apiserver.crt");
        self.wait_until("the API server has its certificate", || {
            Ok(certificate.exists() && self.certificate()?.ends_with(b"-----\n"))
        })?;
        self.write_kubeconfigs(own)?;
        self.wait_for_api()?;
        for component in [Component::ControllerManager, Component::Scheduler, Component::Kwok] {
            self.spawn(component)?;
        }
        self.apply(include_str!("manifests/node.yaml"))?;
        self.kubectl(["wait", "--for=condition=Ready", "--timeout=60s", "node/node-0"])?;
        self.kubectl(["wait", "--for=create", "--timeout=60s", "--namespace=default", "serviceaccount/default"])
            .map(drop)
    }

    fn write_files(&self, own: &Own) -> Result<(), Error> {
        let tokens: String = own.users.iter().map(User::line).collect();
        let files = [
            ("tokens.csv", tokens.as_str()),
            ("stages.yaml", include_str!("manifests/stages.yaml")),
            ("audit-policy.yaml", include_str!("manifests/audit-policy.yaml")),
        ];
        files.into_iter().try_for_each(|(name, text)| self.write(name, text))
    }

    fn write_kubeconfigs(&self, own: &Own) -> Result<(), Error> {
        let certificate = self.certificate()?;
        own.users.iter().try_for_each(|user| {
            let text = kubeconfig::with_token(own.ports.api_server, &certificate, &user.token);
            self.write(&format!("{}.kubeconfig", file_name(&user.name)), &text)
        })
    }

    fn write(&self, name: &str, text: &str) -> Result<(), Error> {
        let path = self.folder.join(name);
        fs::write(&path, text).attempt(|| format!("write {}", path.display()))
    }

    /// What the API server made for itself, which is also who signed it.
    fn certificate(&self) -> Result<Vec<u8>, Error> {
        let path = self.folder.join("certs/apiserver.crt");
        fs::read(&path).attempt(|| format!("read {}", path.display()))
    }

    fn user_kubeconfig(&self, user: &str) -> PathBuf {
        self.folder.join(format!("{}.kubeconfig", file_name(user)))
    }

    fn spawn(&self, component: Component) -> Result<(), Error> {
        let own = self.own(component)?;
        let log_path = self.log_path(component);
        let log = File::options()
            .create(true)
            .append(true)
            .open(&log_path)
            .attempt(|| format!("open {}", log_path.display()))?;
        let errors = log.try_clone().attempt(|| format!("open {}", log_path.display()))?;
        let mut command = Command::new(own.binaries.join(component.name()));
        command.args(component.arguments(&self.folder, &own.ports, own.audit));
        command.current_dir(&self.folder).stdin(Stdio::null()).stdout(log).stderr(errors);
        command.process_group(own.watchdog().group());
        let child = command.spawn().attempt(|| format!("start {component}"))?;
        let pid = child.id();
        own.processes().insert(component, child);
        folder::record_process(&self.folder, component.name(), pid)
    }

    fn wait_for_api(&self) -> Result<(), Error> {
        let own = self.own(Component::ApiServer)?;
        self.wait_until("the API server is ready", || {
            Ok(listens(own.ports.api_server)
                && self.kubectl(["get", "--raw", "/readyz", "--request-timeout=5s"]).is_ok())
        })
    }

    fn wait_until(&self, what: &str, mut done: impl FnMut() -> Result<bool, Error>) -> Result<(), Error> {
        let began = Instant::now();
        while !done()? {
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
        let own = self.own(Component::ApiServer)?;
        let mut processes = own.processes();
        let ended = processes.iter_mut().find_map(|(component, child)| Some((*component, child.try_wait().ok()??)));
        match ended {
            Some((component, status)) => Err(Error::Ended { component, status, log: self.log_end(component) }),
            None => Ok(()),
        }
    }

    fn end(&self, component: Component, signal: Signal) -> Result<(), Error> {
        let Some(mut child) = self.own(component)?.processes().remove(&component) else { return Ok(()) };
        send(&child, signal);
        let _ = fs::remove_file(self.folder.join(format!("{component}.pid")));
        child.wait().map(drop).attempt(|| format!("wait for {component}"))
    }

    fn signal(&self, component: Component, signal: Signal) -> Result<(), Error> {
        if let Some(child) = self.own(component)?.processes().get(&component) {
            send(child, signal);
        }
        Ok(())
    }

    fn own(&self, component: Component) -> Result<&Own, Error> {
        self.own.as_ref().ok_or(Error::NotOurs(component))
    }

    fn log_path(&self, component: Component) -> PathBuf {
        self.folder.join(format!("{component}.log"))
    }

    fn log_end(&self, component: Component) -> String {
        let text = fs::read(self.log_path(component)).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(15)..].join("\n")
    }
}

impl Drop for TestCluster {
    fn drop(&mut self) {
        match &self.own {
            Some(own) => own.watchdog().end(|| own.processes().values_mut().for_each(|child| drop(child.wait()))),
            // A cluster that was left running keeps its folder; an existing one had only caches there.
            None if !self.kubeconfig.starts_with(&self.folder) => drop(fs::remove_dir_all(&self.folder)),
            None => {}
        }
    }
}

impl Own {
    fn processes(&self) -> MutexGuard<'_, BTreeMap<Component, Child>> {
        self.processes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn watchdog(&self) -> MutexGuard<'_, Watchdog> {
        self.watchdog.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The child is not yet collected, so its number is still its own; if it has ended, the signal is lost, as it should be.
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

/// `system:kube-scheduler` keeps its kubeconfig in `kube-scheduler.kubeconfig`.
fn file_name(user: &str) -> &str {
    user.rsplit(':').next().unwrap_or(user)
}

fn tool_folders(binaries: Option<&Path>) -> Vec<PathBuf> {
    let assets = env::var_os("KUBEBUILDER_ASSETS").map(PathBuf::from);
    binaries.map(Path::to_owned).into_iter().chain(assets).chain(iter::once(binaries::built())).collect()
}

fn read(path: &Path) -> Result<String, Error> {
    fs::read_to_string(path).attempt(|| format!("read {}", path.display()))
}

/// Differs between processes and between the clusters of one.
fn seed() -> u64 {
    static NUMBER: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
    u64::from(process::id()) * 1009 + NUMBER.fetch_add(211, std::sync::atomic::Ordering::Relaxed)
}
