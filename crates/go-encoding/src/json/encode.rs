//! Encodes values as JSON, with sorted keys, Go's number format and escapes for HTML. Counterpart: `encoding/json`'s `Marshal`.

use go_template::{List, Map, Object, Value};

use golibs::strconv::json_float;

use super::{MAX_DEPTH, number};

/// Maximum length of the output, in bytes: a template can double a value repeatedly by adding it to a map twice.
pub const MAX_OUTPUT: usize = 64 << 20;

/// Whether to escape `<`, `>` and `&`, which makes the output safe in HTML.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EscapeHtml {
    /// Escape them, like `Marshal`.
    Yes,
    /// Do not escape them, like an `Encoder` after `SetEscapeHTML(false)`.
    No,
}

/// The layout of the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// No whitespace.
    Compact,
    /// One line per item, indented by two spaces per level.
    Indented,
}

/// The reason why a value could not be encoded, in `encoding/json`'s words except for our own limits.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EncodeError {
    /// The value is an infinity or NaN.
    #[error("json: unsupported value: {0}")]
    UnsupportedValue(String),
    /// JSON cannot represent values of this kind, such as functions.
    #[error("json: unsupported type: {0}")]
    UnsupportedType(String),
    /// A map contains itself.
    #[error("json: unsupported value: encountered a cycle via {0}")]
    Cycle(&'static str),
    /// The value nests deeper than [`MAX_DEPTH`].
    #[error("json: exceeded max depth of {0}")]
    TooDeep(usize),
    /// The output is longer than the limit, which is [`MAX_OUTPUT`] unless the caller has set a tighter one.
    #[error("json: output is longer than {0} bytes")]
    TooLong(usize),
}

impl EncodeError {
    pub(crate) fn unsupported(value: f64) -> EncodeError {
        EncodeError::UnsupportedValue(number::shortest(value))
    }
}

/// Encodes the value as JSON, without a final line break.
pub fn encode(value: &Value, escape: EscapeHtml, layout: Layout) -> Result<Vec<u8>, EncodeError> {
    encode_within(value, escape, layout, MAX_OUTPUT)
}

/// Encodes like [`encode`], to at most this many bytes. The last string of a longer output is encoded before it fails.
pub fn encode_within(value: &Value, escape: EscapeHtml, layout: Layout, most: usize) -> Result<Vec<u8>, EncodeError> {
    let mut encoder = Encoder { out: Vec::with_capacity(128), most, escape, layout, depth: 0, path: Vec::new() };
    encoder.value(value)?;
    Ok(encoder.out)
}

/// Encodes a JSON string, escaped for HTML. Invalid UTF-8 becomes U+FFFD.
pub(crate) fn quoted(bytes: &[u8]) -> String {
    let mut out = Vec::new();
    write_string(&mut out, bytes, EscapeHtml::Yes);
    String::from_utf8(out).unwrap_or_default()
}

/// Fails at the depth limit. The error reports whether the innermost map contains itself.
pub(crate) fn check_depth(depth: usize, path: &[Map]) -> Result<(), EncodeError> {
    if depth < MAX_DEPTH {
        return Ok(());
    }
    match path.split_last() {
        Some((last, outer)) if outer.iter().any(|map| map.same(last)) => Err(EncodeError::Cycle(last.ty().name())),
        _ => Err(EncodeError::TooDeep(MAX_DEPTH)),
    }
}

struct Encoder {
    out: Vec<u8>,
    /// Maximum length of the output, in bytes.
    most: usize,
    escape: EscapeHtml,
    layout: Layout,
    depth: usize,
    path: Vec<Map>,
}

impl Encoder {
    fn value(&mut self, value: &Value) -> Result<(), EncodeError> {
        match value {
            Value::Nil => self.text("null"),
            Value::Bool(yes) => self.text(if *yes { "true" } else { "false" }),
            Value::Int(number, _) => self.text(&number.to_string()),
            Value::Uint(number, _) => self.text(&number.to_string()),
            Value::Float(number) => self.text(&json_float(*number).ok_or_else(|| EncodeError::unsupported(*number))?),
            Value::String(bytes) => write_string(&mut self.out, bytes, self.escape),
            Value::Bytes(bytes) => write_string(&mut self.out, super::base64(bytes).as_bytes(), self.escape),
            Value::List(list) if list.is_nil() => self.text("null"),
            Value::List(list) => self.list(list)?,
            Value::Map(map) if map.is_nil() => self.text("null"),
            Value::Map(map) => self.map(map)?,
            Value::Object(object) => self.object(object.as_ref())?,
            Value::Complex(..) | Value::Func(_) => {
                return Err(EncodeError::UnsupportedType(value.type_name().to_owned()));
            }
        }
        if self.out.len() > self.most {
            return Err(EncodeError::TooLong(self.most));
        }
        Ok(())
    }

