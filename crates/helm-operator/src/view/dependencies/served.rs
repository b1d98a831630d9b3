//! Looks for kinds that resources wait for and that the server does not serve yet. Discovery is the only way to know
//! without the right to read definitions, and one run serves all resources.

use std::sync::Weak;
use std::time::Duration;

use controller::report::chain;
use tokio::time::sleep;
use tokio_util::task::AbortOnDropHandle;

use super::registry::Dependencies;

/// How often to look.
const SEARCH: Duration = Duration::from_secs(30);

/// Starts the search, which ends once every kind is served, or with the registry.
pub(super) fn search(registry: Weak<Dependencies>) -> AbortOnDropHandle<()> {
    AbortOnDropHandle::new(tokio::spawn(async move {
        loop {
            sleep(SEARCH).await;
            let Some(known) = registry.upgrade() else { return };
            if let Err(error) = known.mapper.refresh_if_older(SEARCH / 2).await {
                tracing::debug!(error = chain(&error), "Cannot find out which kinds are served");
            }
            if !known.look_again() {
                return;
            }
        }
    }))
}
