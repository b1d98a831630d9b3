//! The `tokio_*` metrics: figures of the async runtime that controllers run on, instead of upstream's `go_*` series.

use std::fmt;
use std::time::Duration;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use tokio::runtime::Handle;

/// A collector that reads the figures of the runtime it is called on.
#[derive(Debug)]
pub(super) struct Runtime;

impl Collector for Runtime {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let Ok(handle) = Handle::try_current() else { return Ok(()) };
        let metrics = handle.metrics();
        let busy: Duration = (0..metrics.num_workers()).map(|worker| metrics.worker_total_busy_duration(worker)).sum();
        gauge(&mut encoder, "tokio_workers", "Worker threads.", metrics.num_workers())?;
        gauge(&mut encoder, "tokio_alive_tasks", "Tasks that have not ended.", metrics.num_alive_tasks())?;
        gauge(
            &mut encoder,
            "tokio_global_queue_depth",
            "Tasks that no worker has taken.",
            metrics.global_queue_depth(),
        )?;
        let help = "Time that the worker threads were busy.";
        let metric = encoder.encode_descriptor("tokio_worker_busy_seconds", help, None, MetricType::Counter)?;
        ConstCounter::new(busy.as_secs_f64()).encode(metric)
    }
}

fn gauge(encoder: &mut DescriptorEncoder<'_>, name: &str, help: &str, value: usize) -> fmt::Result {
    let metric = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
    ConstGauge::new(i64::try_from(value).unwrap_or(i64::MAX)).encode(metric)
}
