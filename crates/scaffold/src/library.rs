//! The source of the library `helm-operator` for a hybrid project: the registry, a checkout in place, or a copy in the
//! project.

use std::collections::BTreeMap;

use crate::{Error, Project};

/// The folder of a project's copy.
pub const FOLDER: &str = "vendor/helm-operator";

/// The crate that a project's tests start a control plane with.
const HARNESS: &str = "test-cluster";

/// The library's crates; the first is the one that a project depends on. A test compares them with the manifests.
pub(crate) const CRATES: [&str; 14] = [
    "helm-operator",
    HARNESS,
    "controller",
    "scaffold",
    "helm-release",
    "registry",
    "outside",
    "memory-api",
    "helm",
    "sprig",
    "primes",
    "go-encoding",
    "go-template",
    "golibs",
];

/// Folders of a crate that only its own tests and benchmarks need.
const UNUSED: [&str; 4] = ["benches", "examples", "target", "tests"];

/// The source of `helm-operator` for a hybrid project.
#[derive(Clone, Debug)]
pub enum Library {
    /// This version in the registry.
    Version(String),
    /// A checkout in place.
    Checkout(Checkout),
    /// A copy of these sources in the project.
    Copy(Sources),
}

/// A checkout that a project depends on in place.
#[derive(Clone, Debug)]
pub struct Checkout {
    /// The crate's folder, as the project's `Cargo.toml` names it.
    pub(crate) folder: String,
    /// The lock file with the dependency versions that the library is tested with.
    pub(crate) lock: Option<Vec<u8>>,
}

/// The files of a copy of the library.
#[derive(Clone, Debug)]
pub struct Sources {
    files: BTreeMap<String, Vec<u8>>,
    lock: Vec<u8>,
}

impl Sources {
    /// Reads the sources of a checkout: `file` reads a file at its root, `below` lists a folder's files with paths
    /// relative to it. Returns `None` if a part is missing.
    pub(crate) fn of<E>(
        file: impl Fn(&str) -> Option<Vec<u8>>,
        below: impl Fn(&str) -> Result<Vec<(String, Vec<u8>)>, E>,
    ) -> Result<Option<Sources>, E> {
        let (Some(manifest), Some(lock)) = (file("Cargo.toml"), file("Cargo.lock")) else { return Ok(None) };
        let mut files = BTreeMap::new();
        files.insert("Cargo.toml".to_owned(), workspace(&String::from_utf8_lossy(&manifest)).into_bytes());
        files.insert("README.md".to_owned(), README.into());
        files.extend(file("LICENSE").map(|text| ("LICENSE".to_owned(), text)));
        for name in CRATES {
            let folder = format!("crates/{name}");
            let found = below(&folder)?.into_iter().filter(|(path, _)| is_needed(path));
            let before = files.len();
            files.extend(found.map(|(path, content)| (format!("{folder}/{path}"), content)));
            if files.len() == before {
                return Ok(None);
            }
        }
        Ok(Some(Sources { files, lock }))
    }
}

impl Library {
    /// Returns the dependency's line in `Cargo.toml`, with a comment that explains it.
    pub(crate) fn dependency(&self) -> String {
        match self {
            Library::Version(version) => format!("helm-operator = {version:?}"),
            Library::Checkout(Checkout { folder, .. }) => format!(
                "# A checkout of the library, in place: the image's build and other machines lack it.\n\
                 helm-operator = {{ path = {folder:?} }}"
            ),
            Library::Copy(_) => format!(
                "# A copy of the library, until it is published: then name its version here, and delete vendor.\n\
                 helm-operator = {{ path = {:?} }}",
                format!("{FOLDER}/crates/{}", CRATES[0])
            ),
        }
    }

    /// Returns the line in `Cargo.toml` for the control plane in tests.
    pub(crate) fn harness(&self) -> String {
        match self {
            Library::Version(version) => format!("{HARNESS} = {version:?}"),
            Library::Checkout(Checkout { folder, .. }) => {
                format!("{HARNESS} = {{ path = {:?} }}", format!("{folder}/../{HARNESS}"))
            }
            Library::Copy(_) => format!("{HARNESS} = {{ path = {:?} }}", format!("{FOLDER}/crates/{HARNESS}")),
        }
    }

