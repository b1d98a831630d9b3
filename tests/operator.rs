//! Runs the operator as a process under its own account, and waits for its effects.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Once;
use std::time::Duration;

use test_cluster::{Namespace, TestCluster};

pub(crate) use test_cluster::eventually;

use crate::account;

/// A running operator; killed when dropped.
pub(crate) struct Operator {
    child: Child,
    folder: tempfile::TempDir,
}

impl Operator {
    /// Starts it for one namespace without charts, on free ports, with these extra flags.
    pub(crate) fn start_native(cluster: &TestCluster, namespace: &Namespace<'_>, flags: &[&str]) -> Operator {
        Operator::start_watches(cluster, namespace, "[]", flags)
    }

    /// Starts it for one namespace with the test's watches.yaml, on free ports, with these extra flags.
    pub(crate) fn start_watches(
        cluster: &TestCluster,
        namespace: &Namespace<'_>,
        watches: &str,
        flags: &[&str],
    ) -> Operator {
        install_kinds(cluster);
        Operator::start_in_with(cluster, &[namespace], watches, flags)
    }

    /// Starts it as [`start_watches`](Self::start_watches) does, in a control group if `group` is set.
    pub(crate) fn start_within(
        cluster: &TestCluster,
        namespace: &Namespace<'_>,
        watches: &str,
        flags: &[&str],
        group: Option<&Path>,
    ) -> Operator {
        let Some(group) = group else { return Operator::start_watches(cluster, namespace, watches, flags) };
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("watches.yaml"), watches).unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", "echo $$ > \"$0\" && exec \"$@\""]).arg(group.join("cgroup.procs"));
        command.arg(env!("CARGO_BIN_EXE_memcached-operator"));
        let file = format!("--watches-file={}", folder.path().join("watches.yaml").display());
        let flags = [&[file.as_str()], flags].concat();
        let kubeconfig = account::kubeconfig(cluster, namespace.name(), Some(watches));
        Operator::spawn_as(command, &kubeconfig, namespace.name(), folder, &flags)
    }

    /// Starts it for several namespaces with the test's watches.yaml.
    pub(crate) fn start_in(cluster: &TestCluster, namespaces: &[&Namespace<'_>], watches: &str) -> Operator {
        let names: Vec<&str> = namespaces.iter().map(|namespace| namespace.name()).collect();
        Operator::start_as_in(&account::kubeconfig(cluster, names[0], Some(watches)), &names.join(","), watches)
    }

    /// Starts it for one namespace with the test's watches.yaml, so that the allocator returns what is freed at once:
    /// otherwise an idle process keeps what its last burst of work freed until it allocates again.
    pub(crate) fn start_frugal(cluster: &TestCluster, namespace: &Namespace<'_>, watches: &str) -> Operator {
        let (folder, file) = with_watches(watches);
        let kubeconfig = account::kubeconfig(cluster, namespace.name(), Some(watches));
        let mut command = Command::new(env!("CARGO_BIN_EXE_memcached-operator"));
        command.env("MIMALLOC_PURGE_DELAY", "0");
        Operator::spawn_as(command, &kubeconfig, namespace.name(), folder, &[&file])
    }

    /// Starts it for several namespaces with the test's watches.yaml and these extra flags.
    pub(crate) fn start_in_with(
        cluster: &TestCluster,
        namespaces: &[&Namespace<'_>],
        watches: &str,
        flags: &[&str],
    ) -> Operator {
        let (folder, file) = with_watches(watches);
        let names: Vec<&str> = namespaces.iter().map(|namespace| namespace.name()).collect();
        let kubeconfig = account::kubeconfig(cluster, names[0], Some(watches));
        Operator::spawn(&kubeconfig, &names.join(","), folder, &[&[file.as_str()], flags].concat())
    }

    /// Starts it for one namespace with this repository's watches.yaml, on free ports, with these extra flags.
    pub(crate) fn start_charts(cluster: &TestCluster, namespace: &Namespace<'_>, flags: &[&str]) -> Operator {
        install_kinds(cluster);
        let kubeconfig = account::kubeconfig(cluster, namespace.name(), None);
        Operator::spawn(&kubeconfig, namespace.name(), tempfile::tempdir().unwrap(), flags)
    }

    /// Starts it for one namespace with this repository's watches.yaml and the given kubeconfig.
    pub(crate) fn start_as(kubeconfig: &Path, namespace: &Namespace<'_>, flags: &[&str]) -> Operator {
        Operator::spawn(kubeconfig, namespace.name(), tempfile::tempdir().unwrap(), flags)
    }

    /// Starts it for namespaces, separated by commas, with the test's watches.yaml and the given kubeconfig.
    pub(crate) fn start_as_in(kubeconfig: &Path, namespaces: &str, watches: &str) -> Operator {
        let (folder, file) = with_watches(watches);
        Operator::spawn(kubeconfig, namespaces, folder, &[&file])
    }

    /// Starts it for namespaces, separated by commas, with the given kubeconfig and flags.
    pub(crate) fn start_with(kubeconfig: &Path, namespaces: &str, flags: &[&str]) -> Operator {
        Operator::spawn(kubeconfig, namespaces, tempfile::tempdir().unwrap(), flags)
    }

    /// Starts it for one namespace as a shard with this name, with the given kubeconfig.
    pub(crate) fn start_shard(kubeconfig: &Path, namespace: &Namespace<'_>, watches: &str, name: &str) -> Operator {
        let (folder, file) = with_watches(watches);
        let mut command = Command::new(env!("CARGO_BIN_EXE_memcached-operator"));
        command.env("HOSTNAME", name);
        let (ring, home) = (namespace.name(), format!("--leader-election-namespace={}", namespace.name()));
        let flags = [&*file, &*format!("--controller-ring={ring}"), &*home];
        Operator::spawn_as(command, kubeconfig, namespace.name(), folder, &flags)
    }

    fn spawn(kubeconfig: &Path, namespaces: &str, folder: tempfile::TempDir, flags: &[&str]) -> Operator {
        let command = Command::new(env!("CARGO_BIN_EXE_memcached-operator"));
        Operator::spawn_as(command, kubeconfig, namespaces, folder, flags)
    }

    fn spawn_as(
        mut command: Command,
        kubeconfig: &Path,
        namespaces: &str,
        folder: tempfile::TempDir,
        flags: &[&str],
    ) -> Operator {
        let child = command
            .args(["run", "--metrics-bind-address=127.0.0.1:0", "--health-probe-bind-address=127.0.0.1:0"])
            .args(flags)
            .env("KUBECONFIG", kubeconfig)
            .env("WATCH_NAMESPACE", namespaces)
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .stdin(Stdio::null())
            .stderr(File::create(folder.path().join("log")).unwrap())
            .spawn()
            .unwrap();
        Operator { child, folder }
    }

    /// Returns its log so far.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).unwrap()
    }

    /// Waits for a line of its log that contains `text`.
    pub(crate) fn logged(&self, text: &str) -> String {
        eventually(text, || {
            self.log().lines().find(|line| line.contains(text)).map(str::to_owned).ok_or_else(|| self.log())
        })
    }

    /// Sends a GET for `path` to the server whose address it logged under `server`; returns the response.
    pub(crate) fn get(&self, server: &str, path: &str) -> String {
        let line: serde_json::Value = serde_json::from_str(&self.logged(server)).unwrap();
        let mut stream = TcpStream::connect(line["bindAddress"].as_str().unwrap()).unwrap();
        stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    /// Returns the processes that currently render for it.
    pub(crate) fn workers(&self) -> Vec<u32> {
        let own = format!("PPid:\t{}\n", self.child.id());
        let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
        let ids = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        let is_child = |id: &u32| fs::read_to_string(format!("/proc/{id}/status")).is_ok_and(|s| s.contains(&own));
        ids.filter(is_child).collect()
    }

    /// Returns its peak memory in KiB; `None` if the system does not report it.
    pub(crate) fn peak_memory(&self) -> Option<u64> {
        self.measured("VmHWM:")
    }

    /// Returns its memory without pages of files in KiB; `None` if the system does not report it.
    pub(crate) fn anonymous_memory(&self) -> Option<u64> {
        self.measured("RssAnon:")
    }

    fn measured(&self, which: &str) -> Option<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix(which))?;
        line.split_whitespace().next()?.parse().ok()
    }

    /// Returns its resident memory in KiB, render workers apart; `None` if the system does not report it.
    pub(crate) fn memory(&self) -> Option<u64> {
        self.measured("VmRSS:")
    }

    /// Returns the processor time that it and its render workers have taken, living and ended ones.
    pub(crate) fn cpu(&self) -> Duration {
        let own = [self.child.id()].into_iter().chain(self.workers());
        let ticks: u64 = own.map(|id| ticks(id).unwrap_or_default()).sum();
        // Linux reports times in hundredths of a second, whatever its clock.
        Duration::from_millis(ticks * 10)
    }

    /// Sends SIGTERM; waits for the exit.
    pub(crate) fn terminate(self) -> (ExitStatus, String) {
        assert!(Command::new("kill").arg(self.child.id().to_string()).status().unwrap().success());
        self.wait()
    }

    /// Waits for the exit; returns the status and the log.
    pub(crate) fn wait(mut self) -> (ExitStatus, String) {
        let status = eventually("the end", || self.child.try_wait().unwrap().ok_or("still running"));
        (status, self.log())
    }

    /// Sends SIGSTOP: the process freezes with open connections.
    pub(crate) fn pause(&self) {
        self.signal("-STOP");
    }

    /// Sends SIGCONT: resumes a paused process.
    pub(crate) fn resume(&self) {
        self.signal("-CONT");
    }

    fn signal(&self, signal: &str) {
        assert!(Command::new("kill").args([signal, &self.child.id().to_string()]).status().unwrap().success());
    }

    /// Sends SIGKILL, like a crash.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        assert_eq!(self.child.wait().unwrap().signal(), Some(9));
    }
}

