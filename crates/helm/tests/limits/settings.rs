//! Limits of `--set`.

use go_template::Map;
use helm::strvals;

use super::{Cases, is_error};

fn set(text: &str) -> Result<Map, String> {
    let map = Map::default();
    strvals::parse_into(text, &map).map_err(|error| error.to_string()).map(|()| map)
}

#[test]
fn set_flags_are_bounded() {
    let mut cases = Cases::of(module_path!(), "set_flags_are_bounded");
    for (name, text, expected) in [
        ("index", "a[1000000000]=1".to_owned(), "index of 1000000000 is greater than maximum supported index of 65536"),
        (
            "nested names",
            format!("{}=1", vec!["a"; 100].join(".")),
            "value name nested level is greater than maximum supported nested level of 30",
        ),
        (
            "nested lists",
            format!("a{}=1", "[0]".repeat(10_000)),
            "lists are nested deeper than the maximum supported level of 30",
        ),
        ("nested braces", "a={".repeat(10_000), "list must terminate"),
        (
            "large nested lists",
            format!("a{}=1", "[65000]".repeat(31)),
            "lists are nested deeper than the maximum supported level of 30",
        ),
    ] {
        cases.add(format!("--set, {name}"), move || is_error(set(&text).map(|_| ()), expected));
    }
    cases.add("--set, a name of a megabyte", || {
        assert_eq!(set(&format!("{}=1", "a".repeat(1_000_000))).unwrap().len(), 1);
    });
    cases.add("--set, 29 large lists", || assert!(set(&format!("a{}=1", "[65000]".repeat(29))).is_ok()));
    cases.run();
}
