//! Keeps this process's memory to itself: it holds tokens, Secrets and values of every namespace.

use rustix::io;
use rustix::process::{Resource, Rlimit, setrlimit};

/// Lets no crash write this process's memory to a file, and no other process of the same user read it. Workers see to theirs.
///
/// # Errors
/// The system refuses; the process works all the same.
pub(crate) fn keep_memory() -> io::Result<()> {
    setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) })?;
    #[cfg(target_os = "linux")]
    rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use rustix::process::{DumpableBehavior, dumpable_behavior, getrlimit};

    use super::*;

    #[test]
    fn memory_reaches_no_core_file_and_no_other_process_of_the_user() {
        keep_memory().unwrap();
        let core = getrlimit(Resource::Core);
        assert_eq!((core.current, core.maximum), (Some(0), Some(0)));
        assert_eq!(dumpable_behavior().unwrap(), DumpableBehavior::NotDumpable);
    }
}
