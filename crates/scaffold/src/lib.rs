#![doc = include_str!("../README.md")]

mod progress;
pub mod project;

pub mod gvk;
mod kustomize;
pub mod lines;

mod documents;

mod definitions;
mod deployment;
mod dockerfile;

mod project_file;
mod watches;
mod yaml;

mod templates;

mod chart;
mod starter;

pub mod annotations;
pub mod bundle;
pub mod crd;
pub mod helm_chart;
pub mod lint;
pub mod policies;
pub mod rbac;
pub mod ring;
mod sample;
pub mod webhooks;

pub mod create_api;
pub mod hybrid;
pub mod init;
pub mod library;
pub mod take_over;

pub mod disk;
mod error;
mod lookups;

pub use chart::{ChartFiles, fetched_place};
pub use create_api::{CreateApi, Native, Source, create_api};
pub use error::Error;
pub use gvk::Gvk;
pub use hybrid::add_rust;
pub use init::{Init, Settings, init};
pub use library::{Library, Sources};
pub use progress::Step;
pub use project::{Change, Existing, Project};
pub use take_over::take_over;
