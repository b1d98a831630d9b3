//! Cleans up after a cluster, however the process that started it ends.
//!
//! A shell reads a pipe that only we hold. When the pipe closes (on drop, exit or SIGKILL), the shell kills the
//! cluster's process group and removes its directory. A `cat` with a separate pipe leads the group, so the group exists
//! before the first process.

use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};

use crate::error::{Attempt, Error};

/// Reads the group from the first line, then waits for the end of input, or for `keep`, after which the cluster
/// outlives us.
const SCRIPT: &str = r#"
folder=$1
read -r group
while read -r word; do [ "$word" = keep ] && exit 0; done
if [ -n "$group" ]; then
  kill -s KILL -- "-$group" 2>/dev/null
  tries=0
  while kill -s 0 -- "-$group" 2>/dev/null && [ $tries -lt 50 ]; do tries=$((tries + 1)); sleep 0.1; done
fi
rm -rf -- "$folder"
"#;

/// The process group of a cluster and the shell that will kill it.
#[derive(Debug)]
pub(crate) struct Watchdog {
    shell: Child,
    pipe: Option<ChildStdin>,
    leader: Child,
}

impl Watchdog {
    pub(crate) fn start(folder: &Path) -> Result<Watchdog, Error> {
        let mut shell = spawn_apart(Command::new("sh").args(["-c", SCRIPT, "test-cluster-watchdog"]).arg(folder))?;
        let mut pipe = shell.stdin.take();
        let leader = spawn_apart(&mut Command::new("cat"))?;
        if let Some(pipe) = &mut pipe {
            writeln!(pipe, "{}", leader.id()).attempt(|| "tell the watchdog its group".into())?;
        }
        Ok(Watchdog { shell, pipe, leader })
    }

    /// Returns the group that the cluster's processes must join.
    pub(crate) fn group(&self) -> i32 {
        i32::try_from(self.leader.id()).unwrap_or(0)
    }

    /// Lets the cluster outlive this process.
    pub(crate) fn stand_down(&mut self) -> Result<(), Error> {
        let Some(mut pipe) = self.pipe.take() else { return Ok(()) };
        writeln!(pipe, "keep").attempt(|| "tell the watchdog to keep the cluster".into())?;
        drop(pipe);
        self.shell.wait().map(drop).attempt(|| "wait for the watchdog".into())
    }

    /// Lets the watchdog kill the group. `reap` must reap our child processes, because the watchdog waits for them.
    pub(crate) fn end(&mut self, reap: impl FnOnce()) {
        drop(self.pipe.take());
        reap();
        let _ = self.leader.wait();
        let _ = self.shell.wait();
    }
}

/// Starts a command in its own process group, so that Ctrl-C reaches only us.
fn spawn_apart(command: &mut Command) -> Result<Child, Error> {
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
    command.spawn().attempt(|| format!("start {}", command.get_program().display()))
}
