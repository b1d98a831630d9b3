//! The `process_*` metrics, which Go's client reports about a process. Read from `/proc` at each scrape.

use std::fmt;

use procfs::ProcResult;
use procfs::process::{LimitValue, Process as Proc};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

/// A collector that reads this process's figures.
#[derive(Debug)]
pub(super) struct Process;

struct Figures {
    cpu_seconds: f64,
    start_seconds: f64,
    virtual_bytes: u64,
    max_virtual_bytes: f64,
    resident_bytes: u64,
    open_files: u64,
    max_files: f64,
}

impl Collector for Process {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        // Without a readable /proc there is nothing to report.
        read().map_or(Ok(()), |figures| figures.encode(&mut encoder))
    }
}

fn read() -> ProcResult<Figures> {
    let process = Proc::myself()?;
    let (stat, limits) = (process.stat()?, process.limits()?);
    let seconds = |ticks: u64| ticks as f64 / procfs::ticks_per_second() as f64;
    Ok(Figures {
        cpu_seconds: seconds(stat.utime + stat.stime),
        start_seconds: procfs::boot_time_secs()? as f64 + seconds(stat.starttime),
        virtual_bytes: stat.vsize,
        max_virtual_bytes: number(limits.max_address_space.soft_limit),
        resident_bytes: stat.rss * procfs::page_size(),
        open_files: process.fd_count()? as u64,
        max_files: number(limits.max_open_files.soft_limit),
    })
}

/// Returns the limit as a number. Unlimited is the largest number, as in Go's client.
fn number(limit: LimitValue) -> f64 {
    match limit {
        LimitValue::Value(limit) => limit as f64,
        LimitValue::Unlimited => u64::MAX as f64,
    }
}

impl Figures {
    fn encode(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        counter(encoder, "process_cpu_seconds", "User and system CPU time in seconds.", self.cpu_seconds)?;
        gauge(encoder, "process_start_time_seconds", "When the process started, in Unix time.", self.start_seconds)?;
        gauge(encoder, "process_virtual_memory_bytes", "Virtual memory in bytes.", self.virtual_bytes as f64)?;
        gauge(encoder, "process_virtual_memory_max_bytes", "Maximum of virtual memory.", self.max_virtual_bytes)?;
        gauge(encoder, "process_resident_memory_bytes", "Resident memory in bytes.", self.resident_bytes as f64)?;
        gauge(encoder, "process_open_fds", "Open file descriptors.", self.open_files as f64)?;
        gauge(encoder, "process_max_fds", "Maximum number of open file descriptors.", self.max_files)
    }
}

fn gauge(encoder: &mut DescriptorEncoder<'_>, name: &str, help: &str, value: f64) -> fmt::Result {
    let metric = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
    ConstGauge::new(value).encode(metric)
}

fn counter(encoder: &mut DescriptorEncoder<'_>, name: &str, help: &str, value: f64) -> fmt::Result {
    let metric = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
    ConstCounter::new(value).encode(metric)
}
