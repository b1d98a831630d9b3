//! The ways in which a worker can end during a render, and the messages for the resource's condition.

use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;

use super::request::RenderError;
use super::settings::Rendering;
use crate::status::reason::Reason;

/// The way in which a worker ended.
#[derive(Debug)]
pub(super) enum Ending {
    /// The manager killed it because the render took too long.
    Time,
    /// It could not allocate memory.
    Memory,
    /// Something else killed it: a person, or the kernel when the container ran out of memory.
    Killed,
    /// It crashed, or violated the protocol.
    Crash(String),
    NotStarted(io::Error),
    /// The values do not fit into a message.
    TooLarge,
}

/// What a worker has rendered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Past {
    /// Nothing else.
    Clean,
    /// Another release before, which may have caused what happens now.
    Shared,
}

impl Ending {
    /// Determines the cause from the exit status and standard error of a worker.
    pub(super) fn read(status: ExitStatus, stderr: &str) -> Ending {
        let signal = status.signal();
        if stderr.contains("memory allocation") {
            return Ending::Memory;
        }
        if stderr.contains("overflowed its stack") {
            return Ending::Crash("its stack overflowed".to_owned());
        }
        match signal {
            Some(libc::SIGXCPU) => Ending::Time,
            Some(libc::SIGKILL) => Ending::Killed,
            Some(signal) => Ending::Crash(format!("signal {signal}")),
            None => Ending::Crash(format!("exit code {}", status.code().unwrap_or_default())),
        }
    }

    /// Returns whether another render or an outside cause may be at fault, so that another attempt in a new worker
    /// makes sense.
    pub(super) fn may_pass(&self, past: Past) -> bool {
        match self {
            Ending::Memory | Ending::Crash(_) => past == Past::Shared,
            Ending::Killed => true,
            Ending::Time | Ending::NotStarted(_) | Ending::TooLarge => false,
        }
    }

    /// Returns the error for the resource's condition.
    pub(super) fn error(&self, limits: &Rendering) -> RenderError {
        let mib = limits.memory >> 20;
        let message = match self {
            Ending::Time => {
                format!(
                    "rendering took longer than {:?} (limit --render-timeout): the chart computes too much",
                    limits.timeout
                )
            }
            Ending::Memory => format!("rendering needs more than {mib} MiB of memory (limit --render-memory)"),
            Ending::Killed => format!(
                "the render worker was killed; if nobody did, the container is out of memory: raise its limit, or lower --render-memory from {mib} MiB"
            ),
            Ending::Crash(how) => format!(
                "the render worker crashed: {how} (limits: 8 MiB of stack, --render-memory of {mib} MiB, --render-timeout of {:?})",
                limits.timeout
            ),
            Ending::NotStarted(error) => format!("cannot start a render worker: {error}"),
            Ending::TooLarge => "the values are larger than 64 MiB (limit MAX_QUESTION)".to_owned(),
        };
        match self {
            // The chart is not at fault, because its limits end a worker in other ways.
            Ending::Killed | Ending::NotStarted(_) => {
                RenderError::Unanswered { reason: Reason::RenderLimit.as_str(), message }
            }
            _ => RenderError::Failed { reason: Reason::RenderLimit.as_str(), message },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(raw: i32, stderr: &str) -> String {
        Ending::read(ExitStatus::from_raw(raw), stderr).error(&Rendering::default()).to_string()
    }

    #[test]
    fn the_message_names_the_limit_and_its_flag() {
        let memory = "rendering needs more than 256 MiB of memory (limit --render-memory)";
        assert_eq!(ended(libc::SIGABRT, "memory allocation of 64 bytes failed\n"), memory);
        let time = "rendering took longer than 30s (limit --render-timeout): the chart computes too much";
        assert_eq!(ended(libc::SIGXCPU, ""), time);
        assert!(ended(libc::SIGKILL, "").contains("was killed"));
        assert!(ended(libc::SIGABRT, "thread 'main' (1) has overflowed its stack").contains("its stack overflowed"));
        assert!(ended(libc::SIGSEGV, "").starts_with("the render worker crashed: signal 11 (limits: 8 MiB of stack"));
        assert!(ended(3 << 8, "").contains("exit code 3"));
    }

    #[test]
    fn only_what_another_render_may_have_caused_is_tried_again() {
        let again = |ending: Ending| [Past::Clean, Past::Shared].map(|past| ending.may_pass(past));
        assert_eq!(again(Ending::Memory), [false, true]);
        assert_eq!(again(Ending::Crash(String::new())), [false, true]);
        assert_eq!(again(Ending::Killed), [true, true]);
        assert_eq!(again(Ending::Time), [false, false]);
        assert_eq!(again(Ending::TooLarge), [false, false]);
    }
}
