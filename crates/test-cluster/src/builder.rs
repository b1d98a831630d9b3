//! Builds the binaries of a cluster from Go modules with pinned checksums, which are part of this crate (`tools/`).

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::binaries::{self, Binaries};
use crate::error::{Attempt, Error};

/// The programs that build the binaries.
const NEEDED: [&str; 3] = ["go", "bash", "git"];

/// Lists files of `tools/`.
macro_rules! files {
    ($($name:literal),+ $(,)?) => { [$(($name, include_str!(concat!("../tools/", $name)))),+] };
}

/// What a build needs, so that it does not depend on where this crate's sources are.
const FILES: [(&str, &str); 7] = files![
    "build",
    "distribution/go.mod",
    "distribution/go.sum",
    "helm/go.mod",
    "helm/go.sum",
    "kubernetes/go.mod",
    "kubernetes/go.sum",
];

/// Builds the binaries that are missing or out of date, and returns their folder. The first time on a machine takes
/// 10 to 15 minutes on two cores, with one line of progress per binary on standard error; later calls take less than a
/// second. Processes that build at the same time wait for each other. Does nothing if `USE_KUBECONFIG` or
/// `KUBEBUILDER_ASSETS` is set.
///
/// # Errors
/// [`Error::NoGo`] if binaries are missing, and so is Go, bash or git; [`Error::Build`] if the build fails, for example
/// because Go's modules cannot be downloaded.
pub fn build() -> Result<PathBuf, Error> {
    build_in(&binaries::home())
}

fn build_in(home: &Path) -> Result<PathBuf, Error> {
    let out = home.join("bin");
    if Binaries::are_chosen() {
        return Ok(out);
    }
    if let Some(program) = NEEDED.into_iter().find(|program| !runs(program)) {
        return Err(Error::NoGo { program });
    }
    let status = script(home)?.status().attempt(|| "start bash".to_owned())?;
    if status.success() { Ok(out) } else { Err(Error::Build { folder: home.to_owned(), status }) }
}

/// Returns the command that builds into `home`.
fn script(home: &Path) -> Result<Command, Error> {
    let tools = home.join("tools");
    write_files(&tools)?;
    let mut script = Command::new("bash");
    script.arg(tools.join("build")).arg(home.join("bin")).stdin(Stdio::null());
    Ok(script)
}

fn write_files(tools: &Path) -> Result<(), Error> {
    FILES.into_iter().try_for_each(|(name, text)| {
        let path = tools.join(name);
        if fs::read_to_string(&path).is_ok_and(|known| known == text) {
            return Ok(());
        }
        let written = fs::create_dir_all(path.parent().unwrap_or(tools));
        written.and_then(|()| fs::write(&path, text)).attempt(|| format!("write {}", path.display()))
    })
}

/// Returns whether the program can be started.
fn runs(program: &str) -> bool {
    let mut command = Command::new(program);
    command.arg(if program == "go" { "version" } else { "--version" });
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok()
}

#[cfg(test)]
mod tests {
    use std::env;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    /// Stands for Go: `build … -o FILE PACKAGE` writes an empty program.
    const GO: &str = "#!/bin/sh
while [ $# -gt 0 ]; do [ \"$1\" != -o ] || { : > \"$2\"; chmod +x \"$2\"; }; shift; done
";

    #[test]
    fn a_build_needs_only_the_files_that_the_crate_carries() {
        let home = crate::folder::create().unwrap();
        let go = home.join("path/go");
        fs::create_dir_all(go.parent().unwrap()).unwrap();
        fs::write(&go, GO).unwrap();
        fs::set_permissions(&go, fs::Permissions::from_mode(0o700)).unwrap();
        let path = format!("{}:{}", home.join("path").display(), env::var("PATH").unwrap());
        let built = || {
            let output = script(&home).unwrap().env("PATH", &path).output().unwrap();
            let said = String::from_utf8(output.stderr).unwrap();
            assert!(output.status.success(), "{said}");
            said
        };
        let said = built();
        assert!(said.contains("kube-apiserver"), "{said}");
        let missing = |name: &&str| !home.join("bin").join(name).is_file();
        assert_eq!(binaries::NEEDED.into_iter().filter(missing).collect::<Vec<_>>(), [""; 0]);
        assert_eq!(built(), "", "all is up to date");
        fs::remove_dir_all(home).unwrap();
    }

    #[test]
    fn missing_tools_are_named_with_every_way_out() {
        let text = Error::NoGo { program: "go" }.to_string();
        for part in ["go is missing", "go.dev/dl", "KUBEBUILDER_ASSETS", "USE_KUBECONFIG"] {
            assert!(text.contains(part), "{part} is not in: {text}");
        }
        assert!(!runs("no-such-program") && runs("git"));
    }
}
