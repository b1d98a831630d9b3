//! The number of workers and their limits: from flags, or from the container's memory limit.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

const MIB: u64 = 1 << 20;

/// The maximum memory of a render by default.
const MOST: u64 = 256 * MIB;

/// The memory of each worker from which a second one is started: one large render is worth more than two small ones.
const ENOUGH: u64 = 64 * MIB;

/// The minimum memory of a render by default, however small the container is: a worker starts with about a quarter of
/// it.
const LEAST: u64 = 32 * MIB;

/// The manager's minimum share of the container's memory.
const MANAGER: u64 = 48 * MIB;

/// The maximum number of workers by default: each holds its charts.
const WORKERS: usize = 2;

/// Where charts are rendered, and the limits of a render.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rendering {
    /// How many worker processes may render at a time; 0 renders in this process. Workers re-execute the program, which
    /// must reach [`Operator::main`](crate::Operator::main). Default: 0; the command line's default is 1 or 2.
    pub workers: usize,
    /// The memory limit of each worker, in bytes. Default: 256 MiB.
    pub memory: u64,
    /// The time limit of one render in a worker. Default: 30 seconds.
    pub timeout: Duration,
}

impl Default for Rendering {
    fn default() -> Rendering {
        Rendering { workers: 0, memory: MOST, timeout: helm::engine::MAX_RENDER_TIME }
    }
}

/// The settings from flags; the others are derived from the machine.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RenderingFlags {
    pub(crate) workers: Option<usize>,
    pub(crate) memory: Option<u64>,
    pub(crate) timeout: Option<Duration>,
}

impl RenderingFlags {
    /// Derives the other settings from the number of processors, and from the container's memory limit, if it has one.
    pub(crate) fn divide(self, processors: usize, limit: Option<u64>) -> Rendering {
        let left = limit.map(|limit| limit.saturating_sub(MANAGER.max(limit / 8 * 3)));
        let fitting = |each: u64| left.map_or(WORKERS, |left| usize::try_from(left / each.max(1)).unwrap_or(WORKERS));
        let default_workers = || WORKERS.min(processors).min(fitting(self.memory.unwrap_or(ENOUGH))).max(1);
        let workers = self.workers.unwrap_or_else(default_workers);
        let share = |left: u64| (left / workers.max(1) as u64).clamp(LEAST, MOST);
        let memory = self.memory.unwrap_or_else(|| left.map_or(MOST, share));
        Rendering { workers, memory, timeout: self.timeout.unwrap_or(Rendering::default().timeout) }
    }
}

impl Rendering {
    /// Returns a warning if all workers together may use more than the container's limit leaves: the kernel would end
    /// the manager as well.
    pub(crate) fn too_large_for(&self, limit: Option<u64>) -> Option<String> {
        let all = self.memory.saturating_mul(self.workers as u64);
        let limit = limit.filter(|limit| all.saturating_add(MANAGER) > *limit)?;
        let (all, limit) = (all / MIB, limit / MIB);
        Some(format!(
            "--render-workers times --render-memory is {all} MiB, too much for a memory limit of {limit} MiB: a large render can end the operator"
        ))
    }
}

/// Returns the memory limit of this process's control group in bytes, the smallest of the group and its ancestors;
/// `None` if there is none.
pub(crate) fn memory_limit() -> Option<u64> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    limit_files(&groups).iter().filter_map(|file| limit(&fs::read_to_string(file).ok()?)).min()
}

/// Returns the files that may contain a limit, for the content of `/proc/self/cgroup`. Without a namespace of its own,
/// a container sees its group at the root.
fn limit_files(groups: &str) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for line in groups.lines() {
        let mut fields = line.splitn(3, ':');
        let (Some(_), Some(controllers), Some(path)) = (fields.next(), fields.next(), fields.next()) else { continue };
        let (root, name) = match controllers {
            "" => ("/sys/fs/cgroup", "memory.max"),
            of if of.split(',').any(|controller| controller == "memory") => {
                ("/sys/fs/cgroup/memory", "memory.limit_in_bytes")
            }
            _ => continue,
        };
        let below = Path::new(path.trim_start_matches('/'));
        files.extend(below.ancestors().map(|group| Path::new(root).join(group).join(name)));
    }
    files
}

