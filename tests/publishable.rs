//! The crates that are published can be: their manifests say what a registry asks for, they depend on nothing that
//! is not published, and a package contains every file of its folder. `make publishable` also compiles the packages.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

fn cargo(arguments: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO"));
    command.args(arguments).arg("--offline").current_dir(env!("CARGO_MANIFEST_DIR"));
    let output = command.output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn packages() -> Vec<Value> {
    let text = cargo(&["metadata", "--no-deps", "--format-version=1"]);
    let metadata: Value = serde_json::from_str(&text).unwrap();
    metadata["packages"].as_array().unwrap().clone()
}

/// Returns the crates that are published: those that do not say `publish = false`.
fn published() -> Vec<Value> {
    let mut packages = packages();
    packages.retain(|package| package["publish"].is_null());
    assert!(packages.len() > 10);
    packages
}

fn name(package: &Value) -> &str {
    package["name"].as_str().unwrap()
}

/// Returns the name of a package's crate in code and in documents, without the prefix of names that others have taken
/// in the registry.
pub(crate) fn name_of(package: &Value) -> &str {
    let manifest = package["manifest_path"].as_str().unwrap();
    let short = name(package).strip_prefix("hybrid-");
    short.filter(|short| manifest.ends_with(&format!("/crates/{short}/Cargo.toml"))).unwrap_or(name(package))
}

/// Returns the names of the crates that are published.
pub(crate) fn published_names() -> BTreeSet<String> {
    published().iter().map(|package| name_of(package).to_owned()).collect()
}

#[test]
fn a_crate_is_called_like_its_folder() {
    for package in packages() {
        let targets = package["targets"].as_array().unwrap();
        let library = targets.iter().find(|target| target["kind"][0] == "lib");
        let Some(library) = library.filter(|_| folder(&package).parent().unwrap().ends_with("crates")) else {
            continue;
        };
        let folder = folder(&package);
        let folder = folder.file_name().unwrap().to_str().unwrap();
        assert_eq!((name_of(&package), library["name"].as_str()), (folder, Some(&*folder.replace('-', "_"))));
    }
}

/// Cargo only warns about a profile of a package that does not exist, and builds without it.
#[test]
fn every_profile_names_a_package() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let read = |name: &str| fs::read_to_string(root.join(name)).unwrap();
    let (manifest, lock) = (read("Cargo.toml"), read("Cargo.lock"));
    let named = manifest.lines().filter_map(|line| line.strip_prefix("[profile.")?.split_once(".package."));
    let named: Vec<&str> = named.map(|(_, name)| name.trim_end_matches(']')).filter(|name| *name != "\"*\"").collect();
    assert!(named.len() > 10);
    let missing: Vec<&&str> = named.iter().filter(|name| !lock.contains(&format!("name = \"{name}\"\n"))).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn every_published_crate_says_what_a_registry_asks_for() {
    for package in published() {
        let (name, folder) = (name(&package), folder(&package));
        for field in ["description", "license", "readme", "repository", "rust_version"] {
            assert!(package[field].as_str().is_some_and(|text| !text.is_empty()), "{name} has no {field}");
        }
        for (field, most) in [("keywords", 5), ("categories", 5)] {
            let count = package[field].as_array().unwrap().len();
            assert!((1..=most).contains(&count), "{name} has {count} {field}, of at most {most}");
        }
        let page = fs::read_to_string(folder.join(package["readme"].as_str().unwrap())).unwrap();
        let relative: Vec<&str> = page.split("](").skip(1).filter(|link| link.starts_with("..")).collect();
        assert!(relative.is_empty(), "the page of {name} links to files that its package lacks: {relative:?}");
    }
}

#[test]
fn a_published_crate_depends_on_no_crate_that_is_not_published() {
    let published = published();
    let names: BTreeSet<&str> = published.iter().map(name).collect();
    for package in &published {
        for dependency in package["dependencies"].as_array().unwrap() {
            // Cargo leaves out development dependencies without a version.
            let left_out = dependency["kind"] == "dev" && dependency["req"] == "*";
            if dependency["path"].is_string() && !left_out {
                let needed = dependency["name"].as_str().unwrap();
                assert!(names.contains(needed), "{} needs {needed}, which is not published", name(package));
                assert_ne!(dependency["req"], "*", "{} needs {needed} without a version", name(package));
            }
        }
    }
}

fn folder(package: &Value) -> PathBuf {
    Path::new(package["manifest_path"].as_str().unwrap()).parent().unwrap().to_owned()
}

/// Adds the files below a folder, relative to `root`.
pub(crate) fn files(root: &Path, folder: &Path, found: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let path = entry.path();
        if path.is_dir() {
            files(root, &path, found);
        } else {
            found.insert(path.strip_prefix(root).unwrap().to_string_lossy().into_owned());
        }
    }
}

#[test]
fn a_package_contains_every_source_and_template_of_its_crate() {
    for package in published() {
        let folder = folder(&package);
        let mut wanted = BTreeSet::new();
        for part in ["src", "templates", "assets", "manifests", "tools"].map(|part| folder.join(part)) {
            if part.is_dir() {
                files(&folder, &part, &mut wanted);
            }
        }
        let listed = cargo(&["package", "--list", "--allow-dirty", "--package", name(&package)]);
        let listed: BTreeSet<String> = listed.lines().map(str::to_owned).collect();
        let missing: Vec<&String> = wanted.difference(&listed).collect();
        assert!(missing.is_empty(), "{} is packaged without {missing:?}", name(&package));
    }
}
