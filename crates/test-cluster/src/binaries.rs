//! Finds the binaries: `USE_KUBECONFIG`, then `KUBEBUILDER_ASSETS`, then `make cluster`'s output.

use std::env;
use std::path::{Path, PathBuf};

use crate::Error;

/// The binaries of a cluster.
const NEEDED: [&str; 6] = ["etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl", "kwok"];

/// The cluster to run tests on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Binaries {
    /// Start nothing: use the cluster of this kubeconfig (`USE_KUBECONFIG`).
    Existing(PathBuf),
    /// Start the binaries in this directory.
    Folder(PathBuf),
}

impl Binaries {
    /// Chooses by environment variables.
    ///
    /// # Errors
    /// [`Error::NoBinaries`] if the chosen directory lacks a binary. An explicit choice never falls back to the next.
    pub fn find() -> Result<Binaries, Error> {
        choose(env_path("USE_KUBECONFIG"), env_path("KUBEBUILDER_ASSETS"), &built())
    }
}

/// Returns the output directory of `make cluster`.
pub(crate) fn built() -> PathBuf {
    let crate_folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let root = crate_folder.ancestors().nth(2).unwrap_or(crate_folder);
    root.join("target/cluster/bin")
}

/// Returns the tool's path in the first directory that has it, or its bare name, to be found in `PATH`.
pub(crate) fn tool(name: &str, folders: &[PathBuf]) -> PathBuf {
    folders.iter().map(|folder| folder.join(name)).find(|path| path.is_file()).unwrap_or_else(|| PathBuf::from(name))
}

fn env_path(name: &str) -> Option<PathBuf> {
    env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from)
}

fn choose(existing: Option<PathBuf>, assets: Option<PathBuf>, built: &Path) -> Result<Binaries, Error> {
    if let Some(kubeconfig) = existing {
        return Ok(Binaries::Existing(kubeconfig));
    }
    let folder = assets.unwrap_or_else(|| built.to_owned());
    let missing: Vec<&str> = NEEDED.into_iter().filter(|name| !folder.join(name).is_file()).collect();
    if missing.is_empty() {
        return Ok(Binaries::Folder(folder));
    }
    Err(Error::NoBinaries { looked_in: folder, missing: missing.join(", "), built: built.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kubeconfig_wins_over_directories() {
        let chosen = choose(Some("/k".into()), Some("/nowhere".into()), Path::new("/built"));
        assert_eq!(chosen.ok(), Some(Binaries::Existing("/k".into())));
    }

    #[test]
    fn missing_binaries_are_an_error_that_names_all_three_options() {
        let error = choose(None, Some("/nowhere".into()), Path::new("/built")).unwrap_err();
        assert!(error.is_no_binaries());
        let text = error.to_string();
        for part in [
            "USE_KUBECONFIG",
            "KUBEBUILDER_ASSETS",
            "make cluster",
            "/built",
            "looked in /nowhere",
            "missing etcd, kube-apiserver",
        ] {
            assert!(text.contains(part), "{part} is not in: {text}");
        }
    }

    #[test]
    fn a_tool_in_no_directory_is_looked_up_in_path() {
        assert_eq!(tool("helm", &["/nowhere".into()]), PathBuf::from("helm"));
    }
}
