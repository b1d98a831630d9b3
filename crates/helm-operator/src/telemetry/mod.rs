//! Logs in upstream's formats: JSON lines that start with `level`, `ts`, `logger` and `msg`, or the console format for
//! development.
//!
//! Counterpart: controller-runtime's `pkg/log/zap` and its `--zap-*` flags.

mod line;
mod logger;
mod panics;

use std::fmt;
use std::io::{IsTerminal as _, Write as _};
use std::str::FromStr;

use controller::traces::Traces;
use k8s_openapi::jiff::Timestamp;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::filter::{FilterExt as _, LevelFilter, Targets, filter_fn};
use tracing_subscriber::layer::{Context, Filter, SubscriberExt as _};
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{Layer, Registry};

/// The format of the log: the `--zap-*` flags, or the values of [`Operator::log`](crate::Operator::log) for those that
/// are absent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// `--zap-devel`: console format and debug level by default.
    pub devel: bool,
    /// `--zap-encoder`. Default: console format on a terminal, JSON otherwise.
    pub encoder: Option<Encoder>,
    /// `--zap-log-level`.
    pub level: Option<LogLevel>,
    /// `--zap-time-encoding`.
    pub time: Option<TimeEncoding>,
}

impl Options {
    /// Returns these options, with `defaults` for those that are absent.
    #[must_use]
    pub fn or(self, defaults: Options) -> Options {
        Options {
            devel: self.devel || defaults.devel,
            encoder: self.encoder.or(defaults.encoder),
            level: self.level.or(defaults.level),
            time: self.time.or(defaults.time),
        }
    }
}

/// The format of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Encoder {
    /// One JSON object.
    Json,
    /// Time, level, logger, message and the fields as JSON, separated by tabs.
    Console,
}

impl Encoder {
    /// Returns the format for a person who reads along, or for a program that collects logs.
    fn for_people(reads_along: bool) -> Encoder {
        if reads_along { Encoder::Console } else { Encoder::Json }
    }
}

/// The format of a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum TimeEncoding {
    /// Seconds since 1970, with a fraction.
    Epoch,
    /// Milliseconds since 1970, with a fraction.
    Millis,
    /// Nanoseconds since 1970.
    Nano,
    /// `2006-01-02T15:04:05.000Z`.
    #[value(name = "iso8601")]
    Iso8601,
    /// `2006-01-02T15:04:05Z`.
    #[default]
    Rfc3339,
    /// `2006-01-02T15:04:05.000000000Z`.
    Rfc3339nano,
}

/// The log level: `debug`, `info`, `error`, `panic`, or a number above 0. Higher numbers log more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogLevel(Level);

/// A level that zap does not know.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid log level {0:?}: must be debug, info, error, panic or a number above 0")]
pub struct LevelError(String);

impl FromStr for LogLevel {
    type Err = LevelError;

    fn from_str(text: &str) -> Result<LogLevel, LevelError> {
        Ok(LogLevel(match text.to_ascii_lowercase().as_str() {
            "debug" | "1" => Level::DEBUG,
            "info" => Level::INFO,
            "warn" => Level::WARN,
            "error" | "panic" => Level::ERROR,
            other if other.parse::<u8>().is_ok_and(|n| n > 0) => Level::TRACE,
            _ => return Err(LevelError(text.to_owned())),
        }))
    }
}

impl fmt::Display for LogLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.as_str().to_lowercase())
    }
}

/// Starts logging to standard error. `RUST_LOG`, such as `info,kube=debug`, overrides the level. Only the first call
/// has an effect.
///
/// A program with its own logging installs its `tracing` subscriber first, and keeps it. This function then has no
/// effect, even when [`Operator::main`](crate::Operator::main) calls it:
///
/// ```
/// use std::sync::Arc;
///
/// let log = tempfile::NamedTempFile::new()?;
/// tracing_subscriber::fmt().with_writer(Arc::new(log.reopen()?)).init();
/// helm_operator::telemetry::init(helm_operator::telemetry::Options::default());
/// tracing::info!("mine");
/// assert!(std::fs::read_to_string(log.path())?.contains("mine"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn init(options: Options) {
    init_with(options, None);
}

/// Starts logging like [`init`], and passes spans on to `traces`.
pub(crate) fn init_with(options: Options, traces: Option<&Traces>) {
    let encoder = options.encoder.unwrap_or(Encoder::for_people(options.devel || std::io::stderr().is_terminal()));
    let lines = Lines { encoder, time: options.time.unwrap_or_default() };
    let filter = visible(filter(options, std::env::var("RUST_LOG").ok().as_deref()));
    // A second start in the same process, as in tests, keeps the first.
    let spans = traces.map(Traces::layer);
    if Registry::default().with(spans).with(lines.with_filter(filter)).try_init().is_ok() {
        panics::report_panics();
    }
}

/// Returns the filter for a level. Libraries log only warnings, unless the level asks for everything.
fn filter(options: Options, rust_log: Option<&str>) -> Targets {
    if let Some(targets) = rust_log.and_then(|text| text.parse::<Targets>().ok()) {
        return targets;
    }
    let level = options.level.map_or(if options.devel { Level::DEBUG } else { Level::INFO }, |l| l.0);
    let libraries = if level == Level::TRACE { Level::DEBUG } else { level.min(Level::WARN) };
    let quiet = logger::CLIENT.into_iter().chain(["axum"]).map(|target| (target, libraries));
    Targets::new().with_default(LevelFilter::from(level)).with_targets(quiet)
}

