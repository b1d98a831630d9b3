//! The system calls that a worker may make, and the allowed arguments.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;

use libc::c_long;
use seccompiler::SeccompCmpArgLen::Dword;
use seccompiler::SeccompCmpOp::{Eq, Ge, Le, MaskedEq};
use seccompiler::{BpfProgram, SeccompAction, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule};

type Rules = BTreeMap<c_long, Vec<SeccompRule>>;

/// The maximum number of gaps between inherited descriptors: a filter has at most 4,096 instructions.
const MAX_GAPS: usize = 8;

/// The reason why the filter of system calls could not be installed.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    #[error(transparent)]
    Filter(#[from] seccompiler::Error),
    #[error(transparent)]
    Rules(#[from] seccompiler::BackendError),
}

/// Rejects all system calls except those that are needed for memory, for reading files, for the socket and for the end
/// of the process. Also makes the descriptors in `open`, except the standard ones, unusable: the manager inherited them
/// from its parent.
pub(super) fn few_calls(open: &[u32]) -> Result<(), Error> {
    let (process, thread) = (rustix::process::getpid(), rustix::thread::gettid());
    let own = Own { process: number(process), thread: number(thread) };
    let rules = rules(&gaps(open), own)?;
    let refused = SeccompAction::Errno(libc::EPERM as u32);
    let architecture = std::env::consts::ARCH.try_into()?;
    let filter: BpfProgram = SeccompFilter::new(rules, refused, SeccompAction::Allow, architecture)?.try_into()?;
    Ok(seccompiler::apply_filter_all_threads(&filter)?)
}

/// The process and thread that may receive signals: the worker's own, which needs them to abort.
#[derive(Clone, Copy)]
struct Own {
    process: u64,
    thread: u64,
}

fn number(id: rustix::process::Pid) -> u64 {
    u64::from(id.as_raw_nonzero().get().unsigned_abs())
}

/// Returns the numbers of open descriptors.
pub(super) fn open_files() -> io::Result<Vec<u32>> {
    let names: Vec<PathBuf> =
        std::fs::read_dir("/proc/self/fd")?.map(|one| Ok(one?.path())).collect::<io::Result<_>>()?;
    // The descriptor of the folder itself is closed again.
    let open = names.into_iter().filter(|path| path.symlink_metadata().is_ok());
    let mut numbers: Vec<u32> = open.filter_map(|path| path.file_name()?.to_str()?.parse().ok()).collect();
    numbers.sort_unstable();
    Ok(numbers)
}

/// Returns the ranges of usable descriptors: the standard ones, and those that are free now.
fn gaps(open: &[u32]) -> Vec<(u32, u32)> {
    let (mut gaps, mut from) = (Vec::new(), 0);
    for inherited in open.iter().copied().filter(|number| *number > 2) {
        if gaps.len() >= MAX_GAPS {
            from = inherited + 1;
            continue;
        }
        if inherited > from {
            gaps.push((from, inherited - 1));
        }
        from = inherited + 1;
    }
    gaps.push((from, u32::MAX));
    gaps
}

fn rules(gaps: &[(u32, u32)], own: Own) -> Result<Rules, seccompiler::BackendError> {
    let mut rules: Rules = CALLS.iter().chain(OLD_CALLS).map(|call| (*call, Vec::new())).collect();
    for call in WITH_FILE {
        rules.insert(*call, on_files(gaps, 0, &[])?);
    }
    let mut of_fcntl = Vec::new();
    for command in FCNTL {
        of_fcntl.extend(on_files(gaps, 0, &[(1, Eq, *command as u64)])?);
    }
    rules.insert(libc::SYS_fcntl, of_fcntl);
    // Only the program's own code may be executable.
    let is_data = (2, MaskedEq(libc::PROT_EXEC as u64), 0);
    rules.insert(libc::SYS_mmap, on_files(gaps, 4, std::slice::from_ref(&is_data))?);
    rules.insert(libc::SYS_mprotect, vec![rule(&[is_data])?]);
    rules.insert(libc::SYS_tgkill, vec![rule(&[(0, Eq, own.process)])?]);
    rules.insert(libc::SYS_tkill, vec![rule(&[(0, Eq, own.thread)])?]);
    Ok(rules)
}

/// The number of an argument, and what it must be.
type Condition = (u8, SeccompCmpOp, u64);

/// Allows a call whose argument with this number is a descriptor in one of the ranges, and which meets all conditions.
fn on_files(gaps: &[(u32, u32)], at: u8, more: &[Condition]) -> Result<Vec<SeccompRule>, seccompiler::BackendError> {
    let of_gap = |(from, to): &(u32, u32)| {
        let range = [(at, Ge, u64::from(*from)), (at, Le, u64::from(*to))];
        rule(&range.into_iter().chain(more.iter().cloned()).collect::<Vec<_>>())
    };
    gaps.iter().map(of_gap).collect()
}

fn rule(all: &[Condition]) -> Result<SeccompRule, seccompiler::BackendError> {
    let condition = |(at, is, value): &Condition| SeccompCondition::new(*at, Dword, is.clone(), *value);
    SeccompRule::new(all.iter().map(condition).collect::<Result<_, _>>()?)
}

/// The calls whose first argument is a descriptor: of a file that landlock allows to open, or of the socket.
const WITH_FILE: &[c_long] = &[
    libc::SYS_openat,
    libc::SYS_read,
    libc::SYS_pread64,
    libc::SYS_readv,
    libc::SYS_write,
    libc::SYS_writev,
    libc::SYS_recvfrom,
    libc::SYS_recvmsg,
    libc::SYS_sendto,
    libc::SYS_sendmsg,
    libc::SYS_lseek,
    libc::SYS_fstat,
    libc::SYS_newfstatat,
    libc::SYS_statx,
    libc::SYS_faccessat,
    libc::SYS_faccessat2,
    libc::SYS_getdents64,
    libc::SYS_readlinkat,
];

/// The allowed commands of `fcntl`. Above all, they must not direct signals at other processes.
const FCNTL: &[libc::c_int] =
    &[libc::F_DUPFD, libc::F_DUPFD_CLOEXEC, libc::F_GETFD, libc::F_SETFD, libc::F_GETFL, libc::F_SETFL];

const CALLS: &[c_long] = &[
    // Memory.
    libc::SYS_brk,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_madvise,
    // Files and the socket.
    libc::SYS_close,
    libc::SYS_ppoll,
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
    // The end of the process, orderly or not.
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sigaltstack,
    libc::SYS_getpid,
    libc::SYS_gettid,
    libc::SYS_exit,
    libc::SYS_exit_group,
];

/// The calls that newer architectures do not have, and that musl uses.
#[cfg(target_arch = "x86_64")]
const OLD_CALLS: &[c_long] = &[
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
const OLD_CALLS: &[c_long] = &[];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_descriptors_that_are_free_now_may_be_used_later() {
        for (open, expected) in [
            (&[0, 1, 2][..], vec![(0, u32::MAX)]),
            (&[0, 1, 2, 3, 4], vec![(0, 2), (5, u32::MAX)]),
            (&[0, 2, 4, 9], vec![(0, 3), (5, 8), (10, u32::MAX)]),
            (&[3], vec![(0, 2), (4, u32::MAX)]),
        ] {
            assert_eq!(gaps(open), expected, "{open:?}");
        }
        let many: Vec<u32> = (3..203).step_by(2).collect();
        assert_eq!((gaps(&many).len(), *gaps(&many).last().unwrap()), (MAX_GAPS + 1, (202, u32::MAX)));
    }

    #[test]
    fn signals_go_to_the_worker_itself_and_no_memory_becomes_code() {
        let own = Own { process: 71, thread: 72 };
        let rules = rules(&[(0, u32::MAX)], own).unwrap();
        assert_eq!(rules[&libc::SYS_tgkill], [rule(&[(0, Eq, 71)]).unwrap()]);
        assert_eq!(rules[&libc::SYS_tkill], [rule(&[(0, Eq, 72)]).unwrap()]);
        assert_eq!(rules[&libc::SYS_mprotect], [rule(&[(2, MaskedEq(libc::PROT_EXEC as u64), 0)]).unwrap()]);
        assert_eq!(rules[&libc::SYS_fcntl].len(), FCNTL.len());
        assert!(!FCNTL.contains(&libc::F_SETOWN));
        for call in
            [libc::SYS_kill, libc::SYS_ptrace, libc::SYS_socket, libc::SYS_execve, libc::SYS_clone, libc::SYS_prctl]
        {
            assert!(!rules.contains_key(&call), "{call}");
        }
    }

    /// Tests calls without a safe function in Rust: a process that tried them would need unsafe code.
    #[test]
    fn nothing_reaches_other_processes_keys_or_files_by_another_way() {
        let rules = rules(&[(0, u32::MAX)], Own { process: 71, thread: 72 }).unwrap();
        for call in [
            // Other processes.
            libc::SYS_process_vm_readv,
            libc::SYS_process_vm_writev,
            libc::SYS_process_madvise,
            libc::SYS_pidfd_open,
            libc::SYS_pidfd_getfd,
            libc::SYS_pidfd_send_signal,
            libc::SYS_rt_sigqueueinfo,
            libc::SYS_rt_tgsigqueueinfo,
            libc::SYS_prlimit64,
            libc::SYS_kcmp,
            // Programs and threads.
            libc::SYS_execveat,
            libc::SYS_clone3,
            libc::SYS_memfd_create,
            libc::SYS_memfd_secret,
            libc::SYS_pkey_mprotect,
            // The kernel.
            libc::SYS_io_uring_setup,
            libc::SYS_io_uring_enter,
            libc::SYS_io_uring_register,
            libc::SYS_userfaultfd,
            libc::SYS_bpf,
            libc::SYS_perf_event_open,
            libc::SYS_init_module,
            libc::SYS_finit_module,
            libc::SYS_kexec_load,
            libc::SYS_seccomp,
            libc::SYS_landlock_create_ruleset,
            // Keys and messages.
            libc::SYS_keyctl,
            libc::SYS_add_key,
            libc::SYS_request_key,
            libc::SYS_shmget,
            libc::SYS_msgget,
            libc::SYS_semget,
            libc::SYS_mq_open,
            // Files and namespaces.
            libc::SYS_open_by_handle_at,
            libc::SYS_name_to_handle_at,
            libc::SYS_openat2,
            libc::SYS_open_tree,
            libc::SYS_mount,
            libc::SYS_move_mount,
            libc::SYS_fsopen,
            libc::SYS_pivot_root,
            libc::SYS_unshare,
            libc::SYS_setns,
            libc::SYS_fanotify_init,
            libc::SYS_ioctl,
            libc::SYS_dup,
            libc::SYS_dup3,
            libc::SYS_splice,
            libc::SYS_vmsplice,
            libc::SYS_copy_file_range,
            libc::SYS_sendfile,
            libc::SYS_truncate,
            libc::SYS_fchmod,
            libc::SYS_fchownat,
            // The network.
            libc::SYS_socketpair,
            libc::SYS_connect,
            libc::SYS_bind,
            libc::SYS_listen,
            libc::SYS_accept4,
        ] {
            assert!(!rules.contains_key(&call), "{call}");
        }
    }
}
