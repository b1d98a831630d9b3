#![doc = include_str!("../README.md")]

mod decode;

pub mod dns;
pub mod release_name;
pub mod schema;
pub mod strvals;
pub mod values;

pub mod chart;
pub mod manifest;

pub mod disk;
pub mod view;

pub mod engine;
pub mod origins;
pub mod reads;
pub mod sequence;

pub mod template;

pub use decode::WrongType;
