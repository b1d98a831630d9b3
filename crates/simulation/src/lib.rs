//! Whole managers against a cluster in memory, on one thread with paused time: one seed decides everything that happens, every delay, every fault.
//!
//! `script` is what happens in a run, drawn from a seed (`draw`, `stories`); `run` plays it, `shrink` finds a shorter one that fails alike. `world` is the cluster, `network` the way to it, `faults` what goes wrong
//! there, `process` a manager, `actors` and `helm` who else acts. `checks` is what must hold at every write (`rollout`), `quiet` at the end, `trace` what happened. See docs/decisions/0057-simulation.md.

pub mod actors;
pub mod checks;
pub mod draw;
pub mod faults;
pub mod helm;
pub mod names;
pub mod network;
pub mod process;
pub mod quiet;
pub mod rollout;
pub mod run;
pub mod script;
pub mod shrink;
pub mod stories;
pub mod trace;
pub mod world;
