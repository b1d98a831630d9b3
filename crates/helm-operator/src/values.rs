//! The `spec` of a custom resource: its JSON as the server wrote it, and its values.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use go_encoding::json::{self, EscapeHtml, Layout};
use go_template::{Map, Value};
use helm_release::kube::{digest_json, intern};

/// The maximum size of a `spec`, in bytes. A release record, which also contains the chart, has 1 MiB.
pub(crate) const MAX_SPEC_BYTES: usize = 1 << 20;

/// The maximum number of values in a `spec`, including keys. Each takes about 100 bytes of memory, no matter how short
/// it is.
pub(crate) const MAX_SPEC_VALUES: usize = 100_000;

/// Texts up to this size are always kept, because the rest of a resource takes as much.
const SMALL: usize = 1 << 10;

/// The maximum of larger texts that a process keeps, in bytes.
const ROOM: usize = 16 << 20;

/// The reason why a `spec` has no values. The messages never quote it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// It exceeds the size limit.
    #[error(
        "spec has {0} bytes, more than the operator reads (limit MAX_SPEC_BYTES of 1 MiB): shorten it, or move large values to a ConfigMap or Secret \
         and name that with valuesFrom"
    )]
    TooLarge(usize),
    /// It exceeds the limit on the number of values.
    #[error(
        "spec has {0} values, more than the operator reads (limit MAX_SPEC_VALUES of 100000): use fewer, or pass lists as text"
    )]
    TooMany(usize),
    /// Its text is not in memory, because the process keeps a limited amount of large texts.
    #[error("spec is not in memory")]
    NotKept,
    /// It is a list or a scalar.
    #[error("spec must be a map of values, got {0}")]
    NotAMap(&'static str),
    /// It is not JSON, or exceeds a limit of the decoder.
    #[error("cannot read spec: {0}")]
    Unreadable(&'static str),
}

/// A resource's `spec`: the server's own JSON text, in which no number has lost a digit, and a digest of its contents.
#[derive(Clone, Debug)]
pub struct Spec {
    text: Result<Text, Error>,
    digest: Arc<str>,
}

#[derive(Clone, Debug)]
struct Text {
    json: Arc<str>,
    /// The reservation of a large text that is kept.
    reserved: Option<Arc<Reserved>>,
}

/// Room for large texts, shared by everything that a process keeps.
#[derive(Clone, Debug, Default)]
pub(crate) struct Room(Arc<AtomicUsize>);

/// A part of a room, which is free again once this is dropped.
#[derive(Debug)]
pub(crate) struct Reserved(Room, usize);

impl Room {
    /// Reserves this many bytes; returns `None` if there are fewer left. What the text replaces, and is dropped next, counts
    /// as left.
    pub(crate) fn take(&self, bytes: usize, replaced: usize) -> Option<Reserved> {
        let fits = |used: usize| Some(used + bytes).filter(|sum| sum.saturating_sub(replaced) <= ROOM);
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits).ok()?;
        Some(Reserved(self.clone(), bytes))
    }

    /// Uses up all room.
    #[cfg(test)]
    pub(crate) fn fill(&self) {
        self.0.store(2 * ROOM, Ordering::Relaxed);
    }
}

impl Reserved {
    pub(crate) fn bytes(&self) -> usize {
        self.1
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        self.0.0.fetch_sub(self.1, Ordering::Relaxed);
    }
}

impl Spec {
    /// Creates the `spec` with this JSON text; `null` means that there is none.
    pub fn new(json: &str) -> Spec {
        Spec { text: Ok(Text { json: json.into(), reserved: None }), digest: intern(&digest(json)) }
    }

    /// Creates the `spec` that a user wrote. If it exceeds the limits, only its digest is kept.
    pub(crate) fn of_user(json: &str) -> Spec {
        match measure(json) {
            Ok(()) => Spec::new(json),
            Err(error) => Spec { text: Err(error), digest: intern(&digest_json(&json.into())) },
        }
    }

