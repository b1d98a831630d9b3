//! Distinguishes the watches of one process. Two watches may request the same objects, and if one has caught up after an
//! interruption, the other may not have.

use std::sync::Arc;

use kube::Client;

use super::changing;

/// The name of the reader that a request belongs to.
#[derive(Clone, Debug)]
pub(super) struct ReaderName(pub(super) Arc<str>);

/// Returns a client whose watches belong to this reader. Readers that may watch the same objects need different names.
pub fn read_by(client: Client, reader: impl Into<Arc<str>>) -> Client {
    let reader = ReaderName(reader.into());
    changing(client, move |request| {
        request.extensions_mut().insert(reader.clone());
        Ok(())
    })
}
