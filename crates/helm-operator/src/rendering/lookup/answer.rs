//! The API server's response to a lookup, chunk by chunk. The manager does not keep the whole response, except the data
//! to redact from messages.

use futures::StreamExt as _;
use helm::engine::LookupError;
use helm_release::kube::{Pieces, Resource};

use super::{ClusterLookup, MAX_SEEN, Query};

/// A response that is being received.
pub(crate) struct Answer<'l> {
    lookup: &'l ClusterLookup,
    pieces: Pieces,
    /// The object of the lookup, for messages.
    what: String,
    bytes: usize,
    /// The data received so far, if it must be redacted from messages.
    seen: Option<Vec<u8>>,
}

impl Answer<'_> {
    pub(super) fn new<'l>(lookup: &'l ClusterLookup, query: &Query, resource: &Resource, pieces: Pieces) -> Answer<'l> {
        let has_data = resource.group().is_empty() && matches!(&*resource.kind, "Secret" | "ConfigMap");
        let seen = has_data.then(Vec::new);
        Answer { lookup, pieces, what: describe(query, resource), bytes: 0, seen }
    }

    /// Returns the next chunk, which is not empty; `None` at the end.
    ///
    /// # Errors
    /// Fails if the response broke off, or is too large.
    pub(crate) async fn next(&mut self) -> Result<Option<Vec<u8>>, LookupError> {
        let lookup = self.lookup;
        loop {
            let next = async { self.pieces.next().await.transpose().map_err(|error| lookup.failed(&error)) };
            let Some(piece) = lookup.in_time(next).await? else {
                if let Some(seen) = self.seen.take() {
                    lookup.state().seen.add(&seen);
                }
                return Ok(None);
            };
            self.bytes += piece.len();
            if self.bytes > lookup.most {
                return Err(lookup.exceeded(too_large(&self.what, lookup.most)));
            }
            self.see(&piece);
            if !piece.is_empty() {
                return Ok(Some(piece));
            }
        }
    }

    /// Records what the template reads. Stops when there is more than messages can be searched for.
    fn see(&mut self, piece: &[u8]) {
        let Some(seen) = &mut self.seen else { return };
        seen.extend_from_slice(piece);
        if seen.len() > MAX_SEEN {
            self.lookup.state().seen.add(seen);
            self.seen = None;
        }
    }

    pub(super) async fn whole(mut self) -> Result<Vec<u8>, LookupError> {
        let mut json = Vec::new();
        while let Some(piece) = self.next().await? {
            json.extend_from_slice(&piece);
        }
        Ok(json)
    }
}

fn describe(Query { kind, namespace, name, .. }: &Query, resource: &Resource) -> String {
    let of = if name.is_empty() { kind.clone() } else { format!("{kind} {name:?}") };
    match &**namespace {
        _ if !resource.namespaced => of,
        "" => format!("{of} in all namespaces"),
        namespace => format!("{of} in namespace {namespace:?}"),
    }
}

fn too_large(what: &str, most: usize) -> String {
    let size = if most >= 1 << 20 { format!("{} MiB", most >> 20) } else { format!("{} KiB", most >> 10) };
    format!(
        "lookup of {what} returns more than {size} (limit: an eighth of --render-memory): look up single objects by name, \
         keep less in them, or raise --render-memory"
    )
}
