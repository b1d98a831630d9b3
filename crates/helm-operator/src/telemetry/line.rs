//! Formats one event as one line.

use std::fmt::{Debug, Write as _};

use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};
use tracing::field::{Field, Visit};
use tracing::{Event, Level};

use super::{Encoder, TimeEncoding, logger};
use crate::terminal::plain;

/// Returns the line, including its line break. The field `logger` names the logger; without it, the module decides.
/// `kind` is put before a resource's name.
pub(super) fn format(
    event: &Event<'_>,
    kind: Option<&str>,
    encoder: Encoder,
    time: TimeEncoding,
    now: Timestamp,
) -> String {
    let mut fields = Fields::default();
    event.record(&mut fields);
    fields.name_kind(kind);
    let meta = event.metadata();
    let logger = fields.logger.take().unwrap_or_else(|| logger::name(meta.target()));
    let (level, ts) = (level(*meta.level()), timestamp(time, now));
    match encoder {
        Encoder::Json => json_line(level, &ts, &logger, &fields),
        Encoder::Console => console_line(level, &ts, &logger, &fields),
    }
}

fn json_line(level: &str, ts: &Value, logger: &str, fields: &Fields) -> String {
    let mut line =
        format!(r#"{{"level":"{level}","ts":{ts},"logger":{},"msg":{}"#, json!(logger), json!(fields.message));
    for (name, value) in &fields.rest {
        let _ = write!(line, ",{}:{value}", json!(name));
    }
    line + "}\n"
}

/// Returns a line for a terminal, which neither the message nor the fields control.
fn console_line(level: &str, ts: &Value, logger: &str, fields: &Fields) -> String {
    let ts = ts.as_str().map_or_else(|| ts.to_string(), str::to_owned);
    let mut line = format!("{ts}\t{}\t{logger}\t{}", level.to_uppercase(), plain(&fields.message));
    if !fields.rest.is_empty() {
        let pairs: Vec<_> = fields.rest.iter().map(|(name, value)| format!("{}: {value}", json!(name))).collect();
        let _ = write!(line, "\t{{{}}}", plain(&pairs.join(", ")));
    }
    line + "\n"
}

fn level(level: Level) -> &'static str {
    match level {
        Level::ERROR => "error",
        Level::WARN => "warn",
        Level::INFO => "info",
        // zap has nothing below debug.
        _ => "debug",
    }
}

fn timestamp(encoding: TimeEncoding, now: Timestamp) -> Value {
    let nanos = now.as_nanosecond();
    match encoding {
        TimeEncoding::Epoch => json!(nanos as f64 / 1e9),
        TimeEncoding::Millis => json!(nanos as f64 / 1e6),
        TimeEncoding::Nano => json!(i64::try_from(nanos).unwrap_or(i64::MAX)),
        TimeEncoding::Iso8601 => json!(format!("{now:.3}")),
        TimeEncoding::Rfc3339 => json!(format!("{now:.0}")),
        TimeEncoding::Rfc3339nano => json!(format!("{now:.9}")),
    }
}

/// An event's fields, in order.
#[derive(Default)]
struct Fields {
    message: String,
    logger: Option<String>,
    rest: Vec<(&'static str, Value)>,
}

impl Fields {
    /// Puts the kind before the resource's name, because resources of two kinds may share a name.
    fn name_kind(&mut self, kind: Option<&str>) {
        let resource = self.rest.iter_mut().find(|(name, _)| *name == "resource");
        if let (Some(kind), Some((_, Value::String(resource)))) = (kind, resource) {
            *resource = format!("{kind} {resource}");
        }
    }

    fn add(&mut self, field: &Field, value: Value) {
        match (field.name(), value) {
            ("message", Value::String(text)) => self.message = text,
            ("logger", Value::String(text)) => self.logger = Some(text),
            (name, value) => self.rest.push((name, value)),
        }
    }
}

impl Visit for Fields {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.add(field, json!(value));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.add(field, json!(value));
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.add(field, json!(value));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.add(field, json!(value));
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.add(field, json!(value));
    }

