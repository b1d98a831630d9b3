//! Wakes the resources of a watch with `renderOn: [capabilities]` when the cluster serves other kinds, and has done so for
//! some minutes.

use std::time::Duration;

use controller::report::chain;

use crate::reconcile::controller_context::ControllerContext;

/// How often discovery is read for this.
const PERIOD: Duration = Duration::from_secs(30);

/// Wakes every resource after a change of discovery, if the watch is configured for it. Never returns.
pub(super) async fn follow(shared: &ControllerContext) {
    match shared.settings.render_on.capabilities {
        true => Box::pin(read_discovery(shared)).await,
        false => std::future::pending().await,
    }
}

/// Reads discovery once per period and wakes every resource once a change has settled. Never returns.
async fn read_discovery(shared: &ControllerContext) {
    let renderer = &shared.renderer;
    let state = || (renderer.capabilities(), renderer.are_capabilities_settled());
    let mut known = state();
    loop {
        tokio::time::sleep(PERIOD).await;
        if let Err(error) = shared.applier.mapper.refresh_if_older(PERIOD / 2).await {
            tracing::debug!(error = chain(&error), "Cannot find out which kinds are served");
        }
        let now = state();
        // Until the kinds have settled, no release is rendered because of them alone.
        if now.0 != known.0 && now.1 {
            tracing::info!(
                controller = &*shared.settings.controller,
                "The cluster serves other kinds: rendering again"
            );
        }
        // The first kinds that the process found may differ from those that releases were rendered with.
        if now != known {
            known = now;
            shared.wake_all();
        }
    }
}
