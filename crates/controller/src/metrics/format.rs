//! Encodes metrics in a text format: Prometheus's classic one, or OpenMetrics for clients that prefer it.
//!
//! prometheus-client writes only OpenMetrics. The classic format differs in three places: the HELP and TYPE of counters
//! and infos include the suffix, there is no type `info`, and no end mark.

use prometheus_client::encoding::text;
use prometheus_client::registry::Registry;

/// A text format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// The format that upstream serves, and every client reads.
    Classic,
    /// OpenMetrics 1.0.
    OpenMetrics,
}

impl Format {
    /// Returns the format that the client's `Accept` header prefers. Ties go to the first. Default: classic.
    pub fn negotiate(accept: &str) -> Format {
        let mut best = (Format::Classic, 0.0);
        for (format, quality) in accept.split(',').filter_map(media_range) {
            if quality > best.1 {
                best = (format, quality);
            }
        }
        best.0
    }

    /// Returns the value of the `Content-Type` header.
    pub fn content_type(self) -> &'static str {
        match self {
            Format::Classic => "text/plain; version=0.0.4; charset=utf-8",
            Format::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }

    pub(super) fn encode(self, registry: &Registry) -> String {
        let mut text = String::new();
        // Only formatting a label or a value can fail, and ours never fails.
        let _ = text::encode(&mut text, registry);
        match self {
            Format::Classic => classic(&text),
            Format::OpenMetrics => text,
        }
    }
}

/// Returns the format that one entry of `Accept` requests and its quality, if we serve that format and version.
fn media_range(entry: &str) -> Option<(Format, f64)> {
    let mut parts = entry.split(';').map(str::trim);
    let kind = parts.next()?.to_ascii_lowercase();
    let (mut quality, mut version) = (1.0, None);
    for (name, value) in parts.filter_map(|part| part.split_once('=')) {
        match name.trim() {
            "q" => quality = value.trim().parse().ok()?,
            "version" => version = Some(value.trim()),
            _ => {}
        }
    }
    let format = match (kind.as_str(), version) {
        ("application/openmetrics-text", None | Some("1.0.0" | "0.0.1")) => Format::OpenMetrics,
        ("text/plain" | "text/*", None | Some("0.0.4")) | ("*/*", _) => Format::Classic,
        _ => return None,
    };
    Some((format, quality))
}

fn classic(open: &str) -> String {
    let mut text = String::with_capacity(open.len());
    let mut help = None;
    for line in open.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            help = rest.split_once(' ');
        } else if let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|rest| rest.split_once(' ')) {
            let (suffix, kind) = match kind {
                "counter" => ("_total", kind),
                "info" => ("_info", "gauge"),
                "unknown" => ("", "untyped"),
                _ => ("", kind),
            };
            if let Some((_, help)) = help.take() {
                text.extend(["# HELP ", name, suffix, " ", help, "\n"]);
            }
            text.extend(["# TYPE ", name, suffix, " ", kind, "\n"]);
        } else if !line.starts_with('#') {
            text.extend([line, "\n"]);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_format_is_classic_unless_the_client_prefers_openmetrics() {
        let check = |accept: &str, expected| assert_eq!(Format::negotiate(accept), expected, "{accept:?}");
        check("", Format::Classic);
        check("*/*", Format::Classic);
        check("text/html, */*;q=0.8", Format::Classic);
        check("text/plain;version=0.0.4", Format::Classic);
        check("application/openmetrics-text", Format::OpenMetrics);
        check("application/openmetrics-text; version=0.0.1, text/plain;q=0.5", Format::OpenMetrics);
        check("application/openmetrics-text;version=2.0.0,text/plain;version=0.0.4;q=0.1", Format::Classic);
        check("application/openmetrics-text;q=0.4,text/plain;q=0.5", Format::Classic);
        check("application/openmetrics-text;q=0", Format::Classic);
        check("application/openmetrics-text;q=many", Format::Classic);
        let prometheus = "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,application/openmetrics-text;version=0.0.1;q=0.5,\
             text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2";
        check(prometheus, Format::OpenMetrics);
        check(&format!("application/vnd.google.protobuf;q=0.7,{prometheus}"), Format::OpenMetrics);
    }

    #[test]
    fn the_classic_format_has_its_own_names_and_types_and_no_end_mark() {
        let open = "# HELP a Counts.\n# TYPE a counter\na_total{b=\"# x\"} 1\n# HELP i Info.\n# TYPE i info\ni_info{} 1\n\
                    # HELP s_seconds Size.\n# TYPE s_seconds gauge\n# UNIT s_seconds seconds\ns_seconds 2.0\n# EOF\n";
        let expected = "# HELP a_total Counts.\n# TYPE a_total counter\na_total{b=\"# x\"} 1\n# HELP i_info Info.\n# TYPE i_info gauge\n\
                        i_info{} 1\n# HELP s_seconds Size.\n# TYPE s_seconds gauge\ns_seconds 2.0\n";
        assert_eq!(classic(open), expected);
    }
}