    fn record_error(&mut self, field: &Field, value: &(dyn std::error::Error + 'static)) {
        self.add(field, json!(controller::report::chain(value)));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.add(field, json!(format!("{value:?}")));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use tracing_subscriber::Layer;
    use tracing_subscriber::layer::{Context, SubscriberExt as _};

    use super::*;

    struct Catch(Arc<Mutex<String>>, Encoder, TimeEncoding);

    impl<S: tracing::Subscriber> Layer<S> for Catch {
        fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
            let now = "2026-01-02T03:04:05.678901234Z".parse().unwrap();
            self.0.lock().unwrap().push_str(&format(event, None, self.1, self.2, now));
        }
    }

    fn check(encoder: Encoder, time: TimeEncoding, log: impl FnOnce(), expected: &str) {
        let caught = Arc::new(Mutex::new(String::new()));
        let subscriber = tracing_subscriber::registry().with(Catch(caught.clone(), encoder, time));
        tracing::subscriber::with_default(subscriber, log);
        assert_eq!(*caught.lock().unwrap(), expected);
    }

    #[test]
    fn a_json_line_begins_with_zaps_keys() {
        check(
            Encoder::Json,
            TimeEncoding::Rfc3339,
            || tracing::info!(logger = "helm.controller", namespace = "ns", n = 3, ok = true, "Installed \"release\""),
            "{\"level\":\"info\",\"ts\":\"2026-01-02T03:04:05Z\",\"logger\":\"helm.controller\",\"msg\":\"Installed \\\"release\\\"\",\"namespace\":\"ns\",\"n\":3,\"ok\":true}\n",
        );
    }

    #[test]
    fn the_module_decides_on_the_logger_by_default() {
        check(
            Encoder::Json,
            TimeEncoding::Nano,
            || tracing::warn!(target: "helm_operator::manager", "x"),
            "{\"level\":\"warn\",\"ts\":1767323045678901234,\"logger\":\"manager\",\"msg\":\"x\"}\n",
        );
    }

    #[test]
    fn a_console_line_is_separated_by_tabs() {
        let log = || tracing::error!(logger = "cmd", error = "it\nbroke", "Failed");
        let expected = "2026-01-02T03:04:05.678Z\tERROR\tcmd\tFailed\t{\"error\": \"it\\nbroke\"}\n";
        check(Encoder::Console, TimeEncoding::Iso8601, log, expected);
    }

    #[test]
    fn control_characters_of_charts_and_users_are_escaped() {
        let log = || tracing::error!(logger = "cmd", error = "\x1b[2J\r", "Failed");
        let expected = "2026-01-02T03:04:05.678Z\tERROR\tcmd\tFailed\t{\"error\": \"\\u001b[2J\\r\"}\n";
        check(Encoder::Console, TimeEncoding::Iso8601, log, expected);
    }

    #[test]
    fn a_message_for_a_terminal_stays_on_its_line_and_controls_nothing() {
        let log = || tracing::warn!(logger = "cmd", path = "a\u{9b}2J", "{}", "lookup \u{1b}[2J\nin a.yaml");
        let expected =
            "2026-01-02T03:04:05.678Z\tWARN\tcmd\tlookup \u{fffd}[2J\u{fffd}in a.yaml\t{\"path\": \"a\u{fffd}2J\"}\n";
        check(Encoder::Console, TimeEncoding::Iso8601, log, expected);
    }

    #[test]
    fn the_kind_stands_before_the_name_of_a_resource() {
        let resource = || Fields { rest: vec![("resource", json!("ns/web"))], ..Fields::default() };
        for (kind, expected) in [(Some("Shop"), "Shop ns/web"), (None, "ns/web")] {
            let mut fields = resource();
            fields.name_kind(kind);
            assert_eq!(fields.rest, [("resource", json!(expected))]);
        }
    }

    #[test]
    fn times_have_zaps_formats() {
        let now = "2026-01-02T03:04:05.678901234Z".parse().unwrap();
        let check = |encoding, expected: Value| assert_eq!(timestamp(encoding, now), expected);
        check(TimeEncoding::Epoch, json!(1767323045.6789012));
        check(TimeEncoding::Rfc3339nano, json!("2026-01-02T03:04:05.678901234Z"));
        assert!(timestamp(TimeEncoding::Millis, now).as_f64().unwrap() > 1.767e12);
    }
}
