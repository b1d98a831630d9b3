#![doc = include_str!("../README.md")]

pub use audit::Request;
pub use binaries::{Binaries, home, kubernetes_version};
pub use builder::build;
pub use cluster::{Options, Processes, TestCluster};
pub use component::Component;
pub use error::Error;
pub use namespace::Namespace;
pub use process::{LIMIT, Process, eventually, eventually_within};
pub use real_node::RealNode;

mod audit;
mod binaries;
mod builder;
mod cluster;
mod component;
mod control_plane;
mod error;
mod folder;
mod kubeconfig;
mod namespace;
mod ports;
mod process;
mod real_node;
mod tools;
mod watchdog;
