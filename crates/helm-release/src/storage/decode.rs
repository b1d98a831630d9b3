//! Decodes release records. Large ones run on a separate thread, so that they block no other task, and one at a time,
//! so that their memory does not add up.

use tokio::sync::Semaphore;

use crate::release::{Error, Release};

/// Size in bytes below which records are decoded immediately: whatever they hold, they unpack to little.
const LARGE: usize = 16 << 10;

/// Held while a large record is decoded.
static ONE: Semaphore = Semaphore::const_new(1);

/// Decodes a record of this many bytes.
///
/// # Errors
/// Any error of `decode`, or the process is ending.
pub(super) async fn decoded(
    bytes: usize,
    decode: impl FnOnce() -> Result<Release, Error> + Send + 'static,
) -> Result<Release, Error> {
    if bytes < LARGE {
        return decode();
    }
    let _one = ONE.acquire().await.map_err(|_| Error::Interrupted)?;
    outside::apart(decode).await.unwrap_or(Err(Error::Interrupted))
}
