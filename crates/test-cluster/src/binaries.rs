//! Finds the binaries: `USE_KUBECONFIG`, then `KUBEBUILDER_ASSETS`, then what [`build`](crate::build) has built.

use std::env;
use std::path::{Path, PathBuf};

use crate::{Error, Processes};

/// The binaries of a cluster.
pub(crate) const NEEDED: [&str; 6] =
    ["etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl", "kwok"];

/// A variable for these programs, all of them Go's: garbage is collected once the heap has grown fivefold instead of
/// twofold. Tests take a seventh less processor time with it, and more memory, of which their machines have enough.
pub(crate) const GOGC: (&str, &str) = ("GOGC", "400");

/// The cluster to run tests on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Binaries {
    /// Start nothing: use the cluster of this kubeconfig (`USE_KUBECONFIG`).
    Existing(PathBuf),
    /// Start the binaries in this directory.
    Folder(PathBuf),
}

impl Binaries {
    /// Chooses by environment variables the binaries for these processes.
    ///
    /// # Errors
    /// [`Error::NoBinaries`] if the chosen directory lacks a binary. An explicit choice never falls back to the next.
    pub fn find(processes: Processes) -> Result<Binaries, Error> {
        choose(env_path("USE_KUBECONFIG"), env_path("KUBEBUILDER_ASSETS"), &built(), needed(processes))
    }

    /// Returns whether the environment names a cluster or binaries, so that nothing needs to be built.
    pub(crate) fn are_chosen() -> bool {
        env_path("USE_KUBECONFIG").or(env_path("KUBEBUILDER_ASSETS")).is_some()
    }
}

/// Returns the folder of binaries that were built.
pub(crate) fn built() -> PathBuf {
    home().join("bin")
}

/// Returns the folder of everything that outlives a test: `TEST_CLUSTER_FOLDER`, or a folder for this version of
/// Kubernetes in the user's cache (`XDG_CACHE_HOME`, `~/.cache`), which all projects share.
#[must_use]
pub fn home() -> PathBuf {
    let cache = env_path("XDG_CACHE_HOME").or(env_path("HOME").map(|home| home.join(".cache")));
    home_of(env_path("TEST_CLUSTER_FOLDER"), cache)
}

fn home_of(chosen: Option<PathBuf>, cache: Option<PathBuf>) -> PathBuf {
    let cached = || cache.unwrap_or_else(env::temp_dir).join("test-cluster").join(kubernetes_version());
    chosen.unwrap_or_else(cached)
}

/// Returns the version of Kubernetes that is built, such as `1.36.2`.
#[must_use]
pub fn kubernetes_version() -> &'static str {
    let rest = include_str!("../tools/kubernetes/go.mod").split_once("k8s.io/kubernetes v").map(|(_, rest)| rest);
    let end = |rest: &str| rest.find(char::is_whitespace).unwrap_or(rest.len());
    rest.map_or("unknown", |rest| &rest[..end(rest)])
}

/// Returns the tool's path in the first directory that has it, or its bare name, to be found in `PATH`.
pub(crate) fn tool(name: &str, folders: &[PathBuf]) -> PathBuf {
    folders.iter().map(|folder| folder.join(name)).find(|path| path.is_file()).unwrap_or_else(|| PathBuf::from(name))
}

fn env_path(name: &str) -> Option<PathBuf> {
    env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from)
}

/// Returns the binaries for these processes. An API server alone needs those that envtest has.
fn needed(processes: Processes) -> &'static [&'static str] {
    match processes {
        Processes::All => &NEEDED,
        Processes::ApiServer => &["etcd", "kube-apiserver", "kubectl"],
    }
}

fn choose(
    existing: Option<PathBuf>,
    assets: Option<PathBuf>,
    built: &Path,
    needed: &[&str],
) -> Result<Binaries, Error> {
    if let Some(kubeconfig) = existing {
        return Ok(Binaries::Existing(kubeconfig));
    }
    let folder = assets.unwrap_or_else(|| built.to_owned());
    let missing: Vec<&str> = needed.iter().copied().filter(|name| !folder.join(name).is_file()).collect();
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
        let chosen = choose(Some("/k".into()), Some("/nowhere".into()), Path::new("/built"), &NEEDED);
        assert_eq!(chosen.ok(), Some(Binaries::Existing("/k".into())));
    }

    #[test]
    fn missing_binaries_are_an_error_that_names_all_three_options() {
        let error = choose(None, Some("/nowhere".into()), Path::new("/built"), &NEEDED).unwrap_err();
        assert!(error.is_no_binaries());
        let text = error.to_string();
        for part in [
            "USE_KUBECONFIG",
            "KUBEBUILDER_ASSETS",
            "test_cluster::build",
            "/built",
            "looked in /nowhere",
            "missing etcd, kube-apiserver",
        ] {
            assert!(text.contains(part), "{part} is not in: {text}");
        }
    }

    #[test]
    fn an_api_server_alone_starts_from_envtests_binaries() {
        let folder = crate::folder::create().unwrap();
        for name in ["etcd", "kube-apiserver", "kubectl"] {
            std::fs::write(folder.join(name), "").unwrap();
        }
        let chosen = |processes| choose(None, Some(folder.clone()), Path::new("/built"), needed(processes));
        assert_eq!(chosen(Processes::ApiServer).ok(), Some(Binaries::Folder(folder.clone())));
        let missing = chosen(Processes::All).unwrap_err().to_string();
        assert!(missing.contains("missing kube-controller-manager, kube-scheduler, kwok"), "{missing}");
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn projects_share_a_folder_for_each_version_unless_they_name_one() {
        assert_eq!(home_of(Some("/own".into()), Some("/cache".into())), Path::new("/own"));
        assert!(kubernetes_version().starts_with("1."), "{}", kubernetes_version());
        let shared = format!("/cache/test-cluster/{}", kubernetes_version());
        assert_eq!(home_of(None, Some("/cache".into())), Path::new(&shared));
    }

    #[test]
    fn a_tool_in_no_directory_is_looked_up_in_path() {
        assert_eq!(tool("helm", &["/nowhere".into()]), PathBuf::from("helm"));
    }
}
