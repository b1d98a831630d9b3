//! A client for the lists and watches of the objects that a shard selector selects. Whether the server honours the
//! selector shows in what it sends, which [`crate::runtime::pages`] checks.

use http::Uri;
use kube::Client;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use super::changing;
use crate::runtime::shard_selector::ShardSelector;

/// Returns a client whose requests have the selector; the client itself without one.
pub fn sharded(client: Client, selector: Option<&ShardSelector>) -> Client {
    let Some(selector) = selector.cloned() else { return client };
    changing(client, move |request| {
        *request.uri_mut() = with_selector(request.uri(), &selector)?;
        Ok(())
    })
}

fn with_selector(uri: &Uri, selector: &ShardSelector) -> Result<Uri, http::Error> {
    let value = selector.to_string();
    let value = utf8_percent_encode(&value, NON_ALPHANUMERIC);
    let mut parts = uri.clone().into_parts();
    let path = format!("{}?{}&shardSelector={value}", uri.path(), uri.query().unwrap_or_default());
    parts.path_and_query = Some(path.parse()?);
    Ok(Uri::from_parts(parts)?)
}
