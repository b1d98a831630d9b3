#![doc = include_str!("../README.md")]

mod dynamic;
mod intern;
pub mod sync;
mod world;

mod api;
mod as_yaml;
mod cause;
mod head;
mod pages;
mod refusal;
mod weight;

mod memory;

pub use api::{
    ActingAs, Api, Call, DISCOVERY, Error, MAX_RESPONSE_BYTES, PAGE, Pieces, Purpose, Response, read_within,
};
pub use as_yaml::as_yaml;
pub use cause::chain;
pub use head::{Head, Headed};
pub use intern::intern;
pub use memory::{Disturbance, MemoryApi};
pub use memory_api::{Target, group_of, object_path, written_path};
pub use pages::{list, pages, pages_in_turn};
pub use refusal::{is_of_conversion, is_outage, is_transient, is_unanswered, named, reached_server, value_at};
pub use weight::{NODE_WEIGHT, weight};
pub use world::*;
