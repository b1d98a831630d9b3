//! Charts for commands that a person runs: fetched with the person's own configuration of Docker.

use std::path::PathBuf;
use std::sync::Arc;

use registry::Cache;

use super::{Error, Puller};
use crate::watches::Watch;

/// How many bytes of charts are kept for commands, besides the one that is shown.
const CACHE: u64 = 256 << 20;

/// Returns where the chart of a watch is on this machine, and fetches it if it is elsewhere.
pub(crate) fn local(watch: &Watch) -> Result<PathBuf, Error> {
    let Some(pull) = watch.pull.clone() else { return Ok(watch.chart.clone()) };
    let folder = std::env::temp_dir().join("helm-operator-charts");
    let puller = Puller::new(pull, Arc::new(Cache::new(folder, CACHE)), None);
    // The caller's thread may belong to a runtime, which must not block.
    let fetched = std::thread::scope(|scope| {
        let fetch = scope.spawn(|| {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(Error::Runtime)?;
            runtime.block_on(puller.fetch())
        });
        fetch.join().unwrap_or_else(|_| Err(Error::Runtime(std::io::Error::other("the thread ended"))))
    });
    Ok(fetched?.archive)
}

/// Returns the packed chart of a watch that is fetched; `None` if it is on disk.
pub(crate) fn archive(watch: &Watch) -> Result<Option<Vec<u8>>, Error> {
    if watch.pull.is_none() {
        return Ok(None);
    }
    let path = local(watch)?;
    std::fs::read(&path).map(Some).map_err(|source| Error::File { path, source })
}
