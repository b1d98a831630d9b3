//! A cluster's directory: private to the user, and named after the owning process. The next start removes it if that
//! process and its watchdog are gone.

use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::{env, process};

use rustix::process::{Pid, Signal, kill_process};

use crate::error::{Attempt, Error};

/// Creates an empty directory for a cluster of this process: `TMP/test-cluster-UID/PID.START.NUMBER`.
pub(crate) fn create() -> Result<PathBuf, Error> {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let owner = process::id();
    let name = format!("{owner}.{}.{}", start_time(owner).unwrap_or_default(), NUMBER.fetch_add(1, Ordering::Relaxed));
    let folder = base().join(name);
    create_private(&folder)?;
    Ok(folder)
}

/// Creates `folder`, which holds tokens and keys, readable by this user only.
pub(crate) fn create_private(folder: &Path) -> Result<(), Error> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder).attempt(|| format!("create {}", folder.display()))
}

/// Stops clusters whose owners have died, and removes their directories.
pub(crate) fn sweep() {
    let Ok(entries) = fs::read_dir(base()) else { return };
    for folder in entries.flatten().map(|entry| entry.path()).filter(|folder| is_orphan(folder)) {
        end_processes(&folder);
        let _ = fs::remove_dir_all(&folder);
    }
}

/// Records a process in `NAME.pid`, so that a later process can kill exactly this one.
pub(crate) fn record_process(folder: &Path, name: &str, pid: u32) -> Result<(), Error> {
    let path = folder.join(format!("{name}.pid"));
    let text = format!("{pid}.{}", start_time(pid).unwrap_or_default());
    fs::write(&path, text).attempt(|| format!("write {}", path.display()))
}

/// Returns whether the process in `NAME.pid` still runs.
pub(crate) fn runs(folder: &Path, name: &str) -> bool {
    fs::read_to_string(folder.join(format!("{name}.pid"))).is_ok_and(|record| living(&record).is_some())
}

/// Kills the processes in the directory's `*.pid` files; returns how many were running.
pub(crate) fn end_processes(folder: &Path) -> usize {
    let Ok(entries) = fs::read_dir(folder) else { return 0 };
    let records =
        entries.flatten().map(|entry| entry.path()).filter(|path| path.extension().is_some_and(|ext| ext == "pid"));
    records.filter_map(|path| fs::read_to_string(path).ok()).filter(|record| end_process(record)).count()
}

fn end_process(record: &str) -> bool {
    let pid = living(record).and_then(|pid| Pid::from_raw(i32::try_from(pid).ok()?));
    pid.is_some_and(|pid| kill_process(pid, Signal::KILL).is_ok())
}

fn base() -> PathBuf {
    env::temp_dir().join(format!("test-cluster-{}", rustix::process::getuid().as_raw()))
}

fn is_orphan(folder: &Path) -> bool {
    folder.file_name().and_then(|name| name.to_str()).is_some_and(|name| living(name).is_none())
}

/// Returns the pid in a record `PID.START…` if that process still runs, rather than a later one with the same pid.
fn living(record: &str) -> Option<u32> {
    let (pid, rest) = record.trim().split_once('.')?;
    let pid = pid.parse().ok()?;
    let started = rest.split('.').next()?;
    (start_time(pid)? == started).then_some(pid)
}

/// Returns the process's start time as the kernel reports it; `None` if there is no such process.
fn start_time(pid: u32) -> Option<String> {
    match fs::read_to_string(format!("/proc/{pid}/stat")) {
        // Field 22, counted after the name, which may contain spaces.
        Ok(stat) => stat.rsplit_once(')')?.1.split_whitespace().nth(19).map(str::to_owned),
        Err(_) if Path::new("/proc/self/stat").exists() => None,
        Err(_) => start_time_by_ps(pid),
    }
}

/// Returns the start time on systems without `/proc`.
fn start_time_by_ps(pid: u32) -> Option<String> {
    let output = Command::new("ps").args(["-o", "lstart=", "-p", &pid.to_string()]).output().ok()?;
    let text: String = String::from_utf8_lossy(&output.stdout).split_whitespace().collect::<Vec<_>>().join("-");
    (!text.is_empty()).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_identifies_one_process_even_if_its_pid_is_reused() {
        let me = process::id();
        let started = start_time(me).unwrap();
        assert_eq!(living(&format!("{me}.{started}.0")), Some(me));
        assert_eq!(living(&format!("{me}.{started}\n")), Some(me));
        assert_eq!(living(&format!("{me}.1")), None);
        assert_eq!(living("not a record"), None);
    }

    #[test]
    fn only_directories_of_dead_processes_are_removed() {
        let own = create().unwrap();
        let dead = base().join("1.1.0");
        create_private(&dead).unwrap();
        sweep();
        assert!(own.is_dir() && !dead.exists());
        fs::remove_dir_all(own).unwrap();
    }

    #[test]
    fn recorded_processes_are_killed() {
        let folder = create().unwrap();
        let mut child = Command::new("sleep").arg("1000").spawn().unwrap();
        record_process(&folder, "sleep", child.id()).unwrap();
        assert_eq!(end_processes(&folder), 1);
        assert!(!child.wait().unwrap().success());
        assert_eq!(end_processes(&folder), 0);
        fs::remove_dir_all(folder).unwrap();
    }
}
