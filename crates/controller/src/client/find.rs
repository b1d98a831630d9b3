//! Finds the cluster as kubectl does: from the files in `KUBECONFIG`, else `~/.kube/config`, else the pod's service
//! account. Explains what is wrong with the intended source.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use kube::Config;
use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};

use crate::report::{chain, without_value};

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

/// Returns the configuration of the cluster. In a pod, a kubeconfig that exists must be usable: [`Config::infer`] would
/// take the pod's own cluster instead of the one that it means. As for kubectl, a missing or empty one means none.
///
/// # Errors
/// No cluster is configured, or its configuration cannot be used.
pub async fn find() -> Result<Config, NoCluster> {
    let named = named(std::env::var_os("KUBECONFIG"));
    let home = std::env::home_dir().map(|home| home.join(".kube/config"));
    let is_meant = means_another_cluster(&named, home.as_deref());
    if is_meant && Config::from_kubeconfig(&KubeConfigOptions::default()).await.is_err() {
        return Err(in_a_file(&named).await);
    }
    match Config::infer().await {
        Ok(config) => Ok(config),
        Err(_) => {
            let in_pod = std::env::var_os("KUBERNETES_SERVICE_HOST").is_some();
            match Config::incluster() {
                Err(error) if named.is_empty() && in_pod => Err(NoCluster::Pod(chain(&error))),
                _ => Err(in_a_file(&named).await),
            }
        }
    }
}

/// Returns the configuration of this context, by default the current one, of this file, by default of those that kubectl
/// reads.
///
/// # Errors
/// The file or the context cannot be used.
pub async fn find_in(file: Option<&Path>, context: Option<&str>) -> Result<Config, NoCluster> {
    let chosen = KubeConfigOptions { context: context.map(str::to_owned), ..KubeConfigOptions::default() };
    let Some(file) = file else {
        let config = Config::from_kubeconfig(&chosen).await;
        return config.map_err(|error| explain(&error, &named(std::env::var_os("KUBECONFIG"))));
    };
    let unusable = |error| invalid(&error, file.display().to_string());
    let read = Kubeconfig::read_from(file).map_err(unusable)?;
    Config::from_custom_kubeconfig(read, &chosen).await.map_err(unusable)
}

/// Returns the files that `KUBECONFIG` names. Empty names do not count.
fn named(variable: Option<OsString>) -> Vec<PathBuf> {
    let paths = variable.iter().flat_map(std::env::split_paths);
    paths.filter(|path| !path.as_os_str().is_empty()).collect()
}

/// Returns whether the files that `KUBECONFIG` names, or else the one at home, mean a cluster other than the pod's.
///
/// A home that this user may not enter has no file: images set `HOME=/root` for pods that run as another user.
fn means_another_cluster(named: &[PathBuf], home: Option<&Path>) -> bool {
    match named {
        [] => home.is_some_and(|file| file.exists() && means_a_cluster(file)),
        named => named.iter().any(|file| means_a_cluster(file)),
    }
}

/// Returns whether a file names a cluster, or cannot be read and may name one. A missing or empty file names none.
fn means_a_cluster(file: &Path) -> bool {
    match Kubeconfig::read_from(file) {
        Ok(config) => config.current_context.is_some_and(|name| !name.is_empty()),
        Err(KubeconfigError::ReadConfig(why, _)) => why.kind() != io::ErrorKind::NotFound,
        Err(_) => true,
    }
}

/// Returns what is wrong with the files that `KUBECONFIG` names, or, without any, with `~/.kube/config`.
async fn in_a_file(named: &[PathBuf]) -> NoCluster {
    if let Some((path, error)) = named.iter().find_map(|path| Some((path, Kubeconfig::read_from(path).err()?))) {
        return explain(&error, std::slice::from_ref(path));
    }
    match Config::from_kubeconfig(&KubeConfigOptions::default()).await {
        Err(error) => explain(&error, named),
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
        KubeconfigError::ReadConfig(_, path) => invalid(error, path.display().to_string()),
        other => invalid(other, path),
    }
}

/// Says why a file cannot be used, without quoting it: it contains credentials.
fn invalid(error: &KubeconfigError, path: String) -> NoCluster {
    let why = match error {
        KubeconfigError::ReadConfig(why, _) => why.to_string(),
        // Later lines quote the file.
        KubeconfigError::Parse(why) => without_value(&first_line(&why.to_string())),
        other => chain(other),
    };
    NoCluster::Invalid { path, why }
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
            let said = in_a_file(files).await.to_string();
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
        let misplaced = file("misplaced", "users:\n- name: a\n  user: hunter2\n");
        let said = in_a_file(std::slice::from_ref(&misplaced)).await.to_string();
        assert!(said.contains("line 3 ") && !said.contains("hunter2"), "{said}");
        let chosen = find_in(Some(&misplaced), None).await.unwrap_err().to_string();
        assert_eq!(chosen, said);
        let gone = find_in(Some(&folder.path().join("nope")), None).await.unwrap_err().to_string();
        assert!(gone.ends_with("/nope cannot be used: No such file or directory (os error 2)"), "{gone}");
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
    }

    #[test]
    fn a_file_at_home_counts_if_the_variable_names_none() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str, text: &str| {
            let file = folder.path().join(name);
            std::fs::write(&file, text).unwrap();
            file
        };
        let (broken, empty) = (at("broken", "token: [hunter2\nc: d: e\n"), at("empty", ""));
        let missing = folder.path().join("missing");
        for (named, home, expected) in [
            (&[][..], Some(&*broken), true),
            (&[], Some(folder.path()), true),
            (&[], Some(&*empty), false),
            (&[], Some(&*missing), false),
            (&[], Some(&*broken.join("config")), false),
            (&[], None, false),
            (std::slice::from_ref(&empty), Some(&*broken), false),
            (&[missing.clone(), broken.clone()], None, true),
        ] {
            assert_eq!(means_another_cluster(named, home), expected, "{named:?} {home:?}");
        }
    }

    #[test]
    fn empty_names_in_the_variable_do_not_count() {
        for (variable, expected) in [("", &[][..]), (":", &[]), (":a::b:", &["a", "b"])] {
            assert_eq!(named(Some(variable.into())), expected.iter().map(PathBuf::from).collect::<Vec<_>>());
        }
        assert_eq!(named(None), Vec::<PathBuf>::new());
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
        check(
            KubeconfigError::ReadConfig(io::Error::other("it is locked"), "/home/me/.kube/config".into()),
            "the kubeconfig /home/me/.kube/config cannot be used: it is locked",
        );
    }
}
