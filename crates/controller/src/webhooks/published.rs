//! What is published when a replica starts with a user's files: whether the API server trusts their authority yet.
//!
//! The leader may see the files a minute later, and publishes the authority only then. Requests that the API server sends
//! to the replica in the meantime would fail, so it is not ready before.

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
    /// cannot be read does not count: the role may lack the right.
    pub(super) async fn lacks(&self, own: &str) -> bool {
        for object in &self.objects {
            let live = api(self.client.clone(), object).get_opt(object.name()).await.ok().flatten();
            let live = live.filter(|live| other_address(&live.data, &self.place).is_none());
            if live.is_some_and(|live| inherited::lacks(&live.data, own)) {
                return true;
            }
        }
        false
    }
}
