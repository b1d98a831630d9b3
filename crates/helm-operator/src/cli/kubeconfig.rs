//! The cluster that a command's caller means: the kubeconfig and the context of its flags.

use std::path::PathBuf;

use clap::Args;
use controller::client::find_cluster;
use controller::report::chain;
use kube::config::{KubeConfigOptions, Kubeconfig};

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
        let chosen = KubeConfigOptions { context: self.context.clone(), ..KubeConfigOptions::default() };
        match &self.kubeconfig {
            Some(path) => {
                let file = Kubeconfig::read_from(path).map_err(|e| e.to_string())?;
                kube::Config::from_custom_kubeconfig(file, &chosen).await.map_err(|e| chain(&e))
            }
            None if self.context.is_some() => kube::Config::from_kubeconfig(&chosen).await.map_err(|e| chain(&e)),
            None => find_cluster().await.map_err(|e| chain(&e)),
        }
    }

    pub(super) async fn client(&self) -> Result<kube::Client, String> {
        kube::Client::try_from(self.configuration().await?).map_err(|e| chain(&e))
    }
}
