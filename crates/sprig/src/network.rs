//! `getHostByName`, which always returns an empty string, so that a chart renders the same everywhere.
//!
//! Helm does so too, unless DNS is enabled. Counterpart: Sprig's `network.go`.

use go_template::{FuncMap, Str};

pub(super) fn register(map: &mut FuncMap) {
    map.add("getHostByName", |_: Str| "");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn get_host_by_name_takes_one_name() {
        let mut map = FuncMap::default();
        register(&mut map);
        assert_eq!(map.get("getHostByName").unwrap().params().len(), 1);
    }
}
