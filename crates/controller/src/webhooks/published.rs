//! Finds out whether the API server already trusts the authority in a user's files when a replica starts with them.
//!
//! The leader may see the files a minute later, and publishes the authority only then. Until then, requests that the
//! API server sends to the replica would fail, so the replica is not ready.

use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use kube::Client;

use super::configuration::{Object, other_address};
use super::inherited;
use super::publish::api;
use super::settings::Endpoint;

/// The objects that configure a replica's webhooks.
pub(super) struct Published {
    pub(super) client: Client,
    pub(super) place: Endpoint,
    pub(super) objects: Vec<Object>,
}

impl Published {
    /// Returns whether an object has a bundle for this endpoint that lacks an authority of this one. An object that
    /// cannot be read does not count: the role may lack the right. Reads all at once, because the caller does not wait
    /// for long, and a slow API server would answer one after the other too late.
    pub(super) async fn lacks(&self, own: &str) -> bool {
        let reads: FuturesUnordered<_> = self.objects.iter().map(|object| self.is_lacking(object, own)).collect();
        reads.any(std::future::ready).await
    }

    async fn is_lacking(&self, object: &Object, own: &str) -> bool {
        let live = api(self.client.clone(), object).get_opt(object.name()).await.ok().flatten();
        let live = live.filter(|live| other_address(&live.data, &self.place).is_none());
        live.is_some_and(|live| inherited::lacks(&live.data, own))
    }
}
