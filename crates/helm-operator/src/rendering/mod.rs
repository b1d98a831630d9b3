//! Renders charts in worker processes of the same program, so that a hostile chart can exhaust only its own render.
//!
//! `settings` decides how many workers there are and what each may use; `pool` hands jobs to them; `process` is one worker as the manager sees
//! it, and `ending` names what ended it; `worker` is the process itself, which `confine` restricts before it reads anything; `message` is what they
//! say to each other. See docs/decisions/0033-rendering-apart.md.

mod confine;
mod ending;
mod message;
mod output;
mod pool;
mod process;
mod settings;
#[cfg(test)]
pub(crate) mod tests;
mod weight;
pub(crate) mod worker;

pub(crate) use ending::RENDER_LIMIT;
pub(crate) use message::{EXTERNAL_SCHEMA, Job};
pub(crate) use output::{Analysed, Output, explain, failure};
pub(crate) use pool::Workers;
pub(crate) use process::Program;
pub(crate) use settings::{Asked, memory_limit};

pub use settings::Rendering;
