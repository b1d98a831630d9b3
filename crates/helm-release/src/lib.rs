//! Releases in a cluster: their records, and what applies, waits for and deletes their objects.
//!
//! [`kube`] and [`storage`] reach the cluster through a trait that has an in-memory twin.

pub mod action;
pub mod kube;
pub mod release;
pub mod storage;

#[cfg(test)]
mod sample;
