//! Runs the cluster's command line tools as the administrator.

use std::ffi::OsStr;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{env, iter};

use crate::binaries;
use crate::error::{Attempt, Error};

/// Command line tools and their configuration.
#[derive(Debug)]
pub(crate) struct Tools {
    pub(crate) kubeconfig: PathBuf,
    /// The folder for their caches.
    folder: PathBuf,
    /// The folders to search, in order of preference.
    folders: Vec<PathBuf>,
}

impl Tools {
    /// Finds tools in `binaries`, then `KUBEBUILDER_ASSETS`, then the built ones, then `PATH`.
    pub(crate) fn new(kubeconfig: PathBuf, folder: &Path, binaries: Option<&Path>) -> Tools {
        let assets = env::var_os("KUBEBUILDER_ASSETS").map(PathBuf::from);
        let folders = binaries.map(Path::to_owned).into_iter().chain(assets).chain(iter::once(binaries::built()));
        Tools { kubeconfig, folder: folder.to_owned(), folders: folders.collect() }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        binaries::tool(name, &self.folders)
    }

    pub(crate) fn command(&self, name: &str) -> Command {
        let mut command = Command::new(self.path(name));
        command.env("KUBECONFIG", &self.kubeconfig).envs([binaries::GOGC]);
        let caches = [
            ("KUBECACHEDIR", "cache"),
            ("HELM_CACHE_HOME", "helm/cache"),
            ("HELM_CONFIG_HOME", "helm/config"),
            ("HELM_DATA_HOME", "helm/data"),
        ];
        command.envs(caches.map(|(variable, folder)| (variable, self.folder.join(folder))));
        command
    }

    pub(crate) fn kubectl<A: AsRef<OsStr>>(
        &self,
        arguments: impl IntoIterator<Item = A>,
        input: &str,
    ) -> Result<String, Error> {
        let mut command = self.command("kubectl");
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().attempt(|| "start kubectl".into())?;
        // kubectl may exit before it has read all input; its own message says why.
        let _ = child.stdin.take().map(|mut stdin| stdin.write_all(input.as_bytes()));
        let output = child.wait_with_output().attempt(|| "wait for kubectl".into())?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        let arguments: Vec<_> = command.get_args().map(OsStr::to_string_lossy).collect();
        let stderr = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        Err(Error::Kubectl { arguments: arguments.join(" "), stderr })
    }
}
