//! Converts nodes to the values that Go obtains via YAML → JSON → `any`: numbers are floats, keys are strings.
//!
//! Counterpart: yaml.v2's `decoder` and sigs.k8s.io/yaml's `convertToJSONableObject`, with yaml.v2's limits on aliases.

use std::collections::{BTreeMap, HashSet};

use base64::Engine as _;
use go_template::{Map, MapType, Str, Value};
use golibs::strconv::json_float;

use super::compose::{Document, Node, NodeId, Typing};
use super::describe::go_syntax;
use super::error::Error;
use super::resolve::{Dates, Scalar, resolve, resolve_with};
use super::{MAX_DEPTH, Most};
use crate::json::{self, number};

/// Number of operations up to which aliases may cause 99 % of them.
const ALIAS_RATIO_LOW: f64 = 400_000.0;

/// Number of operations from which aliases may cause only 10 % of them.
const ALIAS_RATIO_HIGH: f64 = 4_000_000.0;

const TAG_PREFIX: &str = "tag:yaml.org,2002:";

type Entries = BTreeMap<Str, Value>;
type Result<T, E = Error> = std::result::Result<T, E>;

/// The types that numbers are decoded to.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Numbers {
    /// Floats, as in Go's `any`.
    Floats,
    /// JSON integers stay integers, as in Kubernetes' decoder.
    PreserveInts,
}

pub(super) fn decode(document: &Document, numbers: Numbers, most: Most) -> Result<Value> {
    let Some(root) = document.root else { return Ok(Value::Nil) };
    let mut decoder = Decoder::new(document, numbers, most);
    let value = decoder.value(root)?;
    if let Some(problem) = decoder.not_json {
        return Err(Error::NotJson(problem));
    }
    match decoder.infinite.then(|| not_finite(&value)).flatten() {
        Some(number) => Err(Error::NotJson(format!("json: unsupported value: {}", number::shortest(number)))),
        None => Ok(value),
    }
}

/// Returns the first number that JSON cannot represent.
fn not_finite(value: &Value) -> Option<f64> {
    match value {
        Value::Float(number) => (!number.is_finite()).then_some(*number),
        Value::List(items) => items.iter().find_map(not_finite),
        Value::Map(map) => map.entries().values().find_map(not_finite),
        _ => None,
    }
}

pub(super) fn invalid(problem: impl Into<std::borrow::Cow<'static, str>>) -> Error {
    Error::Syntax { line: 0, problem: problem.into() }
}

struct Decoder<'a> {
    document: &'a Document,
    numbers: Numbers,
    most: Most,
    /// The aliases being resolved.
    open: HashSet<NodeId>,
    depth: usize,
    operations: u64,
    from_aliases: u64,
    /// The number of text bytes that aliases repeated.
    repeated: usize,
    /// The first value that JSON cannot represent. yaml.v2 decodes the whole document before sigs.k8s.io/yaml reports it.
    not_json: Option<String>,
    /// Whether the document contains an infinity or NaN, which a duplicate key may have replaced.
    infinite: bool,
}