/// Parses a limit. Version 1 of control groups represents the lack of a limit as a very large number.
fn limit(text: &str) -> Option<u64> {
    text.trim().parse().ok().filter(|limit| *limit < 1 << 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn divided(asked: RenderingFlags, processors: usize, limit_mib: Option<u64>) -> (usize, u64) {
        let rendering = asked.divide(processors, limit_mib.map(|mib| mib * MIB));
        (rendering.workers, rendering.memory / MIB)
    }

    #[test]
    fn workers_share_what_the_containers_limit_leaves() {
        let default = |processors, limit| divided(RenderingFlags::default(), processors, limit);
        assert_eq!(default(8, None), (2, 256));
        assert_eq!(default(1, None), (1, 256));
        assert_eq!(default(8, Some(128)), (1, 80), "operator-sdk's scaffold");
        assert_eq!(default(8, Some(256)), (2, 80));
        assert_eq!(default(8, Some(512)), (2, 160));
        assert_eq!(default(8, Some(4096)), (2, 256));
        assert_eq!(default(8, Some(40)), (1, 32));
    }

    #[test]
    fn flags_come_first_and_the_rest_follows_them() {
        let (one, none) = (Some(1), Some(0));
        assert_eq!(divided(RenderingFlags { workers: one, ..RenderingFlags::default() }, 8, Some(512)), (1, 256));
        assert_eq!(divided(RenderingFlags { workers: none, ..RenderingFlags::default() }, 8, Some(512)), (0, 256));
        assert_eq!(divided(RenderingFlags { workers: Some(3), ..RenderingFlags::default() }, 8, None), (3, 256));
        assert_eq!(
            divided(RenderingFlags { memory: Some(300 * MIB), ..RenderingFlags::default() }, 8, Some(512)),
            (1, 300)
        );
        assert_eq!(
            divided(RenderingFlags { memory: Some(100 * MIB), ..RenderingFlags::default() }, 8, Some(512)),
            (2, 100)
        );
        assert_eq!(RenderingFlags::default().divide(1, None).timeout, Duration::from_secs(30));
    }

    #[test]
    fn limits_that_the_container_cannot_hold_are_warned_about() {
        for limit in [40_u64, 80, 128, 200, 512, 4096] {
            let default = RenderingFlags::default().divide(8, Some(limit * MIB));
            assert_eq!(default.too_large_for(Some(limit * MIB)).is_some(), limit < 80, "{limit}");
        }
        let large =
            RenderingFlags { workers: Some(2), memory: Some(100 * MIB), timeout: None }.divide(8, Some(200 * MIB));
        assert!(
            large.too_large_for(Some(200 * MIB)).unwrap().contains("is 200 MiB, too much for a memory limit of 200")
        );
        assert_eq!(large.too_large_for(None), None);
    }

    #[test]
    fn the_limit_is_looked_for_in_every_group_around_the_process() {
        let files = |groups: &str| -> Vec<String> {
            limit_files(groups).iter().map(|file| file.display().to_string()).collect()
        };
        assert_eq!(files("0::/\n"), ["/sys/fs/cgroup/memory.max"]);
        assert_eq!(
            files("0::/a/b\n"),
            ["/sys/fs/cgroup/a/b/memory.max", "/sys/fs/cgroup/a/memory.max", "/sys/fs/cgroup/memory.max"]
        );
        assert_eq!(
            files("5:cpu,cpuacct:/x\n4:memory:/x\n1:name=systemd:/x\nnonsense\n"),
            ["/sys/fs/cgroup/memory/x/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.limit_in_bytes"]
        );
    }

    #[test]
    fn no_limit_is_written_in_two_ways() {
        assert_eq!(limit("134217728\n"), Some(128 * MIB));
        assert_eq!(limit("max\n"), None);
        assert_eq!(limit("9223372036854771712\n"), None);
    }
}
