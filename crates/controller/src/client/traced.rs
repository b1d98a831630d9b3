//! Gives each request within a reconcile a span, and sends its id to the API server in the header `traceparent`.

use http::header::{HeaderMap, HeaderName, HeaderValue};
use http::{Request, StatusCode};
use opentelemetry::propagation::{Injector, TextMapPropagator as _};
use opentelemetry_sdk::propagation::TraceContextPropagator;
use tracing::Span;
use tracing::field::Empty;
use tracing_opentelemetry::OpenTelemetrySpanExt as _;

use crate::runtime::SPANS;

/// Begins the span of a request. The span is disabled outside a reconcile, and without a collector.
/// Queries are left out: they are long, and the path identifies the request.
pub(super) fn begin<B>(request: &mut Request<B>) -> Span {
    if Span::current().is_disabled() {
        return Span::none();
    }
    let span = tracing::debug_span!(
        target: SPANS,
        "request",
        otel.name = %request.method(),
        otel.kind = "client",
        otel.status_code = Empty,
        http.request.method = %request.method(),
        http.response.status_code = Empty,
        url.path = request.uri().path(),
    );
    if !span.is_disabled() {
        TraceContextPropagator::new().inject_context(&span.context(), &mut Headers(request.headers_mut()));
    }
    span
}

/// Records the answer; `None` if there was none.
pub(super) fn answered(span: &Span, status: Option<StatusCode>) {
    if let Some(status) = status {
        span.record("http.response.status_code", status.as_u16());
    }
    if status.is_none_or(|status| status.is_client_error() || status.is_server_error()) {
        span.record("otel.status_code", "ERROR");
    }
}

struct Headers<'r>(&'r mut HeaderMap);

impl Injector for Headers<'_> {
    fn set(&mut self, key: &str, value: String) {
        if let (Ok(name), Ok(value)) = (HeaderName::try_from(key), HeaderValue::try_from(value)) {
            self.0.insert(name, value);
        }
    }
}