impl<'a> Decoder<'a> {
    fn new(document: &'a Document, numbers: Numbers, most: Most) -> Decoder<'a> {
        Decoder {
            document,
            numbers,
            most,
            open: HashSet::new(),
            depth: 0,
            operations: 0,
            from_aliases: 0,
            repeated: 0,
            not_json: None,
            infinite: false,
        }
    }

    fn count(&mut self) -> Result<()> {
        self.operations += 1;
        if self.operations > self.most.values as u64 {
            return Err(invalid(format!("exceeded limit MAX_VALUES of {}", self.most.values)));
        }
        if !self.open.is_empty() {
            self.from_aliases += 1;
        }
        let ratio = self.from_aliases as f64 / self.operations as f64;
        if self.from_aliases > 100 && self.operations > 1000 && ratio > allowed_alias_ratio(self.operations as f64) {
            return Err(invalid("document contains excessive aliasing"));
        }
        Ok(())
    }

    /// Counts a text, which is copied each time an alias leads to it.
    fn repeat(&mut self, text: &str) -> Result<()> {
        if !self.open.is_empty() {
            self.repeated = self.repeated.saturating_add(text.len());
        }
        match self.repeated <= self.most.repeated {
            true => Ok(()),
            false => {
                Err(invalid(format!("exceeded limit MAX_REPEATED of {} bytes of aliased text", self.most.repeated)))
            }
        }
    }

    fn value(&mut self, id: NodeId) -> Result<Value> {
        self.count()?;
        let document = self.document;
        match document.node(id) {
            Node::Scalar { value, tag, typing } => {
                self.repeat(value)?;
                self.scalar(value, tag.as_deref(), *typing)
            }
            Node::Alias { name, target } => {
                self.follow(id, name)?;
                let value = self.value(*target);
                self.open.remove(&id);
                value
            }
            Node::Sequence(items) => self.sequence(items),
            Node::Mapping(entries) => self.map(entries),
        }
    }

    fn sequence(&mut self, items: &[NodeId]) -> Result<Value> {
        self.go_deeper()?;
        let mut values = Vec::with_capacity(items.len());
        for item in items {
            values.push(self.value(*item)?);
        }
        self.depth -= 1;
        Ok(Value::list(values))
    }

    fn map(&mut self, entries: &[(NodeId, NodeId)]) -> Result<Value> {
        let mut map = Entries::new();
        self.mapping(entries, &mut map)?;
        Ok(Value::Map(Map::new(MapType::Interface, map)))
    }

    fn go_deeper(&mut self) -> Result<()> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(invalid(format!("exceeded max depth of {MAX_DEPTH}")));
        }
        Ok(())
    }

    fn follow(&mut self, alias: NodeId, name: &str) -> Result<()> {
        self.go_deeper()?;
        self.depth -= 1;
        if !self.open.insert(alias) {
            return Err(invalid(format!("anchor '{name}' value contains itself")));
        }
        Ok(())
    }

    fn mapping(&mut self, entries: &[(NodeId, NodeId)], map: &mut Entries) -> Result<()> {
        self.go_deeper()?;
        let mut refused = None;
        for (key, value) in entries {
            if self.is_merge(*key) {
                self.merge(*value, map)?;
                continue;
            }
            let key = self.key(*key, *value)?;
            let value = self.value(*value)?;
            match key {
                Key::Text(key) => {
                    map.insert(key, value);
                }
                Key::Refused(problem) => refused = Some(problem),
            }
        }
        if self.not_json.is_none() {
            self.not_json = refused;
        }
        self.depth -= 1;
        Ok(())
    }

    fn is_merge(&self, key: NodeId) -> bool {
        match self.document.node(key) {
            Node::Scalar { value, tag, typing } => {
                let is_tagged = tag.as_deref() == Some("tag:yaml.org,2002:merge");
                value == "<<" && (*typing == Typing::Implicit || is_tagged)
            }
            _ => false,
        }
    }

    /// Merges a mapping into the entries, or several mappings, of which the first wins.
    fn merge(&mut self, id: NodeId, map: &mut Entries) -> Result<()> {
        match self.document.node(id) {
            Node::Sequence(items) => items.iter().rev().try_for_each(|item| self.merge_one(*item, map)),
            _ => self.merge_one(id, map),
        }
    }

    fn merge_one(&mut self, id: NodeId, map: &mut Entries) -> Result<()> {
        match self.document.node(id) {
            Node::Mapping(entries) => {
                self.count()?;
                self.mapping(entries, map)
            }
            Node::Alias { name, target } if matches!(self.document.node(*target), Node::Mapping(_)) => {
                self.count()?;
                self.follow(id, name)?;
                let merged = self.merge_one(*target, map);
                self.open.remove(&id);
                merged
            }
            _ => Err(invalid("map merge requires map or sequence of maps as the value")),
        }
    }

    /// Converts a key to its form in JSON.
    fn key(&mut self, key: NodeId, value: NodeId) -> Result<Key> {
        self.count()?;
        let (text, tag, typing) = match self.document.node(key) {
            Node::Scalar { value, tag, typing } => (value, tag.as_deref(), *typing),
            Node::Alias { name, target } => {
                self.follow(key, name)?;
                let found = self.key(*target, value);
                self.open.remove(&key);
                return found;
            }
            _ => {
                self.value(key)?;
                return Err(invalid(format!("invalid map key: {}", go_syntax(self.document, key))));
            }
        };
        self.repeat(text)?;
        let key_text = match resolve_tagged(text, tag, typing)? {
            Resolved::Text(text) => Str::from(text),
            Resolved::Scalar(scalar) => match scalar {
                Scalar::Str | Scalar::Timestamp => Str::from(&**text),
                Scalar::Bool(yes) => Str::from(if yes { "true" } else { "false" }),
                Scalar::Int(number) => Str::from(number.to_string()),
                Scalar::Float(number) => Str::from(float_key(number)),
                Scalar::Null | Scalar::Uint(_) => {
                    let type_name = if scalar == Scalar::Null { "%!s(<nil>)" } else { "uint64" };
                    let (key, value) = (go_syntax(self.document, key), go_syntax(self.document, value));
                    let problem = format!("unsupported map key of type: {type_name}, key: {key}, value: {value}");
                    return Ok(Key::Refused(problem));
                }
            },
        };
        Ok(Key::Text(key_text))
    }

    fn scalar(&mut self, text: &str, tag: Option<&str>, typing: Typing) -> Result<Value> {
        let scalar = match resolve_tagged(text, tag, typing)? {
            Resolved::Text(text) => return Ok(Value::from(text)),
            Resolved::Scalar(scalar) => scalar,
        };
        Ok(match scalar {
            Scalar::Null => Value::Nil,
            Scalar::Bool(yes) => Value::Bool(yes),
            Scalar::Int(number) if self.numbers == Numbers::PreserveInts => Value::int64(number),
            Scalar::Int(number) => Value::Float(number as f64),
            Scalar::Uint(number) => Value::Float(number as f64),
            Scalar::Float(number) => {
                self.infinite |= !number.is_finite();
                self.float(number)
            }
            Scalar::Str | Scalar::Timestamp => Value::from(text),
        })
    }

    /// Converts a float. The intermediate JSON prints whole numbers without a point.
    fn float(&self, value: f64) -> Value {
        let whole = json_float(value).filter(|_| self.numbers == Numbers::PreserveInts);
        whole.and_then(|text| json::integer(&text)).map_or(Value::Float(value), Value::int64)
    }
}

