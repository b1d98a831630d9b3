//! The engine of a page that renders a chart in a browser: values in, and out come manifests, errors with their places,
//! and the origin of each value. The page itself is in `web/`; `make playground` builds and tests both.

mod answer;
#[cfg(all(target_family = "wasm", target_os = "unknown"))]
pub mod browser;
pub mod vectors;

pub use answer::{Question, answer, open};
