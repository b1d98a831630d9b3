//! An operator with operator-sdk's command line, the charts of watches.yaml and one controller in Rust, which counts ConfigMaps:
//! `cargo run -p helm-operator --example native -- run --watches-file watches.yaml`.

use std::process::ExitCode;
use std::time::Duration;

use futures::future::BoxFuture;
use helm_operator::context::Context;
use helm_operator::native;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::ListParams;

struct Census;

impl native::Controller for Census {
    fn name(&self) -> &str {
        "census-controller"
    }

    fn run(self: Box<Self>, context: Context) -> BoxFuture<'static, Result<(), native::Error>> {
        Box::pin(async move {
            loop {
                for api in context.apis::<ConfigMap>() {
                    let count = api.list_metadata(&ListParams::default()).await?.items.len();
                    tracing::info!(count, "ConfigMaps");
                }
                tokio::select! {
                    () = tokio::time::sleep(Duration::from_secs(60)) => {}
                    () = context.shutdown.cancelled() => return Ok(()),
                }
            }
        })
    }
}

fn main() -> ExitCode {
    helm_operator::cli::main_with(vec![Box::new(Census)])
}
