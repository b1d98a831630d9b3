//! Confines a worker before it reads anything: limits its memory, time, files and network, and its priority if its job
//! failed before.
//!
//! Resource limits apply everywhere. Landlock and seccomp are added if the kernel supports them.

use std::io;

use controller::runtime::priority::Priority;
use rustix::process::{Resource, Rlimit, getrlimit, nice, setrlimit};

use super::message::Confinement;
use super::worker::Settings;

/// The limit of the main thread's stack in bytes, which is Linux's default. Deep recursion continues on the heap.
const STACK: u64 = 8 << 20;

/// The limit of open files: a chart's folders may be nested 64 deep.
const FILES: u64 = 128;

/// The lowest priority for the processor.
const LOWEST: i32 = 19;

/// Restricts this process permanently.
pub(super) fn confine(settings: &Settings) -> io::Result<Confinement> {
    prefer_as_victim();
    if settings.priority == Priority::Retry {
        // No kernel rejects this; without it, the worker would only compete like the others.
        let _ = nice(LOWEST);
    }
    limit(Resource::Core, 0)?;
    limit(Resource::Fsize, 0)?;
    limit(Resource::Nofile, FILES)?;
    limit(Resource::Stack, STACK)?;
    // The hard limit is one second later. `SIGXCPU` at the soft limit shows that the worker ran out of time; `SIGKILL`
    // at the hard limit could have any cause.
    limit_between(Resource::Cpu, settings.cpu_seconds, settings.cpu_seconds.saturating_add(1))?;
    limit(Resource::Data, settings.memory)?;
    std::env::set_current_dir("/")?;
    // Determined now, because glibc reads a file for it.
    let _ = stacker::remaining_stack();
    Ok(restrict(settings))
}

/// Limits a resource, at most to the current hard limit.
fn limit(resource: Resource, to: u64) -> io::Result<()> {
    limit_between(resource, to, to)
}

fn limit_between(resource: Resource, soft: u64, hard: u64) -> io::Result<()> {
    let hard = getrlimit(resource).maximum.map_or(hard, |most| most.min(hard));
    Ok(setrlimit(resource, Rlimit { current: Some(soft.min(hard)), maximum: Some(hard) })?)
}

/// Makes the kernel end a worker before the manager if a container runs out of memory. A worker that may not set this
/// renders nevertheless.
fn prefer_as_victim() {
    let _ = std::fs::write("/proc/self/oom_score_adj", "1000");
}

#[cfg(target_os = "linux")]
fn restrict(settings: &Settings) -> Confinement {
    use rustix::process::{DumpableBehavior, set_dumpable_behavior};
    // Read before landlock hides `/proc`.
    let open = super::calls::open_files().unwrap_or_default();
    // Only root can read its memory, and no program that it starts gains privileges. Both calls always succeed on
    // Linux.
    let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
    let _ = rustix::thread::set_no_new_privs(true);
    give_up_capabilities();
    let files = linux::read_only(settings).unwrap_or(false);
    Confinement { files, calls: super::calls::few_calls(&open).is_ok() }
}

/// Drops all capabilities, so that root has no more permissions than others. Dropping is always allowed.
#[cfg(target_os = "linux")]
fn give_up_capabilities() {
    use rustix::thread::{CapabilitySet, CapabilitySets, clear_ambient_capability_set, set_capabilities};
    let none = CapabilitySet::empty();
    let _ = clear_ambient_capability_set();
    let _ = set_capabilities(None, CapabilitySets { effective: none, permitted: none, inheritable: none });
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

    use super::Settings;

    const ZONES: [&str; 2] = ["/usr/share/zoneinfo", "/etc/localtime"];

    /// Allows reading the charts' folders and time zones, and denies writing, connecting and signalling. Returns
    /// whether the kernel restricts files.
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
}
