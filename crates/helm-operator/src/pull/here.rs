//! Charts for commands that a person runs: fetched with the person's own configuration of Docker.

use std::path::PathBuf;
use std::sync::Arc;

use helm::chart::Chart;
use registry::Cache;

use super::{Error, Puller};
use crate::watches::Watch;

/// How many bytes of charts are kept for commands, besides the one that is shown.
const CACHE: u64 = 256 << 20;

/// Returns the local path of the watch's chart; fetches a remote chart first.
pub(crate) fn local(watch: &Watch) -> Result<PathBuf, Error> {
    let Some(pull) = watch.pull.clone() else { return Ok(watch.chart.clone()) };
    let folder = std::env::temp_dir().join("helm-operator-charts");
    fetch(watch, &Puller::new(pull, Arc::new(Cache::new(folder, CACHE)), None))
}

/// Fetches the chart of a watch. An operator on this machine may share the cache, and start with what it keeps.
fn fetch(watch: &Watch, puller: &Puller) -> Result<PathBuf, Error> {
    // The caller's thread may belong to a runtime, which must not block.
    let fetched = std::thread::scope(|scope| {
        let fetch = scope.spawn(|| {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(Error::Runtime)?;
            runtime.block_on(puller.fetch())
        });
        fetch.join().unwrap_or_else(|_| Err(Error::Runtime(std::io::Error::other("the thread ended"))))
    });
    let fetched = fetched?;
    // The caller reports a chart that does not load.
    if let Ok(chart) = Chart::load_with(&fetched.archive, &watch.schema.copies) {
        puller.check_place(&fetched, &chart.metadata)?;
        if is_servable(&chart) {
            puller.keep(&fetched)?;
        }
    }
    Ok(fetched.archive)
}

/// Returns whether a controller would serve the chart.
fn is_servable(chart: &Chart) -> bool {
    chart.not_installable().is_none() && chart.missing_dependencies().is_empty()
}

/// Returns the packed chart of a watch that is fetched; `None` if it is on disk.
pub(crate) fn archive(watch: &Watch) -> Result<Option<Vec<u8>>, Error> {
    if watch.pull.is_none() {
        return Ok(None);
    }
    let path = local(watch)?;
    std::fs::read(&path).map(Some).map_err(|source| Error::File { path, source })
}

#[cfg(test)]
mod tests {
    use std::future::ready;

    use flate2::Compression;
    use flate2::write::GzEncoder;
    use http::{Request, Response};
    use http_body_util::{BodyExt as _, Full};
    use registry::{Digest, Hop};

    use super::*;
    use crate::watches;

    /// Packs a chart that has nothing but this Chart.yaml.
    fn packed(about: &str) -> Vec<u8> {
        let mut archive = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
        let mut header = tar::Header::new_gnu();
        header.set_size(about.len() as u64);
        header.set_mode(0o644);
        header.set_cksum();
        archive.append_data(&mut header, "shop/Chart.yaml", about.as_bytes()).unwrap();
        archive.into_inner().unwrap().finish().unwrap()
    }

    #[tokio::test]
    async fn a_command_keeps_only_a_chart_that_a_controller_would_serve() {
        let folder = tempfile::tempdir().unwrap();
        let text = "- {version: v1, kind: Shop, chart: 'https://charts.example.com/shop.tgz'}";
        let watch = watches::parse(text, |_| None).unwrap().watches.remove(0);
        let kept_after = async |content: &[u8]| {
            let body = content.to_vec();
            let hop = Hop::new(tower::service_fn(move |_: Request<_>| {
                let body = Full::from(body.clone()).map_err(|never| match never {}).boxed_unsync();
                ready(Ok(Response::new(body)))
            }));
            let cache = Arc::new(Cache::new(folder.path().join("charts"), 1 << 20));
            let puller = Puller::new(watch.pull.clone().unwrap(), cache, None).over(Some(hop));
            assert_eq!(std::fs::read(fetch(&watch, &puller).unwrap()).unwrap(), content);
            puller.cached().await.unwrap().map(|fetched| fetched.digest)
        };
        let about = "apiVersion: v2\nname: shop\nversion: 1.0.0\n";
        assert_eq!(kept_after(b"<html>").await, None);
        let chart = packed(about);
        assert_eq!(kept_after(&chart).await, Some(Digest::of(&chart)));
        for more in ["type: library\n", "dependencies: [{name: database, version: 1.0.0}]\n"] {
            let broken = packed(&format!("{about}{more}"));
            assert_eq!(kept_after(&broken).await, Some(Digest::of(&chart)), "{more}");
        }
    }
}