enum Key {
    Text(Str),
    /// JSON cannot represent the key. Holds the error.
    Refused(String),
}

/// The value of a scalar.
pub(super) enum Resolved {
    Scalar(Scalar),
    /// Text that differs from the scalar's own.
    Text(String),
}

/// Resolves a scalar by its tag, or by its form if it has none.
pub(super) fn resolve_tagged(text: &str, tag: Option<&str>, typing: Typing) -> Result<Resolved> {
    let Some(tag) = tag else {
        return Ok(Resolved::Scalar(if typing == Typing::Implicit { resolve(text) } else { Scalar::Str }));
    };
    match tag.strip_prefix(TAG_PREFIX) {
        Some("binary") => decode_binary(text).map(Resolved::Text),
        Some(short @ ("bool" | "int" | "float" | "null" | "timestamp")) => {
            resolve_as(short, text).map(Resolved::Scalar)
        }
        _ => Ok(Resolved::Scalar(Scalar::Str)),
    }
}

/// Resolves a scalar whose tag requires a type.
fn resolve_as(tag: &str, text: &str) -> Result<Scalar> {
    let scalar = resolve_with(text, if tag == "timestamp" { Dates::Recognize } else { Dates::Ignore });
    if scalar.tag().strip_prefix("!!") == Some(tag) {
        return Ok(scalar);
    }
    match scalar {
        Scalar::Int(number) if tag == "float" => Ok(Scalar::Float(number as f64)),
        _ => Err(invalid(format!("cannot decode {} `{text}` as a !!{tag}", scalar.tag()))),
    }
}

fn decode_binary(text: &str) -> Result<String> {
    let compact: String = text.chars().filter(|c| !matches!(c, '\r' | '\n')).collect();
    let bytes = base64::engine::general_purpose::STANDARD
        .decode(compact)
        .map_err(|_| invalid("!!binary value contains invalid base64 data"))?;
    Ok(crate::json::to_utf8(&bytes).into_owned())
}

/// Formats a float key, which sigs.k8s.io/yaml prints with 32 bits.
pub(super) fn float_key(number: f64) -> String {
    match number {
        n if n.is_nan() => ".nan".to_owned(),
        n if (n as f32).is_infinite() => if n > 0.0 { ".inf" } else { "-.inf" }.to_owned(),
        n => number::shortest32(n as f32),
    }
}

fn allowed_alias_ratio(operations: f64) -> f64 {
    let progress = (operations - ALIAS_RATIO_LOW) / (ALIAS_RATIO_HIGH - ALIAS_RATIO_LOW);
    0.99 - 0.89 * progress.clamp(0.0, 1.0)
}