/// The target where kube logs the API server's responses: refusals that quote a Secret, and, as a warning, any object
/// that it cannot decode. Its callers get the same as errors, in which `reconcile/report/redact` redacts values.
const RESPONSES: &str = "kube_client::client";

/// The target where kube logs why a watch fails, on each attempt and in Rust's debug notation. Reflectors log the same
/// once, in words.
const WATCHES: &str = "kube_runtime::watcher";

/// The target that logs each attempt to connect to a server with an untrusted certificate, which its caller reports
/// once.
const CERTIFICATES: &str = "rustls_platform_verifier::verification::others";

/// Returns the filter without responses and failures of watches and connections, which no level shows.
fn visible<S: 'static>(filter: Targets) -> impl Filter<S> {
    filter.and(filter_fn(|metadata| ![RESPONSES, WATCHES, CERTIFICATES].contains(&metadata.target())))
}

/// A layer that writes each event as a line.
struct Lines {
    encoder: Encoder,
    time: TimeEncoding,
}

/// The kind of the resource that a span works on.
struct Kind(String);

impl Visit for Kind {
    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == KIND {
            value.clone_into(&mut self.0);
        }
    }

    fn record_debug(&mut self, _: &Field, _: &dyn fmt::Debug) {}
}

/// The span field that each line within the span shows: the kind of the resource that is being reconciled.
const KIND: &str = "kind";

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Lines {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let mut kind = Kind(String::new());
        attributes.record(&mut kind);
        if let Some(span) = context.span(id).filter(|_| !kind.0.is_empty()) {
            span.extensions_mut().insert(kind);
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let scope = context.event_scope(event).into_iter().flatten();
        let kind = scope.filter_map(|span| span.extensions().get::<Kind>().map(|kind| kind.0.clone())).next();
        let line = line::format(event, kind.as_deref(), self.encoder, self.time, Timestamp::now());
        // There is nowhere to report a closed standard error.
        let _ = std::io::stderr().lock().write_all(line.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn a_terminal_gets_the_form_for_people() {
        assert_eq!((Encoder::for_people(true), Encoder::for_people(false)), (Encoder::Console, Encoder::Json));
    }

    #[test]
    fn levels_have_zaps_names() {
        let check = |text: &str, expected| assert_eq!(text.parse::<LogLevel>().map(|l| l.0), Ok(expected), "{text}");
        check("debug", Level::DEBUG);
        check("INFO", Level::INFO);
        check("error", Level::ERROR);
        check("panic", Level::ERROR);
        check("1", Level::DEBUG);
        check("5", Level::TRACE);
        assert!("0".parse::<LogLevel>().is_err() && "loud".parse::<LogLevel>().is_err());
    }

    #[test]
    fn libraries_log_warnings_only_unless_everything_is_requested() {
        let check = |options: Options, target: &str, level, expected| {
            assert_eq!(filter(options, None).would_enable(target, &level), expected, "{options:?} {target} {level}");
        };
        let options = Options::default();
        check(options, "helm_operator::manager", Level::INFO, true);
        check(options, "helm_operator::manager", Level::DEBUG, false);
        check(options, "memcached_operator", Level::INFO, true);
        check(options, "kube_runtime::watcher", Level::INFO, false);
        check(options, "kube_runtime::watcher", Level::WARN, true);
        check(Options { devel: true, ..options }, "helm_operator", Level::DEBUG, true);
        let errors = Options { level: "error".parse().ok(), ..options };
        check(errors, "kube_client", Level::WARN, false);
        let all = Options { level: "3".parse().ok(), ..options };
        check(all, "kube_client", Level::DEBUG, true);
    }

    #[test]
    fn no_level_shows_responses_of_the_api_server_or_failures_of_watches_in_rusts_notation() {
        struct Count(Arc<AtomicUsize>);
        impl<S: Subscriber> Layer<S> for Count {
            fn on_event(&self, _: &Event<'_>, _: Context<'_, S>) {
                self.0.fetch_add(1, Ordering::Relaxed);
            }
        }
        let all = Options { level: "9".parse().ok(), ..Options::default() };
        for rust_log in
            [None, Some("trace"), Some("kube_client=trace"), Some("kube_client::client=trace,kube_runtime=trace")]
        {
            let seen = Arc::new(AtomicUsize::new(0));
            let layer = Count(seen.clone()).with_filter(visible(filter(all, rust_log)));
            tracing::subscriber::with_default(Registry::default().with(layer), || {
                tracing::debug!(target: "kube_client::client::builder", "requesting");
                tracing::warn!(target: "kube_client::client", "hunter2");
                tracing::warn!(target: "kube_runtime::watcher", "watch list error with 403: Api(Status");
                tracing::error!(target: "rustls_platform_verifier::verification::others", "failed to verify");
            });
            assert_eq!(seen.load(Ordering::Relaxed), 1, "{rust_log:?}");
        }
    }

    #[test]
    fn the_flags_come_before_what_the_program_sets() {
        let set =
            Options { devel: true, encoder: Some(Encoder::Json), level: "error".parse().ok(), ..Options::default() };
        let flags = Options { encoder: Some(Encoder::Console), time: Some(TimeEncoding::Nano), ..Options::default() };
        let both = Options { devel: true, encoder: Some(Encoder::Console), level: set.level, time: flags.time };
        assert_eq!((flags.or(set), Options::default().or(set)), (both, set));
    }

    #[test]
    fn the_environment_overrides_the_flags() {
        let targets = filter(Options::default(), Some("warn,kube=debug"));
        assert!(targets.would_enable("kube", &Level::DEBUG) && !targets.would_enable("helm_operator", &Level::INFO));
    }
}