    /// Returns the `spec` as it is kept in memory: without a text for which there is no room. It replaces one that takes so
    /// many bytes of the room.
    pub(crate) fn kept_in(self, room: &Room, replaced: usize) -> Spec {
        let Ok(Text { json, reserved: None }) = &self.text else { return self };
        if json.len() <= SMALL {
            return self;
        }
        let text = match room.take(json.len(), replaced) {
            Some(place) => Ok(Text { json: json.clone(), reserved: Some(Arc::new(place)) }),
            None => Err(Error::NotKept),
        };
        Spec { text, ..self }
    }

    /// Returns how many bytes of the room its text takes.
    pub(crate) fn reserved(&self) -> usize {
        self.text.as_ref().ok().and_then(|text| text.reserved.as_deref()).map_or(0, Reserved::bytes)
    }

    /// Returns whether the text was not kept.
    pub(crate) fn is_away(&self) -> bool {
        matches!(self.text, Err(Error::NotKept))
    }

    /// Returns the JSON text.
    ///
    /// # Errors
    /// The text was not read, or not kept.
    pub fn json(&self) -> Result<&str, Error> {
        self.text.as_ref().map(|text| &*text.json).map_err(Clone::clone)
    }

    pub(crate) fn shared_json(&self) -> Result<Arc<str>, Error> {
        self.text.as_ref().map(|text| text.json.clone()).map_err(Clone::clone)
    }

    /// Returns a digest of the contents, which does not depend on the server's choice of spaces, escapes and key order.
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// Decodes the values again on each call. Integers are `int64` as in operator-sdk, which uses the API's decoder.
    /// `null` has no values.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn values(&self) -> Result<Map, Error> {
        decode(self.json()?)
    }
}

/// Checks a text's size and number of values without parsing it.
fn measure(json: &str) -> Result<(), Error> {
    if json.len() > MAX_SPEC_BYTES {
        return Err(Error::TooLarge(json.len()));
    }
    match count_values(json.as_bytes()) {
        values if values > MAX_SPEC_VALUES => Err(Error::TooMany(values)),
        _ => Ok(()),
    }
}

/// Returns an upper bound for the number of values in JSON text, including keys, without parsing it.
pub(crate) fn count_values(json: &[u8]) -> usize {
    let (mut in_text, mut escaped, mut values) = (false, false, 1);
    for byte in json {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_text => escaped = true,
            b'"' => in_text = !in_text,
            b',' | b':' | b'[' | b'{' if !in_text => values += 1,
            _ => {}
        }
    }
    values
}

/// Decodes the values of a `spec`'s JSON text.
pub(crate) fn decode(spec: &str) -> Result<Map, Error> {
    match json::decode_preserving_ints(spec.as_bytes()).map_err(|e| unreadable(&e))? {
        Value::Map(map) => Ok(map),
        Value::Nil => Ok(Map::default()),
        other => Err(Error::NotAMap(json::kind(&other))),
    }
}

/// Digests a canonical form, because servers differ in spaces, escapes and key order. Invalid JSON is digested as
/// written.
fn digest(spec: &str) -> String {
    let value = json::decode_preserving_ints(spec.as_bytes()).ok();
    let canonical = value.and_then(|value| json::encode(&value, EscapeHtml::No, Layout::Compact).ok());
    digest_json(&String::from_utf8_lossy(canonical.as_deref().unwrap_or(spec.as_bytes())).into())
}

/// Returns an error that quotes nothing. The decoder's message would quote a number or a character.
fn unreadable(error: &json::DecodeError) -> Error {
    Error::Unreadable(match error {
        json::DecodeError::TooDeep => "it nests too deep (limit MAX_DEPTH of 500)",
        json::DecodeError::TooMany => "it has too many values (limit MAX_VALUES of 1000000)",
        json::DecodeError::Number(_) => "a number is too large",
        _ => "it is not JSON",
    })
}

#[cfg(test)]
mod tests {
    use helm::chart::Chart;
    use helm::engine::{Capabilities, Engine, ReleaseOptions, Request};
    use serde_json::json as value;

    use super::*;

