//! The cluster that a command's caller means: the kubeconfig and the context of its flags.

use std::path::PathBuf;

use clap::Args;
use controller::client::{find_cluster, find_cluster_in};
use controller::report::chain;

/// The flags that name the cluster.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct ClusterFlags {
    /// Path to the kubeconfig [default: as kubectl]
    #[arg(long, value_name = "PATH")]
    pub(super) kubeconfig: Option<PathBuf>,

    /// The kubeconfig's context
    #[arg(long, alias = "kube-context", value_name = "NAME")]
    pub(super) context: Option<String>,
}

impl ClusterFlags {
    /// Returns how to reach the cluster. Without a file and a context, looks where kubectl looks.
    pub(super) async fn configuration(&self) -> Result<kube::Config, String> {
        let found = match (&self.kubeconfig, &self.context) {
            (None, None) => find_cluster().await,
            (file, context) => find_cluster_in(file.as_deref(), context.as_deref()).await,
        };
        found.map_err(|error| chain(&error))
    }

    pub(super) async fn client(&self) -> Result<kube::Client, String> {
        kube::Client::try_from(self.configuration().await?).map_err(|e| chain(&e))
    }
}
