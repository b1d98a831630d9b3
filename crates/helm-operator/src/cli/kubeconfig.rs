//! The cluster that a command's caller means: the kubeconfig and the context of its flags.

use std::path::Path;

use controller::client::find_cluster;
use controller::report::chain;
use kube::config::{KubeConfigOptions, Kubeconfig};

/// Returns how to reach the cluster. Without a file and a context, looks where kubectl looks.
pub(super) async fn configuration(kubeconfig: Option<&Path>, context: Option<&str>) -> Result<kube::Config, String> {
    let chosen = KubeConfigOptions { context: context.map(str::to_owned), ..KubeConfigOptions::default() };
    match kubeconfig {
        Some(path) => {
            let file = Kubeconfig::read_from(path).map_err(|e| e.to_string())?;
            kube::Config::from_custom_kubeconfig(file, &chosen).await.map_err(|e| chain(&e))
        }
        None if context.is_some() => kube::Config::from_kubeconfig(&chosen).await.map_err(|e| chain(&e)),
        None => find_cluster().await.map_err(|e| chain(&e)),
    }
}

/// Returns a client of the cluster.
pub(super) async fn client(kubeconfig: Option<&Path>, context: Option<&str>) -> Result<kube::Client, String> {
    kube::Client::try_from(configuration(kubeconfig, context).await?).map_err(|e| chain(&e))
}
