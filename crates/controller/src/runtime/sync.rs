//! Locks.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks; a panic elsewhere left no change half done.
pub fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}
