//! The API server's answer to a lookup, piece by piece: the manager holds none as a whole, but for what messages are searched for.

use futures::StreamExt as _;
use helm::engine::LookupError;
use helm_release::kube::{Pieces, Resource};

use super::{ClusterLookup, MAX_SEEN, Query};

/// An answer that arrives.
pub(crate) struct Answer<'l> {
    lookup: &'l ClusterLookup,
    pieces: Pieces,
    /// What was asked for, in messages.
    what: String,
    bytes: usize,
    /// What arrived so far, if messages are searched for it.
    seen: Option<Vec<u8>>,
}

impl Answer<'_> {
    pub(super) fn new<'l>(lookup: &'l ClusterLookup, query: &Query, resource: &Resource, pieces: Pieces) -> Answer<'l> {
        let has_data = resource.group().is_empty() && matches!(&*resource.kind, "Secret" | "ConfigMap");
        let seen = has_data.then(Vec::new);
        Answer { lookup, pieces, what: describe(query, resource), bytes: 0, seen }
    }

    /// The next piece, which is not empty; `None` at the end.
    ///
    /// # Errors
    /// The answer broke off, or is too large.
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

    /// Notes what the template reads. More than messages can be searched for is not held.
    fn see(&mut self, piece: &[u8]) {
        let Some(seen) = &mut self.seen else { return };
        seen.extend_from_slice(piece);
        if seen.len() > MAX_SEEN {
            self.lookup.state().seen.add(seen);
            self.seen = None;
        }
    }

    /// All pieces.
    ///
    /// # Errors
    /// As [`next`](Self::next).
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
