//! Finds the cluster as kubectl does: from the files in `KUBECONFIG`, else `~/.kube/config`, else the pod's service
//! account. Explains what is wrong with the intended source.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use kube::Config;
use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};

use crate::report::chain;

/// The reason why no cluster was found.
#[derive(Debug, thiserror::Error)]
pub enum NoCluster {
    /// A file that the environment names cannot be read.
    #[error("cannot read the kubeconfig {} that KUBECONFIG names: {why}; correct KUBECONFIG, or unset it to use ~/.kube/config", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The cause.
        why: io::Error,
    },
    /// `KUBECONFIG` is not set, the home directory has no kubeconfig, and the process does not run in a pod.
    #[error(
        "no cluster is configured: KUBECONFIG is not set, and there is no ~/.kube/config; set KUBECONFIG to a kubeconfig file"
    )]
    Nowhere,
    /// A file's content cannot be used.
    #[error("the kubeconfig {path} cannot be used: {why}")]
    Invalid {
        /// The files.
        path: String,
        /// What is wrong, and where.
        why: String,
    },
    /// The service account files mounted into the pod cannot be used.
    #[error(
        "cannot use the pod's service account: {0}; check serviceAccountName and automountServiceAccountToken of the pod"
    )]
    Pod(String),
}

/// Returns the configuration of the cluster. In a pod, files that `KUBECONFIG` names must be usable unless all are missing
/// or empty: [`Config::infer`] would take the pod's own cluster instead of the one that they mean.
///
/// # Errors
/// No cluster is configured, or its configuration cannot be used.
pub async fn find() -> Result<Config, NoCluster> {
    let named = std::env::var_os("KUBECONFIG").filter(|names| !names.is_empty());
    let is_meant = named.iter().flat_map(std::env::split_paths).any(|file| means_a_cluster(&file));
    if is_meant && Config::from_kubeconfig(&KubeConfigOptions::default()).await.is_err() {
        return Err(in_a_file(named).await);
    }
    match Config::infer().await {
        Ok(config) => Ok(config),
        Err(_) => {
            let in_pod = std::env::var_os("KUBERNETES_SERVICE_HOST").is_some();
            match (named, Config::incluster()) {
                (None, Err(error)) if in_pod => Err(NoCluster::Pod(chain(&error))),
                (named, _) => Err(in_a_file(named).await),
            }
        }
    }
}

/// Returns whether a file names a cluster, or cannot be read and may name one. As for kubectl, a missing or empty file
/// names none.
fn means_a_cluster(file: &Path) -> bool {
    match Kubeconfig::read_from(file) {
        Ok(config) => config.current_context.is_some_and(|name| !name.is_empty()),
        Err(KubeconfigError::ReadConfig(why, _)) => why.kind() != io::ErrorKind::NotFound,
        Err(_) => true,
    }
}

/// Returns what is wrong with the files that `KUBECONFIG` names, or with `~/.kube/config`.
async fn in_a_file(named: Option<OsString>) -> NoCluster {
    let files: Vec<PathBuf> = named.iter().flat_map(std::env::split_paths).collect();
    if let Some(fault) = files.iter().find_map(|path| Some((path, Kubeconfig::read_from(path).err()?))) {
        return explain(&fault.1, std::slice::from_ref(fault.0));
    }
    match Config::from_kubeconfig(&KubeConfigOptions::default()).await {
        Err(error) => explain(&error, &files),
        // The file has been corrected in the meantime; the next start finds it.
        Ok(_) => NoCluster::Nowhere,
    }
}

/// Explains the error. Without files, it is about `~/.kube/config`.
fn explain(error: &KubeconfigError, files: &[PathBuf]) -> NoCluster {
    let names: Vec<String> = files.iter().map(|file| file.display().to_string()).collect();
    let path = if names.is_empty() { "~/.kube/config".to_owned() } else { names.join(":") };
    match error {
        KubeconfigError::ReadConfig(why, path) if !files.is_empty() => {
            NoCluster::Unreadable { path: path.clone(), why: io::Error::new(why.kind(), why.to_string()) }
        }
        KubeconfigError::ReadConfig(why, _) if why.kind() == io::ErrorKind::NotFound => NoCluster::Nowhere,
        KubeconfigError::FindPath => NoCluster::Nowhere,
        // Later lines quote the file, which contains credentials.
        KubeconfigError::Parse(why) => NoCluster::Invalid { path, why: first_line(&why.to_string()) },
        other => NoCluster::Invalid { path, why: chain(other) },
    }
}

fn first_line(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default();
    line.strip_prefix("error: ").unwrap_or(line).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_kubeconfig_that_cannot_be_used_is_named_once_and_none_of_it_is_quoted() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            path
        };
        let check = async |files: &[PathBuf], expected: &str| {
            let said = in_a_file(Some(std::env::join_paths(files).unwrap())).await.to_string();
            assert_eq!(said.replace(&format!("{}/", folder.path().display()), ""), expected);
        };
        check(
            &[folder.path().join("nope")],
            "cannot read the kubeconfig nope that KUBECONFIG names: No such file or directory (os error 2); \
             correct KUBECONFIG, or unset it to use ~/.kube/config",
        )
        .await;
        let good = file("good", "apiVersion: v1\nkind: Config\n");
        let bad = file("bad", "token: [hunter2\nc: d: e\n");
        check(&[good, bad], "the kubeconfig bad cannot be used: line 2 column 2: illegal placement of ':' indicator")
            .await;
    }

    #[test]
    fn a_file_that_cannot_be_used_still_means_another_cluster_than_the_pods() {
        let folder = tempfile::tempdir().unwrap();
        for (text, expected) in [
            ("", false),
            ("apiVersion: v1\nkind: Config\n", false),
            ("apiVersion: v1\nkind: Config\ncurrent-context: \"\"\n", false),
            ("apiVersion: v1\nkind: Config\ncurrent-context: gone\n", true),
            ("token: [hunter2\nc: d: e\n", true),
        ] {
            let file = folder.path().join("config");
            std::fs::write(&file, text).unwrap();
            assert_eq!(means_a_cluster(&file), expected, "{text:?}");
        }
        assert!(!means_a_cluster(&folder.path().join("missing")));
        assert!(means_a_cluster(folder.path()), "a folder cannot be read");
        assert!(!means_a_cluster(Path::new("")));
    }

    #[test]
    fn without_any_kubeconfig_the_message_says_where_one_is_looked_for() {
        let missing = || io::Error::from(io::ErrorKind::NotFound);
        let check = |error: KubeconfigError, expected: &str| assert_eq!(explain(&error, &[]).to_string(), expected);
        let nowhere = "no cluster is configured: KUBECONFIG is not set, and there is no ~/.kube/config; set KUBECONFIG to a kubeconfig file";
        check(KubeconfigError::ReadConfig(missing(), "home".into()), nowhere);
        check(KubeconfigError::FindPath, nowhere);
        check(
            KubeconfigError::LoadContext("west".into()),
            "the kubeconfig ~/.kube/config cannot be used: failed to load current context: west",
        );
    }
}
