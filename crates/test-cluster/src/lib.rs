//! A real Kubernetes control plane for tests and the demo: etcd, kube-apiserver, kube-controller-manager,
//! kube-scheduler and kwok (one simulated node) as separate processes on loopback, each of which a test can kill.
//! [`RealNode`] is a node that runs containers.
//!
//! It leaves nothing behind: a watchdog stops the processes and removes their directory even if the test is killed, and
//! each start cleans up after killed watchdogs. It builds nothing: `make cluster` does.
//!
//! ```no_run
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use test_cluster::TestCluster;
//! if let Some(cluster) = TestCluster::shared_or_skip() {
//!     let namespace = cluster.namespace("scaling")?;
//!     cluster.kubectl(["-n", namespace.name(), "get", "pods"])?;
//! }
//! # Ok(())
//! # }
//! ```

pub use audit::Request;
pub use binaries::Binaries;
pub use cluster::{Options, Processes, TestCluster};
pub use component::Component;
pub use error::Error;
pub use namespace::Namespace;
pub use process::{LIMIT, Process, eventually, eventually_within};
pub use real_node::RealNode;

mod audit;
mod binaries;
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