    fn text(&mut self, text: &str) {
        self.out.extend_from_slice(text.as_bytes());
    }

    fn list(&mut self, list: &List) -> Result<(), EncodeError> {
        check_depth(self.depth, &self.path)?;
        self.open(b'[');
        for (i, item) in list.iter().enumerate() {
            self.separate(i);
            self.value(item)?;
        }
        self.close(b']', list.is_empty());
        Ok(())
    }

    fn map(&mut self, map: &Map) -> Result<(), EncodeError> {
        self.path.push(map.clone());
        check_depth(self.depth, &self.path)?;
        self.open(b'{');
        let entries = map.peek();
        for (i, (key, value)) in entries.iter().enumerate() {
            self.separate(i);
            self.key(key);
            self.value(value)?;
        }
        self.close(b'}', entries.is_empty());
        self.path.pop();
        Ok(())
    }

    fn object(&mut self, object: &dyn Object) -> Result<(), EncodeError> {
        let fields = object.fields();
        let data = object.data();
        if fields.is_empty() || !matches!(data, Value::Map(_)) {
            return self.value(&data);
        }
        check_depth(self.depth, &self.path)?;
        self.open(b'{');
        let seen: Vec<_> = fields.iter().filter(|field| field.is_in_json()).collect();
        for (i, field) in seen.iter().enumerate() {
            self.separate(i);
            self.key(field.json_name.as_bytes());
            self.value(&field.value)?;
        }
        self.close(b'}', seen.is_empty());
        Ok(())
    }

    fn key(&mut self, key: &[u8]) {
        write_string(&mut self.out, key, self.escape);
        self.text(if self.layout == Layout::Indented { ": " } else { ":" });
    }

    fn open(&mut self, bracket: u8) {
        self.out.push(bracket);
        self.depth += 1;
    }

    fn separate(&mut self, index: usize) {
        if index > 0 {
            self.out.push(b',');
        }
        self.line();
    }

    fn close(&mut self, bracket: u8, empty: bool) {
        self.depth -= 1;
        if !empty {
            self.line();
        }
        self.out.push(bracket);
    }

    fn line(&mut self) {
        if self.layout == Layout::Indented {
            self.out.push(b'\n');
            self.out.resize(self.out.len() + 2 * self.depth, b' ');
        }
    }
}

fn write_string(out: &mut Vec<u8>, bytes: &[u8], escape: EscapeHtml) {
    out.push(b'"');
    let text = super::to_utf8(bytes);
    let replaced = matches!(text, std::borrow::Cow::Owned(_));
    let bytes = text.as_bytes();
    let mut written = 0;
    for (i, byte) in bytes.iter().enumerate() {
        let Some(escaped) = escape_of(bytes, i, *byte, escape, replaced) else { continue };
        out.extend_from_slice(&bytes[written..i]);
        out.extend_from_slice(escaped.text.as_bytes());
        written = i + escaped.length;
    }
    out.extend_from_slice(&bytes[written..]);
    out.push(b'"');
}

/// An escape sequence and the number of bytes that it replaces.
struct Escape {
    text: std::borrow::Cow<'static, str>,
    length: usize,
}

fn escape_of(bytes: &[u8], i: usize, byte: u8, html: EscapeHtml, replaced: bool) -> Option<Escape> {
    let (text, length): (&'static str, usize) = match byte {
        b'"' => ("\\\"", 1),
        b'\\' => ("\\\\", 1),
        b'\n' => ("\\n", 1),
        b'\r' => ("\\r", 1),
        b'\t' => ("\\t", 1),
        0x08 => ("\\b", 1),
        0x0C => ("\\f", 1),
        0..=0x1F => return Some(Escape { text: format!("\\u{byte:04x}").into(), length: 1 }),
        b'<' if html == EscapeHtml::Yes => ("\\u003c", 1),
        b'>' if html == EscapeHtml::Yes => ("\\u003e", 1),
        b'&' if html == EscapeHtml::Yes => ("\\u0026", 1),
        0xE2 if bytes[i..].starts_with("\u{2028}".as_bytes()) => ("\\u2028", 3),
        0xE2 if bytes[i..].starts_with("\u{2029}".as_bytes()) => ("\\u2029", 3),
        0xEF if replaced && bytes[i..].starts_with("\u{FFFD}".as_bytes()) => ("\\ufffd", 3),
        _ => return None,
    };
    Some(Escape { text: text.into(), length })
}
