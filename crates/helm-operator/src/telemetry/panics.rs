//! Reports panics: where and why, but without text that was formatted at run time, because it may quote a value.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::panic::{self, PanicHookInfo};

/// Replaces Rust's own report, which prints every message.
pub(super) fn report_panics() {
    panic::set_hook(Box::new(|panicked| {
        let place = panicked.location().map(ToString::to_string).unwrap_or_default();
        let backtrace = Backtrace::capture();
        let backtrace = (backtrace.status() == BacktraceStatus::Captured).then(|| backtrace.to_string());
        tracing::error!(place, backtrace, "Panicked, which is a bug: {}", message(panicked));
    }));
}

/// Returns a message that the source code spells out. Other messages may contain values.
fn message<'a>(panicked: &'a PanicHookInfo<'_>) -> &'a str {
    panicked
        .payload()
        .downcast_ref::<&'static str>()
        .copied()
        .unwrap_or("its message is hidden, since it may quote a value")
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    #[test]
    fn only_fixed_messages_are_shown() {
        let seen: Arc<Mutex<Vec<String>>> = Arc::default();
        let (before, kept) = (panic::take_hook(), seen.clone());
        let this = std::thread::current().id();
        panic::set_hook(Box::new(move |panicked| {
            if std::thread::current().id() == this {
                outside::sync::lock(&kept).push(message(panicked).to_owned());
            }
        }));
        let word = "hunter2é";
        let caught = [
            panic::catch_unwind(|| unreachable!()).is_err(),
            panic::catch_unwind(|| _ = &word[..8]).is_err(),
            panic::catch_unwind(|| panic!("no {word}")).is_err(),
        ];
        panic::set_hook(before);
        let hidden = "its message is hidden, since it may quote a value";
        assert_eq!(caught, [true; 3]);
        assert_eq!(*seen.lock().unwrap(), ["internal error: entered unreachable code", hidden, hidden]);
    }
}