/// Returns a folder with this watches.yaml, and the flag that names the file.
fn with_watches(watches: &str) -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("watches.yaml");
    fs::write(&file, watches).unwrap();
    (folder, format!("--watches-file={}", file.display()))
}

/// Sends SIGKILL to a process; returns whether it existed.
pub(crate) fn kill(process: u32) -> bool {
    Command::new("kill").args(["-9", &process.to_string()]).stderr(Stdio::null()).status().unwrap().success()
}

impl Drop for Operator {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Creates the CRDs in `config/crd`, once.
pub(crate) fn install_kinds(cluster: &TestCluster) {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let crds = concat!(env!("CARGO_MANIFEST_DIR"), "/config/crd");
        cluster.kubectl(["apply", "--server-side", "-k", crds]).unwrap();
        wait_for_kinds(cluster);
    });
}

/// Waits until the API server serves the kinds in `config/crd`. A wait for all definitions fails if another test deletes
/// one of its own meanwhile.
pub(crate) fn wait_for_kinds(cluster: &TestCluster) {
    let kinds = ["crd/memcacheds.cache.my.domain", "crd/memcachedbackups.cache.my.domain"];
    cluster.kubectl(["wait", "--for=condition=Established", "--timeout=30s", kinds[0], kinds[1]]).unwrap();
}

/// Returns the processor time of a process and of its ended children, in hundredths of a second.
fn ticks(id: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    // The name, in parentheses, may contain spaces. The times are the 14th to the 17th field.
    let (_, fields) = stat.rsplit_once(')')?;
    Some(fields.split_whitespace().skip(11).take(4).filter_map(|field| field.parse::<u64>().ok()).sum())
}
