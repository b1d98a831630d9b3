//! Runs `helm-operator` as a process, and waits for its effects.

use std::fs::{self, File};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};

use http::StatusCode;
use http_body_util::BodyExt as _;
use serde_json::Value;
use tempfile::TempDir;

pub(crate) use test_cluster::eventually;

/// Flags that replace fixed ports, which tests may not use. The last occurrence of a flag counts.
pub(crate) const FREE_PORTS: [&str; 2] =
    ["--metrics-bind-address=127.0.0.1:0", "--health-probe-bind-address=127.0.0.1:0"];

/// A running operator in a separate process group; killed when dropped.
pub(crate) struct Process {
    child: Child,
    folder: TempDir,
}

impl Process {
    /// Starts this command, with its log in a file.
    pub(crate) fn start(command: &mut Command) -> Process {
        let folder = tempfile::tempdir().unwrap();
        let log = File::create(folder.path().join("log")).unwrap();
        let child = command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log).process_group(0).spawn();
        Process { child: child.unwrap(), folder }
    }

    /// Returns its output so far.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).unwrap()
    }

    /// Waits for a line of its log that contains `text`.
    pub(crate) fn logged(&self, text: &str) -> String {
        self.logged_times(text, 1)
    }

    /// Waits until this many lines of its log contain `text`; returns the last.
    pub(crate) fn logged_times(&self, text: &str, times: usize) -> String {
        eventually(text, || {
            let log = self.log();
            let found: Vec<&str> = log.lines().filter(|line| line.contains(text)).collect();
            if found.len() >= times { Ok(found[times - 1].to_owned()) } else { Err(log.clone()) }
        })
    }

    /// Sends a GET to the server whose address the operator logged under `server`, with this bearer token; returns
    /// status and body.
    pub(crate) fn get(&self, server: &str, path: &str, token: Option<&str>) -> (StatusCode, String) {
        let line: Value = serde_json::from_str(&self.logged(server)).unwrap();
        let scheme = if line["secure"] == true { "https" } else { "http" };
        let mut config =
            kube::Config::new(format!("{scheme}://{}", line["bindAddress"].as_str().unwrap()).parse().unwrap());
        config.accept_invalid_certs = true;
        let mut request = http::Request::get(path);
        if let Some(token) = token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        let request = request.body(kube::client::Body::empty()).unwrap();
        tokio::runtime::Runtime::new().unwrap().block_on(async {
            let answer = kube::Client::try_from(config).unwrap().send(request).await.unwrap();
            let status = answer.status();
            let body = answer.into_body().collect().await.unwrap().to_bytes();
            (status, String::from_utf8(body.into()).unwrap())
        })
    }

    /// Returns its peak memory in KiB; `None` if the system does not report it.
    pub(crate) fn peak_memory(&self) -> Option<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).ok()?;
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
        peak.split_whitespace().next()?.parse().ok()
    }

    /// Sends SIGTERM, and waits for a successful exit.
    pub(crate) fn terminate(mut self) -> String {
        assert!(Command::new("kill").arg(self.child.id().to_string()).status().unwrap().success());
        let status = eventually("the end", || self.child.try_wait().unwrap().ok_or("still running"));
        assert!(status.success(), "{}", self.log());
        self.log()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            let _ = Command::new("kill").args(["-KILL", "--", &format!("-{}", self.child.id())]).status();
            let _ = self.child.wait();
        }
    }
}
