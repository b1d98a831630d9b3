//! The crate's modules form layers, and only one of them touches the file system.

#![allow(clippy::unwrap_used)] // A test may panic.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// The layers: each module may use only modules of earlier lines.
const LAYERS: &[&[&str]] = &[
    &["dns"],
    &["decode", "release_name", "schema", "strvals", "values"],
    &["chart", "manifest"],
    &["disk", "sequence", "view"],
    &["engine"],
    &["reads", "template"],
    &["origins"],
];

/// Items that do not exist, or fail, in WebAssembly without a host that provides them.
const SYSTEM: &[&str] = &["std::fs", "use std::env", "std::env::", "stdin(", "std::net", "std::process", "std::thread"];

/// Returns every source file that is not a test, with the name of its top-level module.
fn sources() -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut sources = Vec::new();
    collect(&root, &root, &mut sources);
    sources
}

fn collect(root: &Path, folder: &Path, sources: &mut Vec<(String, String)>) {
    let entries: BTreeSet<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    for path in entries {
        let name = path.file_name().unwrap().to_str().unwrap();
        if path.is_dir() {
            collect(root, &path, sources);
        } else if name.ends_with(".rs") && name != "tests.rs" {
            let below = path.strip_prefix(root).unwrap().to_str().unwrap();
            let module = below.split('/').next().unwrap().trim_end_matches(".rs").to_owned();
            let text = fs::read_to_string(&path).unwrap();
            let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
            let lines = code.lines().filter(|line| !line.trim_start().starts_with("//"));
            sources.push((module, lines.collect::<Vec<_>>().join("\n")));
        }
    }
}

/// Returns the top-level modules in paths of the form `crate::a` and `crate::{a, b::c}`.
fn used(code: &str) -> Vec<String> {
    let word = |text: &str| text.trim().split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap().to_owned();
    let paths = code.split("crate::").skip(1);
    let modules = paths.flat_map(|path| match path.strip_prefix('{') {
        Some(group) => group.split('}').next().unwrap().split(',').map(word).collect(),
        None => vec![word(path)],
    });
    modules.filter(|module| module.starts_with(char::is_lowercase)).collect()
}

fn layer(module: &str) -> Option<usize> {
    LAYERS.iter().position(|layer| layer.contains(&module))
}

#[test]
fn modules_use_lower_layers_only() {
    let mut seen = BTreeSet::new();
    for (module, code) in sources().into_iter().filter(|(module, _)| module != "lib") {
        let own = layer(&module);
        assert!(own.is_some(), "{module} has no layer");
        for used in used(&code).iter().filter(|used| **used != module) {
            assert!(layer(used).is_some_and(|used| Some(used) < own), "{module} uses {used}");
        }
        seen.insert(module);
    }
    assert_eq!(seen.len(), LAYERS.concat().len(), "a layer names a module that does not exist: {seen:?}");
}

#[test]
fn only_disk_touches_the_system() {
    let mut found = false;
    for (module, code) in sources() {
        let system = SYSTEM.iter().find(|system| code.contains(**system));
        found |= system.is_some();
        assert!(system.is_none() || module == "disk", "{module} uses {system:?}");
    }
    assert!(found, "the module disk is not searched");
}

#[test]
fn groups_and_single_paths_are_found() {
    let code = "use crate::values;\nuse crate::{chart::Chart, view};\nlet x = crate::engine::run();";
    assert_eq!(used(code), ["values", "chart", "view", "engine"]);
}