    /// Writes the copy, if this is one and the project's `Cargo.toml` names it. Writes the lock file unless the project
    /// has its own.
    ///
    /// # Errors
    /// The copy's folder holds something else.
    pub(crate) fn write(&self, project: &mut Project) -> Result<(), Error> {
        let lock = match self {
            Library::Version(_) => None,
            Library::Checkout(checkout) => checkout.lock.as_deref(),
            Library::Copy(sources) => {
                if project.text("Cargo.toml").is_some_and(|text| text.contains(FOLDER)) {
                    sources.write(project)?;
                }
                Some(&*sources.lock)
            }
        };
        if let Some(lock) = lock {
            project.create("Cargo.lock", lock);
        }
        Ok(())
    }
}

impl Sources {
    /// Replaces the project's copy by these sources. Leaves a folder that is no copy, such as a clone, untouched.
    fn write(&self, project: &mut Project) -> Result<(), Error> {
        if project.below(FOLDER).next().is_some() && !is_copy(project) {
            return Err(Error::NoCopy(FOLDER));
        }
        let is_gone = |path: &&str| !self.files.contains_key(*path);
        let gone: Vec<String> = project.below(FOLDER).map(|(path, _)| path).filter(is_gone).map(in_copy).collect();
        gone.iter().for_each(|path| project.remove(path));
        for (path, content) in &self.files {
            project.write(in_copy(path), content.as_slice());
        }
        Ok(())
    }
}

/// Returns whether the project's folder is a copy, by the first line of its manifest.
fn is_copy(project: &Project) -> bool {
    project.text(&in_copy("Cargo.toml")).is_some_and(|text| text.lines().next() == HEAD.lines().next())
}

fn in_copy(path: &str) -> String {
    format!("{FOLDER}/{path}")
}

/// The README of the copy, for people who find it.
const README: &str = "\
# A copy of helm-operator

`helm-operator init --hybrid` put the library's sources here, without tests, so that this project builds on every machine: the library is not
published yet. Commit them, and do not edit them: the same command, run again with a newer program, replaces them.
";

/// Returns a manifest for the copy, with the versions that its crates inherit from the checkout's `manifest`.
fn workspace(manifest: &str) -> String {
    let is_inherited = |table: &&str| {
        let name = table.lines().next().unwrap_or_default();
        name.starts_with("[workspace.") && !name.starts_with("[workspace.lints")
    };
    let tables: Vec<&str> = tables(manifest).into_iter().filter(is_inherited).collect();
    format!("{HEAD}{}{LINTS}", tables.concat())
}

