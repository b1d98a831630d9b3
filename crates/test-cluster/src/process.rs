//! Runs an operator as a separate process, and waits for its effects.

use std::fmt::Debug;
use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::error::Attempt as _;
use crate::{Error, TestCluster};

/// How long [`eventually`] waits.
pub const LIMIT: Duration = Duration::from_secs(60);

/// A running program; killed when dropped.
#[derive(Debug)]
pub struct Process {
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Starts the program with its log in the cluster's folder.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn start(cluster: &TestCluster, command: &mut Command) -> Result<Process, Error> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let log = cluster.folder().join(format!("process-{}.log", NUMBER.fetch_add(1, Ordering::Relaxed)));
        let file = File::create(&log).attempt(|| format!("create {}", log.display()))?;
        let child = command.stdin(Stdio::null()).stderr(file).spawn().attempt(|| format!("start {command:?}"))?;
        Ok(Process { child, log })
    }

    /// Returns its log so far; empty if it cannot be read.
    #[must_use]
    pub fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Waits for a log line that contains `text`; returns the line.
    #[must_use]
    pub fn logged(&self, text: &str) -> String {
        eventually(text, || {
            self.log().lines().find(|line| line.contains(text)).map(str::to_owned).ok_or_else(|| self.log())
        })
    }

    /// Sends SIGTERM and waits for the exit; returns the exit status and the log.
    ///
    /// # Errors
    /// If the signal cannot be sent.
    pub fn terminate(mut self) -> Result<(ExitStatus, String), Error> {
        let pid = rustix::process::Pid::from_child(&self.child);
        let sent = rustix::process::kill_process(pid, rustix::process::Signal::TERM).map_err(std::io::Error::from);
        sent.attempt(|| "send SIGTERM".to_owned())?;
        let status = eventually("the end", || self.child.try_wait().ok().flatten().ok_or("still running"));
        Ok((status, self.log()))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Retries until there is a result.
///
/// # Panics
/// After [`LIMIT`] without a result, with the last observation.
pub fn eventually<T, E: Debug>(what: &str, attempt: impl FnMut() -> Result<T, E>) -> T {
    eventually_within(LIMIT, what, attempt)
}

/// Retries like [`eventually`], with a longer limit for operations that are slow on a busy machine.
///
/// # Panics
/// After the limit without a result, with the last observation.
#[allow(clippy::panic, reason = "tests end here")]
pub fn eventually_within<T, E: Debug>(limit: Duration, what: &str, mut attempt: impl FnMut() -> Result<T, E>) -> T {
    let (began, mut attempts) = (Instant::now(), 0_u32);
    loop {
        let asked = Instant::now();
        attempts += 1;
        match attempt() {
            Ok(found) => return found,
            Err(last) if began.elapsed() > limit => {
                let (seconds, last_seconds) = (began.elapsed().as_secs(), asked.elapsed().as_secs());
                panic!("no {what} after {seconds} s, {attempts} attempts, the last of {last_seconds} s: {last:?}")
            }
            Err(_) => thread::sleep(pause(asked.elapsed())),
        }
    }
}

/// Returns the time between two attempts that take this long. One that starts kubectl costs a twentieth of a second or
/// more of a processor, which is then missing for what the test waits for.
fn pause(attempt: Duration) -> Duration {
    (attempt * 2).clamp(Duration::from_millis(50), Duration::from_millis(500))
}
