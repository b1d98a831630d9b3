//! What a worker gives up before it reads anything: memory, time, files, the network, and its priority if what it renders failed before.
//!
//! Resource limits hold everywhere. Landlock and seccomp are added where the kernel has them.

use std::io;

use controller::runtime::priority::Priority;
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
    if settings.priority == Priority::Retry {
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
    // Before landlock hides them.
    let open = super::calls::open_files().unwrap_or_default();
    // Nobody but root reads its memory, and no program that it starts gains rights. Both always succeed on Linux.
    let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
    let _ = rustix::thread::set_no_new_privs(true);
    give_up_capabilities();
    let files = linux::read_only(settings).unwrap_or(false);
    Confinement { files, calls: super::calls::few_calls(&open).is_ok() }
}

/// As root, too, it may only what anyone may. Giving up is always allowed.
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
}
