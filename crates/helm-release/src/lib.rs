#![doc = include_str!("../README.md")]

pub mod action;
pub mod kube;
pub mod release;
pub mod storage;

#[cfg(test)]
mod sample;
