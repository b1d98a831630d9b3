//! Runs whole managers against a cluster in memory, on one thread with paused time: one seed decides every action,
//! delay and fault.
//!
//! `script` is the sequence of actions of a run, drawn from a seed (`draw`, `stories`, `newer`, `timing`, `moves`,
//! `unseen`, `hook_stories`, `interventions`, `overrides`, `settings`); `run` plays it, `shrink` finds a shorter script
//! that fails alike, and `repeated` plays seeds twice. `world` is the cluster, `network` the connection to it, `faults`
//! the failures of that connection, `registry` has charts, `process` is a manager, `actors` and `helm` everyone else
//! who acts. `checks` holds the invariants of every write (`rollout`: of rollouts, `order`: of groups, `jobs`: of Jobs,
//! `hooks`: of hooks that failed, `others`: of what others wrote, `generated`: of generated values, `places`: of where
//! records are), `quiet` those of rests and of the end (`rendered`: of what the chart renders, `status`: of what
//! resources say), and `trace` the log. See docs/decisions/0057-simulation.md.

pub mod actors;
pub mod checks;
pub mod draw;
pub mod faults;
pub mod generated;
pub mod helm;
pub mod hook_stories;
pub mod hooks;
pub mod interventions;
pub mod jobs;
pub mod moves;
pub mod names;
pub mod network;
pub mod newer;
pub mod order;
pub mod others;
pub mod overrides;
pub mod places;
pub mod process;
pub mod quiet;
pub mod registry;
pub mod rendered;
pub mod repeated;
pub mod rollout;
pub mod run;
pub mod script;
pub mod settings;
pub mod shrink;
pub mod status;
pub mod stories;
pub mod timing;
pub mod trace;
pub mod unseen;
pub mod world;
