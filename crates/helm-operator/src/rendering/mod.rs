//! Renders charts in worker processes of the same program, so that a hostile chart can exhaust only its own render.
//!
//! A `renderer` turns a `request` into a candidate; `lookup` reads the cluster for its templates, `discovered` has what the
//! cluster serves, and `settling` decides which of its kinds count. `settings` determines
//! the number of workers and their limits; `pool` hands jobs to them; `process` is one worker from the manager's point
//! of view, and `ending` names the cause of its end; `worker` is the process itself, which `confine` restricts to some
//! system `calls` and `readable` files before it reads anything; `message` defines their protocol. See
//! docs/decisions/0033-rendering-apart.md.

#[cfg(target_os = "linux")]
mod calls;
mod confine;
pub(crate) mod discovered;
mod ending;
#[cfg(test)]
mod hostile_tests;
pub(crate) mod lookup;
mod message;
pub(crate) mod metadata;
mod output;
pub(crate) mod patches;
mod pool;
mod process;
mod readable;
pub(crate) mod renderer;
pub(crate) mod request;
mod settings;
mod settling;
#[cfg(test)]
pub(crate) mod tests;
pub(crate) mod unavailable;
mod weight;
pub(crate) mod worker;

pub(crate) use message::Job;
pub(crate) use output::{Analysed, Output, explain, separate};
pub(crate) use pool::Workers;
pub(crate) use process::Program;
pub(crate) use settings::{RenderingFlags, memory_limit};
pub(crate) use weight::message as too_heavy;

pub use settings::Rendering;
