//! Protects this process's memory, which holds tokens, Secrets and values of every namespace.

use rustix::io;
use rustix::process::{Resource, Rlimit, setrlimit};

/// Keeps crashes from writing this process's memory to a file, and other processes of the same user from reading it.
/// Workers protect their own.
///
/// # Errors
/// The system refuses; the process works nevertheless.
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
