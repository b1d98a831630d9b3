//! A cluster's folder: made where no other user can read it, named by the process that owns it, and swept up by the
//! next start when that process is gone and its watchdog too.

use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::{env, process};

use rustix::process::{Pid, Signal, kill_process};

use crate::error::{Attempt, Error};

/// Makes an empty folder for a cluster of this process: `TMP/test-cluster-UID/PID.START.NUMBER`.
pub(crate) fn create() -> Result<PathBuf, Error> {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let owner = process::id();
    let name = format!("{owner}.{}.{}", start_time(owner).unwrap_or_default(), NUMBER.fetch_add(1, Ordering::Relaxed));
    let folder = base().join(name);
    create_private(&folder)?;
    Ok(folder)
}

/// Makes `folder`, which holds tokens and keys, for this user only.
pub(crate) fn create_private(folder: &Path) -> Result<(), Error> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder).attempt(|| format!("make {}", folder.display()))
}

/// Ends what clusters of dead processes left running, and removes their folders.
pub(crate) fn sweep() {
    let Ok(entries) = fs::read_dir(base()) else { return };
    for folder in entries.flatten().map(|entry| entry.path()).filter(|folder| is_orphan(folder)) {
        end_processes(&folder);
        let _ = fs::remove_dir_all(&folder);
    }
}

/// Notes in `NAME.pid` which process runs, so that a later process can end it and nothing else.
pub(crate) fn record_process(folder: &Path, name: &str, pid: u32) -> Result<(), Error> {
    let path = folder.join(format!("{name}.pid"));
    let text = format!("{pid}.{}", start_time(pid).unwrap_or_default());
    fs::write(&path, text).attempt(|| format!("write {}", path.display()))
}

/// Whether the process of `NAME.pid` still runs.
pub(crate) fn runs(folder: &Path, name: &str) -> bool {
    fs::read_to_string(folder.join(format!("{name}.pid"))).is_ok_and(|record| living(&record).is_some())
}

/// Kills each process that the folder's `*.pid` files name; says how many were still running.
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

/// The process of a record `PID.START…` if that very process, not a later one with its number, still runs.
fn living(record: &str) -> Option<u32> {
    let (pid, rest) = record.trim().split_once('.')?;
    let pid = pid.parse().ok()?;
    let started = rest.split('.').next()?;
    (start_time(pid)? == started).then_some(pid)
}

/// When the process started, as the kernel tells it; `None` if there is no such process.
fn start_time(pid: u32) -> Option<String> {
    match fs::read_to_string(format!("/proc/{pid}/stat")) {
        // Field 22; counted from after the name, which may hold spaces.
        Ok(stat) => stat.rsplit_once(')')?.1.split_whitespace().nth(19).map(str::to_owned),
        Err(_) if Path::new("/proc/self/stat").exists() => None,
        Err(_) => start_time_by_ps(pid),
    }
}

/// For systems without `/proc`.
fn start_time_by_ps(pid: u32) -> Option<String> {
    let output = Command::new("ps").args(["-o", "lstart=", "-p", &pid.to_string()]).output().ok()?;
    let text: String = String::from_utf8_lossy(&output.stdout).split_whitespace().collect::<Vec<_>>().join("-");
    (!text.is_empty()).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_names_one_process_and_not_a_later_one_with_its_number() {
        let me = process::id();
        let started = start_time(me).unwrap();
        assert_eq!(living(&format!("{me}.{started}.0")), Some(me));
        assert_eq!(living(&format!("{me}.{started}\n")), Some(me));
        assert_eq!(living(&format!("{me}.1")), None);
        assert_eq!(living("not a record"), None);
    }

    #[test]
    fn the_folder_of_a_dead_process_is_swept_and_the_own_one_is_not() {
        let own = create().unwrap();
        let dead = base().join("1.1.0");
        create_private(&dead).unwrap();
        sweep();
        assert!(own.is_dir() && !dead.exists());
        fs::remove_dir_all(own).unwrap();
    }

    #[test]
    fn a_recorded_process_is_ended() {
        let folder = create().unwrap();
        let mut child = Command::new("sleep").arg("1000").spawn().unwrap();
        record_process(&folder, "sleep", child.id()).unwrap();
        assert_eq!(end_processes(&folder), 1);
        assert!(!child.wait().unwrap().success());
        assert_eq!(end_processes(&folder), 0);
        fs::remove_dir_all(folder).unwrap();
    }
}
