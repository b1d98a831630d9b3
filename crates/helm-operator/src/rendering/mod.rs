//! Renders charts in worker processes of the same program, so that a hostile chart can exhaust only its own render.
//!
//! A `renderer` turns a `request` into a candidate; `lookup` asks the cluster for its templates. `settings` decides how many workers there are and what each may use; `pool` hands jobs to them; `process` is one worker as the manager sees
//! it, and `ending` names what ended it; `worker` is the process itself, which `confine` restricts before it reads anything, to `calls` of the system and `readable` files; `message` is what they
//! say to each other. See docs/decisions/0033-rendering-apart.md.

#[cfg(target_os = "linux")]
mod calls;
mod confine;
mod ending;
#[cfg(test)]
mod hostile_tests;
pub(crate) mod lookup;
mod message;
mod output;
mod pool;
mod process;
mod readable;
pub(crate) mod renderer;
pub(crate) mod request;
mod settings;
#[cfg(test)]
pub(crate) mod tests;
mod weight;
pub(crate) mod worker;

pub(crate) use message::Job;
pub(crate) use output::{Analysed, Output, explain, failure};
pub(crate) use pool::Workers;
pub(crate) use process::Program;
pub(crate) use settings::{Asked, memory_limit};
pub(crate) use weight::message as too_heavy;

pub use settings::Rendering;
