//! A cluster as tests use it: start it, query it, break it. `binaries` finds the binaries, `control_plane` runs the
//! processes, `watchdog` cleans up.

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::process::Signal;
use serde_json::Value;

use crate::audit::AuditLog;
use crate::binaries::{self, Binaries};
use crate::builder::build;
use crate::control_plane::{self, ControlPlane};
use crate::error::{Attempt, Error};
use crate::process::eventually;
use crate::tools::Tools;
use crate::{Component, Namespace, RealNode, Request, folder};

/// Applies what kubectl reads from its standard input. With the server's schema, kubectl would take three times as long,
/// and do the same for the kinds that it knows.
pub(crate) const APPLY: [&str; 4] = ["apply", "--openapi-patch=false", "-f", "-"];

/// What kind of cluster to start; the default is a temporary one without an audit log.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Whether to record each request for [`TestCluster::requests`].
    pub audit: bool,
    /// What that log contains, as a policy in YAML; by default metadata of requests.
    pub audit_policy: Option<String>,
    /// The folder for the cluster's files; must not exist. By default a temporary folder.
    pub folder: Option<PathBuf>,
    /// The processes to run.
    pub processes: Processes,
    /// The node that runs containers; by default pods are simulated.
    pub node: Option<RealNode>,
    /// The API server's feature gates to turn on.
    pub feature_gates: Vec<String>,
}

/// The processes of a cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Processes {
    /// All of them, so that pods run.
    #[default]
    All,
    /// Only etcd and the API server, without webhooks: objects stay as their client wrote them.
    ApiServer,
}

/// How many kubeconfigs of accounts this process has written.
static KUBECONFIGS: AtomicUsize = AtomicUsize::new(0);

/// A control plane with one node. Dropping it stops the processes and removes their directory.
#[derive(Debug)]
pub struct TestCluster {
    folder: PathBuf,
    tools: Tools,
    /// `None` for an existing cluster, where only the directory with caches is ours.
    plane: Option<ControlPlane>,
    audit: AuditLog,
}

impl TestCluster {
    /// Starts a cluster and waits until its node is ready, which takes seconds.
    ///
    /// # Errors
    /// [`Error::NoBinaries`] if there is nothing to start; others if a process fails.
    pub fn start(options: Options) -> Result<TestCluster, Error> {
        folder::sweep();
        match Binaries::find(options.processes)? {
            Binaries::Existing(kubeconfig) => TestCluster::existing(kubeconfig),
            Binaries::Folder(binaries) => TestCluster::start_own(binaries, options),
        }
    }