    #[test]
    fn an_invalid_spec_is_an_error_that_quotes_no_values() {
        let of_spec = |spec: &str| Spec::new(spec).values().map_err(|e| e.to_string());
        for (spec, expected) in [
            ("[\"s3cret\"]", "spec must be a map of values, got array"),
            ("\"s3cret\"", "spec must be a map of values, got string"),
            ("4711", "spec must be a map of values, got number"),
            ("true", "spec must be a map of values, got bool"),
            ("{\"a\": 1e999}", "cannot read spec: a number is too large"),
            ("{\"a\": s3cret}", "cannot read spec: it is not JSON"),
        ] {
            assert_eq!(of_spec(spec).unwrap_err(), expected);
        }
        let deep = format!("{{\"a\": {}{}}}", "[".repeat(json::MAX_DEPTH), "]".repeat(json::MAX_DEPTH));
        assert_eq!(of_spec(&deep).unwrap_err(), "cannot read spec: it nests too deep (limit MAX_DEPTH of 500)");
        let many = format!("{{\"a\": [{}1]}}", "1,".repeat(json::MAX_VALUES));
        assert_eq!(
            of_spec(&many).unwrap_err(),
            "cannot read spec: it has too many values (limit MAX_VALUES of 1000000)"
        );
    }

    #[test]
    fn a_users_spec_beyond_its_limits_is_not_parsed_and_says_what_to_do() {
        let of = |spec: &str| Spec::of_user(spec).values().map(drop).map_err(|e| e.to_string());
        let text = |length: usize| format!("{{\"a\":\"{}\"}}", "x".repeat(length - 8));
        assert_eq!(of(&text(MAX_SPEC_BYTES)), Ok(()));
        let refused = of(&text(MAX_SPEC_BYTES + 1)).unwrap_err();
        assert!(refused.starts_with("spec has 1048577 bytes") && refused.contains("valuesFrom"), "{refused}");
        let list = |length: usize| format!("{{\"a\":[{}1]}}", "1,".repeat(length));
        assert_eq!(of(&list(99_000)), Ok(()));
        assert!(of(&list(100_000)).unwrap_err().starts_with("spec has 100004 values"));
        assert_eq!(of(&format!("{{\"a\":\"\\\"{}\"}}", ",".repeat(200_000))), Ok(()), "text is no value");
        assert_ne!(Spec::of_user(&list(100_000)).digest(), Spec::of_user(&list(100_001)).digest());
    }

    #[test]
    fn a_process_keeps_small_texts_and_so_many_bytes_of_large_ones() {
        let room = Room::default();
        let large = || Spec::new(&format!("\"{}\"", "x".repeat(ROOM / 4 - 2))).kept_in(&room, 0);
        let mut kept: Vec<Spec> = (0..4).map(|_| large()).collect();
        assert!(kept.iter().all(|spec| !spec.is_away()));
        let away = large();
        assert!(away.is_away() && away.values().is_err());
        assert_eq!(away.digest(), kept[0].digest());
        assert!(!Spec::new("{}").kept_in(&room, 0).is_away());
        let text = format!("\"{}\"", "y".repeat(ROOM / 4 - 2));
        kept[0] = Spec::new(&text).kept_in(&room, kept[0].reserved());
        assert_eq!(kept[0].json(), Ok(&*text), "it takes the place of the one before");
        assert!(large().is_away(), "which is taken only once");
        kept.pop();
        assert!(!large().is_away());
        assert!(large().is_away() || room.0.load(Ordering::Relaxed) <= ROOM);
    }

