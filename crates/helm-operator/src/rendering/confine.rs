//! What a worker gives up before it reads anything: memory, time, files, the network, and its priority if what it renders failed before.
//!
//! Resource limits hold everywhere. Landlock and seccomp are added where the kernel has them.

use std::io;

use rustix::process::{Resource, Rlimit, getrlimit, nice, setrlimit};

use super::message::Confinement;
use super::worker::Settings;

/// The limit of the main thread's stack, in bytes: Linux's default. Deep recursion continues on the heap.
const STACK: u64 = 8 << 20;

/// The limit of open files: a chart's folders may be nested 64 deep.
const FILES: u64 = 128;

/// The lowest priority for the processor.
const LOWEST: i32 = 19;

/// Restricts this process for good.
///
/// # Errors
/// A resource limit cannot be set.
pub(super) fn confine(settings: &Settings) -> io::Result<Confinement> {
    prefer_as_victim();
    if settings.is_niced {
        // Refused by no kernel; without it, the worker only competes as others do.
        let _ = nice(LOWEST);
    }
    limit(Resource::Core, 0)?;
    limit(Resource::Fsize, 0)?;
    limit(Resource::Nofile, FILES)?;
    limit(Resource::Stack, STACK)?;
    // A second between the two: the first signal says that it was the time, the last one could be anybody's.
    limit_between(Resource::Cpu, settings.cpu_seconds, settings.cpu_seconds.saturating_add(1))?;
    limit(Resource::Data, settings.memory)?;
    std::env::set_current_dir("/")?;
    // Found out now: glibc reads a file for it.
    let _ = stacker::remaining_stack();
    Ok(restrict(settings))
}

/// Limits a resource, at most to what this process may use already.
fn limit(resource: Resource, to: u64) -> io::Result<()> {
    limit_between(resource, to, to)
}

fn limit_between(resource: Resource, soft: u64, hard: u64) -> io::Result<()> {
    let hard = getrlimit(resource).maximum.map_or(hard, |most| most.min(hard));
    Ok(setrlimit(resource, Rlimit { current: Some(soft.min(hard)), maximum: Some(hard) })?)
}

/// When a container runs out of memory, the kernel ends a worker before the manager. A worker that cannot ask for that renders all the same.
fn prefer_as_victim() {
    let _ = std::fs::write("/proc/self/oom_score_adj", "1000");
}

#[cfg(target_os = "linux")]
fn restrict(settings: &Settings) -> Confinement {
    use rustix::process::{DumpableBehavior, set_dumpable_behavior};
    // Nobody but root reads its memory, and no program that it starts gains rights. Both always succeed on Linux.
    let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
    let _ = rustix::thread::set_no_new_privs(true);
    let files = linux::read_only(settings).unwrap_or(false);
    Confinement { files, calls: linux::few_calls().is_ok() }
}

#[cfg(not(target_os = "linux"))]
fn restrict(_: &Settings) -> Confinement {
    Confinement::default()
}

#[cfg(target_os = "linux")]
mod linux {
    use landlock::{
        ABI, Access as _, AccessFs, AccessNet, Ruleset, RulesetAttr as _, RulesetCreatedAttr as _, RulesetError,
        RulesetStatus, Scope, path_beneath_rules,
    };
    use seccompiler::{BpfProgram, SeccompAction, SeccompFilter};

    use super::Settings;

    /// Where the time zones are.
    const ZONES: [&str; 2] = ["/usr/share/zoneinfo", "/etc/localtime"];

    /// Reads the charts' folders and time zones; writes, connects and signals nowhere. Returns whether the kernel restricts files.
    pub(super) fn read_only(settings: &Settings) -> Result<bool, RulesetError> {
        let newest = ABI::V6;
        let read = AccessFs::ReadFile | AccessFs::ReadDir;
        let zones = ZONES.iter().map(std::path::Path::new);
        let readable = settings.folders.iter().map(std::path::PathBuf::as_path).chain(zones);
        let status = Ruleset::default()
            .handle_access(AccessFs::from_all(newest))?
            .handle_access(AccessNet::from_all(newest))?
            .scope(Scope::from_all(newest))?
            .create()?
            .add_rules(path_beneath_rules(readable, read))?
            .restrict_self()?;
        Ok(status.ruleset != RulesetStatus::NotEnforced)
    }

    /// Fails all system calls except those that memory, reading files, the socket and the end of the process need.
    pub(super) fn few_calls() -> Result<(), seccompiler::Error> {
        let rules = CALLS.iter().chain(OLD_CALLS).map(|call| (*call, Vec::new())).collect();
        let refused = SeccompAction::Errno(libc::EPERM as u32);
        let architecture = std::env::consts::ARCH.try_into()?;
        let filter: BpfProgram = SeccompFilter::new(rules, refused, SeccompAction::Allow, architecture)?.try_into()?;
        seccompiler::apply_filter_all_threads(&filter)
    }

    const CALLS: &[libc::c_long] = &[
        // Memory.
        libc::SYS_brk,
        libc::SYS_mmap,
        libc::SYS_munmap,
        libc::SYS_mremap,
        libc::SYS_mprotect,
        libc::SYS_madvise,
        // Files that are readable by landlock's rules, and the socket.
        libc::SYS_openat,
        libc::SYS_close,
        libc::SYS_read,
        libc::SYS_pread64,
        libc::SYS_readv,
        libc::SYS_write,
        libc::SYS_writev,
        libc::SYS_recvfrom,
        libc::SYS_recvmsg,
        libc::SYS_sendto,
        libc::SYS_sendmsg,
        libc::SYS_ppoll,
        libc::SYS_lseek,
        libc::SYS_fcntl,
        libc::SYS_fstat,
        libc::SYS_newfstatat,
        libc::SYS_statx,
        libc::SYS_faccessat,
        libc::SYS_faccessat2,
        libc::SYS_getdents64,
        libc::SYS_readlinkat,
        libc::SYS_getcwd,
        // Time, random numbers and locks.
        libc::SYS_clock_gettime,
        libc::SYS_clock_getres,
        libc::SYS_gettimeofday,
        libc::SYS_getrandom,
        libc::SYS_futex,
        libc::SYS_sched_yield,
        libc::SYS_sched_getaffinity,
        libc::SYS_nanosleep,
        libc::SYS_clock_nanosleep,
        libc::SYS_restart_syscall,
        libc::SYS_membarrier,
        libc::SYS_rseq,
        libc::SYS_set_robust_list,
        // The end, orderly or not.
        libc::SYS_rt_sigaction,
        libc::SYS_rt_sigprocmask,
        libc::SYS_rt_sigreturn,
        libc::SYS_sigaltstack,
        libc::SYS_getpid,
        libc::SYS_gettid,
        libc::SYS_tgkill,
        libc::SYS_tkill,
        libc::SYS_exit,
        libc::SYS_exit_group,
    ];

    /// Calls that younger architectures lack, and musl uses.
    #[cfg(target_arch = "x86_64")]
    const OLD_CALLS: &[libc::c_long] = &[
        libc::SYS_open,
        libc::SYS_stat,
        libc::SYS_lstat,
        libc::SYS_access,
        libc::SYS_poll,
        libc::SYS_readlink,
        libc::SYS_time,
        libc::SYS_getdents,
    ];

    #[cfg(not(target_arch = "x86_64"))]
    const OLD_CALLS: &[libc::c_long] = &[];
}