const HEAD: &str = "\
# Written by 'helm-operator init --hybrid'.
[workspace]
members = [\"crates/*\"]
resolver = \"3\"

";

const LINTS: &str = "\
[workspace.lints.rust]
unsafe_code = \"forbid\"
# What a newer compiler dislikes here is nothing that this project can change.
warnings = \"allow\"
";

/// Returns the tables of a TOML file, each with its header.
fn tables(text: &str) -> Vec<&str> {
    let mut starts: Vec<usize> = text.match_indices("\n[").map(|(at, _)| at + 1).collect();
    starts.push(text.len());
    starts.windows(2).map(|ends| &text[ends[0]..ends[1]]).collect()
}

/// Returns whether a crate needs this file to compile. Test modules are files named `tests.rs` and folders named
/// `tests`.
fn is_needed(path: &str) -> bool {
    let parts: Vec<&str> = path.split('/').collect();
    let is_hidden = parts.iter().any(|part| part.starts_with('.'));
    let is_test =
        parts[0] == "src" && (parts.contains(&"tests") || !path.ends_with(".rs") || path.ends_with("/tests.rs"));
    !is_hidden && !is_test && !UNUSED.contains(&parts[0])
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    const MANIFEST: &str = "\
[workspace]
members = [\"crates/*\", \"examples/a\"]

[workspace.package]
version = \"1.2.3\"

[workspace.dependencies]
golibs = { path = \"crates/golibs\" }
kube = { version = \"5\", features = [
  \"client\",
] }

[workspace.lints.clippy]
panic = \"warn\"

[profile.dev]
debug = 1

[package]
name = \"root\"
";

    /// Returns sources of a library whose crate has these files.
    pub(crate) fn sources(files: &[(&str, &str)]) -> Sources {
        let file = |name: &str| (name != "LICENSE").then(|| MANIFEST.as_bytes().to_vec());
        let below = |folder: &str| {
            let files = if folder.ends_with("helm-operator") { files } else { &[("Cargo.toml", "")] };
            Ok::<_, ()>(files.iter().map(|(path, text)| ((*path).to_owned(), text.as_bytes().to_vec())).collect())
        };
        Sources::of(file, below).unwrap().unwrap()
    }

    #[test]
    fn a_copy_inherits_versions_but_neither_members_profiles_nor_lints() {
        let text = workspace(MANIFEST);
        let kept = "[workspace.package]\nversion = \"1.2.3\"\n\n[workspace.dependencies]\n";
        assert!(text.contains(kept) && text.contains("  \"client\",\n] }\n"), "{text}");
        assert!(["examples", "profile", "root", "clippy"].iter().all(|word| !text.contains(word)), "{text}");
        assert_eq!(text.matches("[workspace]\n").count(), 1);
    }

    #[test]
    fn a_copy_has_what_compiles_and_no_tests() {
        let needed = [
            "Cargo.toml",
            "README.md",
            "tools/build",
            "manifests/node.yaml",
            "src/lib.rs",
            "src/a/tests_of.rs",
            "templates/chart/templates/tests/a.yaml",
        ];
        let unused = [
            "src/a/tests.rs",
            "src/tests/mod.rs",
            "src/a/cases.jsonl",
            "tests/a.rs",
            "benches/a.rs",
            "examples/a.rs",
            ".git/x",
        ];
        assert!(needed.iter().all(|path| is_needed(path)), "{needed:?}");
        assert!(unused.iter().all(|path| !is_needed(path)), "{unused:?}");
    }

    #[test]
    fn a_copy_is_replaced_and_the_projects_own_versions_stay() {
        let old = sources(&[("src/lib.rs", "old"), ("src/gone.rs", "")]);
        let mut project = Project::from_files([("Cargo.toml", Library::Copy(old.clone()).dependency())]);
        Library::Copy(old).write(&mut project).unwrap();
        let mut project = Project::from_files(project.files());
        project.write("Cargo.lock", "mine");
        Library::Copy(sources(&[("src/lib.rs", "new")])).write(&mut project).unwrap();
        assert_eq!(project.text("vendor/helm-operator/crates/helm-operator/src/lib.rs"), Some("new"));
        assert!(!project.contains("vendor/helm-operator/crates/helm-operator/src/gone.rs"));
        assert_eq!(project.text("Cargo.lock"), Some("mine"));
    }

    #[test]
    fn the_control_plane_for_tests_comes_from_where_the_library_does() {
        assert_eq!(Library::Version("1.2.3".into()).harness(), "test-cluster = \"1.2.3\"");
        let checkout = Checkout { folder: "../library/crates/helm-operator".into(), lock: None };
        let path = "../library/crates/helm-operator/../test-cluster";
        assert_eq!(Library::Checkout(checkout).harness(), format!("test-cluster = {{ path = {path:?} }}"));
        let copied = "test-cluster = { path = \"vendor/helm-operator/crates/test-cluster\" }";
        assert_eq!(Library::Copy(sources(&[("src/lib.rs", "")])).harness(), copied);
    }

    #[test]
    fn a_project_that_names_another_library_gets_no_copy() {
        let mut project = Project::from_files([("Cargo.toml", "helm-operator = \"1\"")]);
        Library::Copy(sources(&[("src/lib.rs", "")])).write(&mut project).unwrap();
        assert_eq!(project.below("vendor").count(), 0);
    }

    #[test]
    fn a_folder_in_the_place_of_the_copy_that_is_none_stays_as_it_is() {
        let library = Library::Copy(sources(&[("src/lib.rs", "new")]));
        for (file, text) in [("Cargo.toml", "[workspace]\n"), ("crates/helm-operator/src/lib.rs", "mine")] {
            let manifest = ("Cargo.toml".to_owned(), library.dependency());
            let mut project = Project::from_files([manifest, (in_copy(file), text.to_owned())]);
            let error = library.write(&mut project).unwrap_err().to_string();
            assert!(error.starts_with("vendor/helm-operator is not the copy"), "{error}");
            assert_eq!(project.changes().count(), 0, "{file}");
        }
    }

    #[test]
    fn the_copied_crates_are_those_that_the_library_depends_on() {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        for name in CRATES {
            let manifest = std::fs::read_to_string(root.join(name).join("Cargo.toml")).unwrap();
            let tables = tables(&manifest);
            let used =
                tables.iter().filter(|table| table.starts_with("[dependencies]") || table.starts_with("[target."));
            for line in used.flat_map(|table| table.lines()) {
                let dependency = line.split(['.', ' ']).next().unwrap_or_default();
                let is_here = !dependency.is_empty() && root.join(dependency).join("Cargo.toml").exists();
                assert!(!is_here || CRATES.contains(&dependency), "{name} depends on {dependency}");
            }
        }
    }

    #[test]
    fn a_checkout_without_one_of_the_crates_is_none() {
        let missing = Sources::of(|_| Some(Vec::new()), |_| Ok::<_, ()>(Vec::new())).unwrap();
        assert!(missing.is_none());
    }
}