    #[test]
    fn integers_are_int64_and_other_numbers_float64() {
        let spec = r#"{"a":80,"b":9007199254740993,"c":-0,"d":1.0,"e":1e3,"f":18446744073709551615,"g":[1,{"h":-9223372036854775808}]}"#;
        let values = Spec::new(spec).values().unwrap();
        let get = |key: &str| values.get(key).unwrap();
        for (key, expected) in [
            ("a", Value::int64(80)),
            ("b", Value::int64(9_007_199_254_740_993)),
            ("c", Value::int64(0)),
            ("d", Value::Float(1.0)),
            ("e", Value::Float(1000.0)),
            ("f", Value::Float(18_446_744_073_709_552_000.0)),
        ] {
            assert_eq!(format!("{:?}", get(key)), format!("{expected:?}"), "{key}");
        }
        assert_eq!(json::to_serde(&get("g")), value!([1, {"h": i64::MIN}]));
        assert_eq!(json::to_serde(&get("b")), value!(9_007_199_254_740_993_i64));
    }
    /// Returns what the template prints for the values of a `spec` over the chart's `values.yaml`.
    fn printed(template: &str, spec: &str) -> String {
        let files = [
            ("Chart.yaml", "apiVersion: v2\nname: c\nversion: 1.0.0\n"),
            ("values.yaml", "port: 8080\nnested: {size: 5, other: 1}\n"),
            ("values.schema.json", r#"{"properties":{"port":{"type":"integer","maximum":65535}}}"#),
            ("templates/t.yaml", template),
        ];
        let engine = Engine::new(Chart::from_files(files).unwrap());
        let values = Spec::new(spec).values().unwrap();
        let release = ReleaseOptions { name: "r".into(), namespace: "ns".into(), revision: 1, is_upgrade: false };
        let capabilities = Capabilities::default();
        let request = Request {
            values: &values,
            release: &release,
            capabilities: &capabilities,
            lookup: None,
            skip_schema: false,
        };
        match engine.render(&request) {
            Ok(rendered) => rendered.manifests[0].content.clone(),
            Err(error) => error.without_values(),
        }
    }

    #[test]
    fn templates_see_a_specs_integers_and_the_charts_floats() {
        let check = |template: &str, spec: &str, expected: &str| assert_eq!(printed(template, spec), expected);
        check("a: {{ .Values.big }}", r#"{"big":1000000}"#, "a: 1000000");
        check("a: {{ .Values.big }}", r#"{"big":9007199254740993}"#, "a: 9007199254740993");
        check(r#"a: {{ printf "%d" .Values.port }}"#, r#"{"port":80}"#, "a: 80");
        check(r#"a: {{ printf "%d" .Values.port | quote }}"#, "{}", r#"a: "%!d(float64=8080)""#);
        check("a: {{ eq .Values.port 80 }}", r#"{"port":80}"#, "a: true");
        check(
            "a: {{ typeOf .Values.port }} {{ typeOf .Values.nested.size }} {{ typeOf .Values.nested.other }}",
            r#"{"port":80,"nested":{"size":7}}"#,
            "a: int64 int64 float64",
        );
        check("a: {{ add .Values.port .Values.nested.size }}", r#"{"port":80}"#, "a: 85");
        check("{{ toYaml .Values.nested }}", r#"{"nested":{"size":1000000}}"#, "other: 1\nsize: 1000000");
        check("a: {{ toJson .Values.l | quote }}", r#"{"l":[1,2.0,2.5,1e21]}"#, r#"a: "[1,2,2.5,1e+21]""#);
        check("a: {{ index .Values.l .Values.port }}", r#"{"port":1,"l":["x","y"]}"#, "a: y");
        check(
            "a: {{ max .Values.port 7 }} {{ .Values.port | int }} {{ .Values.port | quote }}",
            r#"{"port":80}"#,
            "a: 80 80 \"80\"",
        );
        assert!(printed("a: {{ eq .Values.port 8080 }}", "{}").contains("incompatible types for comparison"));
    }

    #[test]
    fn a_schemas_integer_takes_both_and_its_bounds_hold() {
        assert_eq!(printed("a: {{ .Values.port }}", r#"{"port":1}"#), "a: 1");
        assert_eq!(printed("a: {{ .Values.port }}", r#"{"port":2.0}"#), "a: 2");
        let refused = printed("a: 1", r#"{"port":65536}"#);
        assert!(refused.contains("maximum: want 65,535") && !refused.contains("65536"), "{refused}");
        assert!(printed("a: 1", r#"{"port":1.5}"#).contains("got number, want integer"));
    }

    #[test]
    fn specs_with_the_same_contents_have_one_digest() {
        let digest = |spec: &str| Spec::new(spec).digest().to_owned();
        assert_eq!(digest(r#"{"a":"<","b":1}"#), digest("{ \"b\": 1, \"a\": \"\\u003c\" }"));
        assert_ne!(digest(r#"{"a":9007199254740993}"#), digest(r#"{"a":9007199254740992}"#));
        assert_ne!(digest(r#"{"a":"1"}"#), digest(r#"{"a":1}"#));
        let deep = |n: u32| format!("{}{n}{}", "[".repeat(600), "]".repeat(600));
        assert_ne!(digest(&deep(1)), digest(&deep(2)));
    }
}
