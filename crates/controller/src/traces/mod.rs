//! Sends traces to an OpenTelemetry collector: a span for each reconcile, and within it one for each request to the API
//! server.
//!
//! Uses OTLP with protobuf over HTTP. A separate thread sends batches, so reconciles never wait for the collector; a
//! batch that it rejects is dropped. Spans hold names, methods, paths and status codes, and no contents of objects. OpenTelemetry's variables count: `OTEL_SERVICE_NAME`, `OTEL_RESOURCE_ATTRIBUTES`, `OTEL_TRACES_SAMPLER`,
//! `OTEL_EXPORTER_OTLP_HEADERS` and the like. Counterpart: the API server's `TracingConfiguration`.

mod export;
#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::time::Duration;

use http::Uri;
use opentelemetry::KeyValue;
use opentelemetry::trace::TracerProvider as _;
use opentelemetry_otlp::{Protocol, WithExportConfig as _, WithHttpConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::SdkTracerProvider;
use tracing::{Metadata, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::{LevelFilter, filter_fn};
use tracing_subscriber::registry::LookupSpan;

use self::export::Collector;
use crate::client::CertificatesError;
use crate::runtime::SPANS;

/// How long the end of the process waits for the collector.
const LAST_BATCH: Duration = Duration::from_secs(5);

/// The variable with the name that traces show for this process.
const SERVICE_NAME: &str = "OTEL_SERVICE_NAME";

/// Where traces are sent.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The collector's whole address, such as `http://collector.monitoring:4318/v1/traces`.
    pub endpoint: Uri,
    /// The certificates that the collector's must lead to, in PEM. `None`: the system's.
    pub ca_file: Option<PathBuf>,
}

/// The reason why traces cannot be sent.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // The messages say it.
pub enum Error {
    #[error("the collector of traces must be a URL such as http://collector.monitoring:4318/v1/traces")]
    Endpoint,
    #[error(transparent)]
    Certificates(#[from] CertificatesError),
    #[error("cannot send traces over TLS")]
    Tls(#[source] kube::Error),
    #[error("cannot start the thread that sends traces")]
    Thread(#[source] std::io::Error),
    #[error("cannot send traces: check the variables that begin with OTEL_")]
    Variables(#[source] opentelemetry_otlp::ExporterBuildError),
}

/// The traces of a process. Without a [`layer`](Self::layer), nothing is sent.
pub struct Traces(SdkTracerProvider);

impl Traces {
    /// Prepares to send the traces of this program. Opens no connection yet.
    ///
    /// # Errors
    /// The settings cannot be used.
    pub fn new(settings: &Settings, program: &str) -> Result<Traces, Error> {
        if settings.endpoint.scheme().is_none() || settings.endpoint.host().is_none_or(str::is_empty) {
            return Err(Error::Endpoint);
        }
        let exporter = opentelemetry_otlp::SpanExporter::builder()
            .with_http()
            .with_http_client(Collector::new(settings, program)?)
            .with_protocol(Protocol::HttpBinary)
            .with_endpoint(settings.endpoint.to_string())
            .build()
            .map_err(Error::Variables)?;
        let resource = Resource::builder().with_attribute(KeyValue::new("service.version", env!("CARGO_PKG_VERSION")));
        let resource = match std::env::var_os(SERVICE_NAME) {
            Some(_) => resource,
            None => resource.with_service_name(program.to_owned()),
        };
        Ok(Traces(SdkTracerProvider::builder().with_resource(resource.build()).with_batch_exporter(exporter).build()))
    }

    /// Returns the layer of a subscriber that passes spans on.
    pub fn layer<S>(&self) -> impl Layer<S> + use<S>
    where
        S: Subscriber + for<'a> LookupSpan<'a>,
    {
        let is_ours = |metadata: &Metadata<'_>| metadata.is_span() && metadata.target() == SPANS;
        tracing_opentelemetry::layer()
            .with_tracer(self.0.tracer("controller"))
            .with_location(false)
            .with_threads(false)
            .with_level(false)
            .with_filter(filter_fn(is_ours).with_max_level_hint(LevelFilter::DEBUG))
    }

    /// Sends what still waits, within five seconds.
    pub fn finish(self) {
        // The collector's failures have been logged.
        _ = self.0.shutdown_with_timeout(LAST_BATCH);
    }
}
