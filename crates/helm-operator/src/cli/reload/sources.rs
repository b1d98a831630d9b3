//! Rebuilds the program when one of its sources is saved. The running program serves until the new one is built.
//!
//! This works only for a program that `cargo run` started: cargo then passes the package's directory, its own path, and
//! the path of the program that it built.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::Command;

use notify::RecursiveMode;

use super::settled::{Fingerprint, fingerprint};

/// The parts of the package's directory that a build depends on. `Cargo.lock` is left out, because builds write it.
const PARTS: [&str; 3] = ["src", "Cargo.toml", "build.rs"];

/// How to build the program, and the state of its sources.
pub(super) struct Sources {
    folder: PathBuf,
    cargo: OsString,
    arguments: Vec<OsString>,
    /// The sources of the running program, or of the last failed build.
    seen: Fingerprint,
}

impl Sources {
    /// Returns the sources of this program; `None` if `cargo run` did not start it.
    pub(super) fn of(program: &Path) -> Option<Sources> {
        let (folder, cargo) = (std::env::var_os("CARGO_MANIFEST_DIR")?, std::env::var_os("CARGO")?);
        Sources::in_folder(PathBuf::from(folder), cargo, program)
    }

    fn in_folder(folder: PathBuf, cargo: OsString, program: &Path) -> Option<Sources> {
        let arguments = arguments(program)?;
        let seen = fingerprint(&paths(&folder));
        Some(Sources { folder, cargo, arguments, seen })
    }

    /// Returns the directories to watch. The files of the package's own directory are not watched individually, because
    /// editors replace a saved file by a new one.
    pub(super) fn folders(&self) -> [(PathBuf, RecursiveMode); 2] {
        let source = self.folder.join(PARTS[0]);
        [(self.folder.clone(), RecursiveMode::NonRecursive), (source, RecursiveMode::Recursive)]
    }

    /// Returns the files and folders that a build depends on.
    pub(super) fn paths(&self) -> [PathBuf; 3] {
        paths(&self.folder)
    }

    /// Builds the program if a source was saved since the last build. Returns whether there is a new program.
    pub(super) fn build(&mut self) -> bool {
        let saved = fingerprint(&self.paths());
        if saved == self.seen {
            return false;
        }
        self.seen = saved;
        tracing::info!("A source was saved: building the program, while this one serves");
        let mut build = Command::new(&self.cargo);
        build.args(&self.arguments).current_dir(&self.folder);
        let names = std::env::vars_os().map(|(name, _)| name);
        names.filter(|name| is_of_package(name)).for_each(|name| _ = build.env_remove(name));
        match build.status() {
            Ok(status) if status.success() => true,
            Ok(_) => {
                tracing::error!("The program does not compile: the running one stays");
                false
            }
            Err(error) => {
                tracing::error!(error = error.to_string(), "Cannot run cargo: the running program stays");
                false
            }
        }
    }
}

/// Returns the arguments with which cargo builds a program at this path: `target/debug/shop-operator`.
fn arguments(program: &Path) -> Option<Vec<OsString>> {
    let (name, folder) = (program.file_name()?, program.parent()?.file_name()?);
    // Only the profile `dev` has a directory of another name.
    let profile = if folder == "debug" { OsStr::new("dev") } else { folder };
    Some(["build".as_ref(), "--profile".as_ref(), profile, "--bin".as_ref(), name].map(OsStr::to_owned).to_vec())
}

/// Returns whether `cargo run` set a variable for the program. Build scripts that read it would run again, and half of
/// all crates would be rebuilt with them.
fn is_of_package(name: &OsStr) -> bool {
    let name = name.to_string_lossy();
    name == "CARGO" || ["CARGO_PKG_", "CARGO_MANIFEST_"].iter().any(|beginning| name.starts_with(beginning))
}

fn paths(folder: &Path) -> [PathBuf; 3] {
    PARTS.map(|part| folder.join(part))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    /// Returns a package whose `cargo` records its arguments, and fails while the file `broken` exists.
    fn package() -> (tempfile::TempDir, Sources) {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::create_dir_all(at("src/controllers")).unwrap();
        fs::write(at("src/controllers/a.rs"), "one").unwrap();
        fs::write(at("Cargo.toml"), "").unwrap();
        fs::write(at("cargo"), "#!/bin/sh\necho \"$@$CARGO_PKG_NAME$CARGO_MANIFEST_DIR\" >> built\n[ ! -e broken ]\n")
            .unwrap();
        fs::set_permissions(at("cargo"), fs::Permissions::from_mode(0o755)).unwrap();
        let program = at("target/debug/shop-operator");
        let sources = Sources::in_folder(folder.path().to_owned(), at("cargo").into(), &program).unwrap();
        (folder, sources)
    }

    #[test]
    fn a_saved_source_is_built_once_and_a_failed_build_waits_for_the_next_save() {
        let (folder, mut sources) = package();
        let built = || fs::read_to_string(folder.path().join("built")).unwrap_or_default();
        assert_eq!((sources.build(), built()), (false, String::new()), "nothing was saved");
        fs::write(folder.path().join("src/controllers/a.rs"), "longer").unwrap();
        fs::write(folder.path().join("broken"), "").unwrap();
        assert!(!sources.build());
        let line = "build --profile dev --bin shop-operator\n";
        assert_eq!(built(), line);
        // What cargo itself reads and writes is not a save.
        fs::write(folder.path().join("Cargo.lock"), "").unwrap();
        assert!(!sources.build());
        assert_eq!(built(), line);
        fs::remove_file(folder.path().join("broken")).unwrap();
        fs::write(folder.path().join("src/new.rs"), "").unwrap();
        assert!(sources.build());
        assert_eq!(built(), line.repeat(2));
        let source = folder.path().join("src");
        let folders = [(folder.path().to_owned(), RecursiveMode::NonRecursive), (source, RecursiveMode::Recursive)];
        assert_eq!(sources.folders(), folders);
    }

    #[test]
    fn the_folder_of_the_program_names_the_profile() {
        let of = |path: &str| arguments(Path::new(path)).map(|all| all[2].clone());
        assert_eq!(of("/x/target/debug/a"), Some("dev".into()));
        assert_eq!(of("/x/target/release/a"), Some("release".into()));
        assert_eq!(of("/x/target/fast/a"), Some("fast".into()));
        assert_eq!(of("/"), None);
    }
}