    /// Returns the cluster that all tests of this process share, with an audit log; the first call starts it.
    ///
    /// # Errors
    /// As [`TestCluster::start`].
    pub fn shared() -> Result<&'static TestCluster, Error> {
        static SHARED: OnceLock<Result<TestCluster, Error>> = OnceLock::new();
        match SHARED.get_or_init(|| TestCluster::start(Options { audit: true, ..Options::default() })) {
            Ok(cluster) => Ok(cluster),
            Err(Error::NoBinaries { looked_in, missing, built }) => {
                Err(Error::NoBinaries { looked_in: looked_in.clone(), missing: missing.clone(), built: built.clone() })
            }
            Err(error) => Err(Error::Shared(error.to_string())),
        }
    }

    /// Returns [`TestCluster::shared`] for tests. Prints a message and returns `None` if there are no binaries and `CI`
    /// is not set.
    ///
    /// # Panics
    /// If the cluster fails to start.
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

    /// Returns [`TestCluster::shared`] for tests, and builds missing binaries first ([`build`]). Prints a
    /// message and returns `None` if what builds them is missing and `CI` is not set.
    ///
    /// # Panics
    /// If the build fails, or the cluster fails to start.
    #[must_use]
    #[allow(clippy::panic, reason = "called by tests only, where a panic is the failure")]
    pub fn built_or_skip() -> Option<&'static TestCluster> {
        // A failed build does not become better by waiting for it once more.
        static BUILT: OnceLock<Result<(), String>> = OnceLock::new();
        let built = BUILT.get_or_init(|| match build() {
            Err(error) if !error.is_no_binaries() => Err(error.to_string()),
            Err(error) if env::var_os("CI").is_some() => Err(error.to_string()),
            Err(error) => {
                let _ = writeln!(std::io::stderr(), "skipped: {error}");
                Ok(())
            }
            Ok(_) => Ok(()),
        });
        match built {
            Ok(()) => TestCluster::shared_or_skip(),
            Err(error) => panic!("{error}"),
        }
    }

    /// Starts a cluster with the node that `make e2e-node` prepared, even if another cluster is configured.
    ///
    /// # Panics
    /// If no node is prepared, or the cluster fails to start.
    #[must_use]
    #[allow(clippy::panic, reason = "called by tests only, where a panic is the failure")]
    pub fn with_real_node() -> TestCluster {
        let Some(node) = RealNode::prepared() else { panic!("no node is prepared: run `make e2e-node`") };
        let options = Options { node: Some(node), ..Options::default() };
        TestCluster::start_own(binaries::built(), options).unwrap_or_else(|error| panic!("{error}"))
    }

    /// Stops a cluster that [`TestCluster::leave_running`] left in this directory, and removes the directory. Returns
    /// whether anything was running.
    ///
    /// # Errors
    /// If the folder cannot be removed.
    pub fn end_left_running(folder: &Path) -> Result<bool, Error> {
        if !folder.exists() {
            return Ok(false);
        }
        let ended = folder::end_processes(folder);
        fs::remove_dir_all(folder).attempt(|| format!("remove {}", folder.display()))?;
        Ok(ended > 0)
    }

    /// Returns whether the API server of a cluster that was left running in this directory still runs.
    #[must_use]
    pub fn is_left_running(folder: &Path) -> bool {
        folder::runs(folder, Component::ApiServer.name())
    }

    /// Returns the path of the administrator's kubeconfig.
    #[must_use]
    pub fn kubeconfig_path(&self) -> &Path {
        &self.tools.kubeconfig
    }

    /// Returns the administrator's kubeconfig as text.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn kubeconfig(&self) -> Result<String, Error> {
        let path = self.kubeconfig_path();
        fs::read_to_string(path).attempt(|| format!("read {}", path.display()))
    }

    /// Returns a kubeconfig of the user `operator`, who has the administrator's permissions but separate audit entries.
    /// Returns the administrator's on an existing cluster.
    #[must_use]
    pub fn operator_kubeconfig_path(&self) -> PathBuf {
        match self.plane {
            Some(_) => ControlPlane::kubeconfig(&self.folder, control_plane::OPERATOR),
            None => self.tools.kubeconfig.clone(),
        }
    }

    /// Returns a kubeconfig with `token`, for example a ServiceAccount's (`kubectl create token NAME`).
    ///
    /// # Errors
    /// [`Error::NotOurs`] on an existing cluster.
    pub fn kubeconfig_with_token(&self, token: &str) -> Result<String, Error> {
        self.plane(Component::ApiServer)?.kubeconfig_with_token(token)
    }

    /// Writes a kubeconfig with the identity and the permissions of a ServiceAccount; returns its path. Each call writes a
    /// file of its own.
    ///
    /// # Errors
    /// If the account does not exist, or [`Error::NotOurs`] on an existing cluster.
    pub fn kubeconfig_of(&self, namespace: &str, account: &str) -> Result<PathBuf, Error> {
        let token = self.kubectl(["--namespace", namespace, "create", "token", account])?;
        // Tests that run at once may ask for the same account, and their programs must not read half a file.
        let number = KUBECONFIGS.fetch_add(1, Ordering::Relaxed);
        let path = self.folder.join(format!("kubeconfig-{namespace}-{account}-{number}"));
        fs::write(&path, self.kubeconfig_with_token(token.trim())?).attempt(|| format!("write {}", path.display()))?;
        Ok(path)
    }

    /// Returns the directory of the logs (`NAME.log`) and the audit log.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns the path of a tool (`kubectl`, `helm`), or its bare name, to be found in `PATH`.
    #[must_use]
    pub fn bin(&self, name: &str) -> PathBuf {
        self.tools.path(name)
    }

    /// Returns a command that runs a tool as the administrator, with caches in the cluster's folder.
    #[must_use]
    pub fn command(&self, name: &str) -> Command {
        self.tools.command(name)
    }

    /// Runs kubectl as the administrator; returns its output.
    ///
    /// # Errors
    /// [`Error::Kubectl`] with its error output.
    pub fn kubectl<A: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = A>) -> Result<String, Error> {
        self.tools.kubectl(arguments, "")
    }

    /// Runs kubectl as [`TestCluster::kubectl`] does, with standard input.
    ///
    /// # Errors
    /// As [`TestCluster::kubectl`].
    pub fn kubectl_with_input<A: AsRef<OsStr>>(
        &self,
        arguments: impl IntoIterator<Item = A>,
        input: &str,
    ) -> Result<String, Error> {
        self.tools.kubectl(arguments, input)
    }

    /// Applies a manifest as the administrator.
    ///
    /// # Errors
    /// As [`TestCluster::kubectl`].
    pub fn apply(&self, manifest: &str) -> Result<String, Error> {
        self.tools.kubectl(APPLY, manifest)
    }

    /// Applies a kustomization, such as `config/default`, as the administrator, and waits until its definitions are
    /// served.
    ///
    /// # Errors
    /// As [`TestCluster::kubectl`].
    pub fn deploy(&self, kustomization: impl AsRef<Path>) -> Result<(), Error> {
        let folder = kustomization.as_ref().as_os_str();
        let apply = ["apply", "--server-side", "--output=name", "-k"].map(OsStr::new);
        let applied = self.kubectl(apply.into_iter().chain([folder]))?;
        // A wait for all definitions fails if another test deletes one of its own meanwhile.
        let definitions: Vec<&str> =
            applied.lines().filter(|name| name.starts_with("customresourcedefinition.")).collect();
        if definitions.is_empty() {
            return Ok(());
        }
        let wait = ["wait", "--for=condition=Established", "--timeout=30s"];
        self.kubectl(wait.into_iter().chain(definitions)).map(drop)
    }

    /// Returns an object, such as `["team", "red"]` or `["pod", "web", "-n", "default"]`; `Null` if there is none.
    ///
    /// # Errors
    /// As [`TestCluster::kubectl`].
    pub fn get(&self, object: &[&str]) -> Result<Value, Error> {
        let text = self.kubectl(["get", "--output=json", "--ignore-not-found"].iter().chain(object))?;
        if text.is_empty() {
            return Ok(Value::Null);
        }
        serde_json::from_str(&text)
            .map_err(|source| Error::Json { arguments: format!("get {}", object.join(" ")), source })
    }

    /// Waits until a field of an object, as for [`get`](Self::get), has this value; `Null` if there is no such field
    /// or object. `pointer` is a JSON pointer, such as `/status/conditions/0/status`.
    ///
    /// # Panics
    /// After [`LIMIT`](crate::LIMIT) with another value, or if kubectl fails until then.
    pub fn wait_for(&self, object: &[&str], pointer: &str, expected: &Value) {
        eventually(&format!("{expected} in {pointer} of {}", object.join(" ")), || {
            let found = self.get(object).map_err(|error| Value::from(error.to_string()))?;
            let found = found.pointer(pointer).cloned().unwrap_or_default();
            if found == *expected { Ok(()) } else { Err(found) }
        });
    }

    /// Creates a namespace for one test; its name begins with `prefix`.
    ///
    /// # Errors
    /// As [`TestCluster::kubectl`].
    pub fn namespace(&self, prefix: &str) -> Result<Namespace<'_>, Error> {
        Namespace::create(self, prefix)
    }

    /// Returns the finished requests, oldest first, except the control plane's own; empty without [`Options::audit`].
    ///
    /// # Errors
    /// If the audit log cannot be read.
    pub fn requests(&self) -> Result<Vec<Request>, Error> {
        self.audit.read(&self.folder.join("audit.log"))
    }

    /// Kills a process (SIGKILL), as a crash would.
    ///
    /// # Errors
    /// [`Error::NotOurs`] on an existing cluster.
    pub fn kill(&self, component: Component) -> Result<(), Error> {
        self.plane(component)?.end(component, Signal::KILL)
    }

    /// Terminates a process (SIGTERM) and waits for it.
    ///
    /// # Errors
    /// [`Error::NotOurs`] on an existing cluster.
    pub fn stop(&self, component: Component) -> Result<(), Error> {
        self.plane(component)?.end(component, Signal::TERM)
    }

    /// Freezes a process (SIGSTOP): its connections stay open, but it does not answer.
    ///
    /// # Errors
    /// [`Error::NotOurs`] on an existing cluster.
    pub fn pause(&self, component: Component) -> Result<(), Error> {
        self.plane(component).map(|plane| plane.signal(component, Signal::STOP))
    }

    /// Resumes a frozen process (SIGCONT).
    ///
    /// # Errors
    /// [`Error::NotOurs`] on an existing cluster.
    pub fn resume(&self, component: Component) -> Result<(), Error> {
        self.plane(component).map(|plane| plane.signal(component, Signal::CONT))
    }

    /// Restarts a process with the same ports and data, killing it if it runs; waits until the API answers.
    ///
    /// # Errors
    /// [`Error::NotOurs`] on an existing cluster; others if it fails to start.
    pub fn restart(&self, component: Component) -> Result<(), Error> {
        self.plane(component)?.restart(component, &self.tools)
    }

    /// Returns whether the process runs; always false on an existing cluster.
    #[must_use]
    pub fn is_running(&self, component: Component) -> bool {
        self.plane.as_ref().is_some_and(|plane| plane.is_running(component))
    }

    /// Lets the cluster outlive this process, until [`TestCluster::end_left_running`] is called with its directory.
    ///
    /// # Errors
    /// If the watchdog has exited.
    pub fn leave_running(self) -> Result<(), Error> {
        self.plane.as_ref().map_or(Ok(()), ControlPlane::stand_down)
    }

    fn existing(kubeconfig: PathBuf) -> Result<TestCluster, Error> {
        let folder = folder::create()?;
        Ok(TestCluster {
            tools: Tools::new(kubeconfig, &folder, None),
            folder,
            plane: None,
            audit: AuditLog::default(),
        })
    }

    fn start_own(binaries: PathBuf, options: Options) -> Result<TestCluster, Error> {
        let folder = match &options.folder {
            Some(folder) => folder::create_private(folder).map(|()| folder.clone())?,
            None => folder::create()?,
        };
        let tools = Tools::new(ControlPlane::kubeconfig(&folder, control_plane::ADMIN), &folder, Some(&binaries));
        let plane = ControlPlane::new(&folder, binaries, options)?;
        plane.bring_up(&tools)?;
        Ok(TestCluster { folder, tools, plane: Some(plane), audit: AuditLog::default() })
    }

    fn plane(&self, component: Component) -> Result<&ControlPlane, Error> {
        self.plane.as_ref().ok_or(Error::NotOurs(component))
    }
}

impl Drop for TestCluster {
    fn drop(&mut self) {
        if self.plane.is_none() {
            let _ = fs::remove_dir_all(&self.folder);
        }
    }
}
