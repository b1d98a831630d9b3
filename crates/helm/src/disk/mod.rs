//! The only module that accesses the file system: it reads charts and values, and writes rendered files.
//!
//! Everything else works on data in memory, so rendering also works where there are no files. A test checks this.

mod chart;
mod error;
mod folder;
mod ignore;
mod schemas;
#[cfg(test)]
mod tests;
mod text;

pub use error::ReadError;
pub use folder::{Bounds, CHART_BOUNDS, Odd, read_folder};
pub use ignore::{RuleError, without_ignored};
pub use schemas::SchemaCopies;
pub use text::InputError;
pub(crate) use text::{Existing, exists, read, write};
