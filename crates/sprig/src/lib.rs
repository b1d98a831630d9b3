#![doc = include_str!("../README.md")]

mod cast;
mod crypto;
mod date;
mod defaults;
mod dict;
mod encoding;
mod flow;
mod limits;
mod list;
mod math;
mod network;
mod path;
mod random;
mod reflect;
mod regex;
mod semver;
mod strings;
#[cfg(test)]
mod test_call;
mod url;

pub use flow::{MESSAGE_END, MESSAGE_START};
pub use limits::{check_list, exceeded};

use go_template::FuncMap;

/// Returns all functions that do not depend on a render; `include`, `tpl` and `lookup` come from the engine.
pub fn func_map() -> FuncMap {
    let mut map = FuncMap::default();
    for register in [
        crypto::register,
        date::register,
        defaults::register,
        dict::register,
        encoding::register,
        flow::register,
        list::register,
        math::register,
        network::register,
        path::register,
        random::register,
        reflect::register,
        regex::register,
        semver::register,
        strings::register,
        url::register,
    ] {
        register(&mut map);
    }
    map
}
