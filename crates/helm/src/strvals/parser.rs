//! Parses names and indexes, and sets the values.

use go_template::{List, ListType, Map, Str, Value};
use golibs::strconv::{parse_int, quote_rune};
use serde_json::Value as Json;

use super::scan::Scanner;
use super::{Error, MAX_INDEX, MAX_NESTED_LISTS, MAX_NESTED_NAME_LEVEL, Reader, Result};

/// The way to convert a text to a value.
#[derive(Clone, Copy)]
pub(super) enum Mode<'a> {
    Typed,
    Text,
    Json,
    Literal,
    Read(&'a Reader<'a>),
}

/// Whether more text may follow.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Next {
    More,
    End,
}

pub(super) struct Parser<'a> {
    scanner: Scanner<'a>,
    mode: Mode<'a>,
    /// The number of lists that contain the current item.
    lists: usize,
}

impl<'a> Parser<'a> {
    pub(super) fn new(text: &'a str, mode: Mode<'a>) -> Parser<'a> {
        let scanner = if matches!(mode, Mode::Literal) { Scanner::literal(text) } else { Scanner::new(text) };
        Parser { scanner, mode, lists: 0 }
    }

    pub(super) fn parse(&mut self, into: &Map) -> Result {
        while self.key(into, 0)? == Next::More {}
        Ok(())
    }

    fn key(&mut self, into: &Map, level: usize) -> Result<Next> {
        let signs: &[char] = if matches!(self.mode, Mode::Literal) { &['=', '[', '.'] } else { &['=', '[', ',', '.'] };
        let (name, sign) = self.scanner.until(signs);
        match sign {
            None if name.is_empty() => Ok(Next::End),
            None => Err(Error::NoValue(name)),
            Some('[') => self.list_below(into, &name, level),
            Some('=') => {
                let (value, next) = self.value()?;
                set(into, &name, value);
                Ok(next)
            }
            Some('.') => self.table_below(into, name, level + 1),
            Some(_) => {
                set(into, &name, "".into());
                Err(Error::EndsWithComma(name))
            }
        }
    }

    fn table_below(&mut self, into: &Map, name: String, level: usize) -> Result<Next> {
        if level > MAX_NESTED_NAME_LEVEL {
            return Err(Error::TooDeep);
        }
        let inner = match into.get(&name) {
            None => Map::default(),
            Some(Value::Map(inner)) => inner,
            Some(other) => return Err(Error::wrong_type(&other, "map[string]interface {}")),
        };
        let next = self.key(&inner, level);
        if inner.is_empty() && matches!(next, Ok(Next::More)) {
            return Err(Error::EmptyTable(name));
        }
        if !inner.is_empty() {
            set(into, &name, inner.into());
        }
        next
    }

    fn list_below(&mut self, into: &Map, name: &str, level: usize) -> Result<Next> {
        let Some(index) = self.index()? else { return Ok(Next::End) };
        let mut items = match into.get(name) {
            None => Vec::new(),
            Some(Value::List(list)) => list.to_vec(),
            Some(other) => return Err(Error::wrong_type(&other, "[]interface {}")),
        };
        let next = self.item(&mut items, index, level);
        set(into, name, Value::list(items));
        next
    }

    /// Parses the number before `]`, or returns `None` if the text ends first, where Helm stops without an error.
    fn index(&mut self) -> Result<Option<i64>> {
        let (text, sign) = self.scanner.until(&[']']);
        if sign.is_none() {
            return Ok(None);
        }
        parse_int(text.as_bytes(), 10).map(Some).map_err(|reason| Error::Index(text, reason))
    }

    fn item(&mut self, items: &mut Vec<Value>, index: i64, level: usize) -> Result<Next> {
        if self.lists == MAX_NESTED_LISTS {
            return Err(Error::ListsTooDeep);
        }
        self.lists += 1;
        let next = self.after_index(items, index, level);
        self.lists -= 1;
        next
    }

    fn after_index(&mut self, items: &mut Vec<Value>, index: i64, level: usize) -> Result<Next> {
        let place = usize::try_from(index).map_err(|_| Error::NegativeIndex(index))?;
        let (text, sign) = self.scanner.until(&['[', '.', '=']);
        if !text.is_empty() {
            return Err(Error::AfterIndex(runes(&text)));
        }
        match sign {
            None => Ok(Next::End),
            Some('=') => {
                let (value, _) = self.value()?;
                set_index(items, place, value)?;
                Ok(Next::More)
            }
            Some('[') => self.item_of_item(items, place, level),
            Some(_) => self.table_in_item(items, place, level),
        }
    }

    fn item_of_item(&mut self, items: &mut Vec<Value>, place: usize, level: usize) -> Result<Next> {
        let Some(index) = self.index()? else { return Ok(Next::End) };
        let mut inner = match items.get(place) {
            None | Some(Value::Nil) => Vec::new(),
            Some(Value::List(list)) => list.to_vec(),
            Some(other) => return Err(Error::wrong_type(other, "[]interface {}")),
        };
        let next = self.item(&mut inner, index, level)?;
        if next == Next::More {
            set_index(items, place, Value::list(inner))?;
        }
        Ok(next)
    }

    fn table_in_item(&mut self, items: &mut Vec<Value>, place: usize, level: usize) -> Result<Next> {
        let inner = match items.get_mut(place) {
            Some(Value::Map(inner)) => inner.clone(),
            // Helm replaces the existing value even if nothing follows.
            Some(other) => {
                let inner = Map::default();
                *other = inner.clone().into();
                inner
            }
            None => Map::default(),
        };
        let next = self.key(&inner, level)?;
        if next == Next::More {
            set_index(items, place, inner.into())?;
        }
        Ok(next)
    }

    /// Parses the value after `=`; also returns whether more text may follow.
    fn value(&mut self) -> Result<(Value, Next)> {
        match self.mode {
            Mode::Json => Ok((self.json_value()?, Next::More)),
            Mode::Literal => Ok((self.scanner.until(&[]).0.into(), Next::More)),
            _ if self.scanner.is_at_end() => Ok(("".into(), Next::End)),
            _ if self.scanner.take('{') => Ok((self.braces()?, Next::More)),
            _ => {
                let (text, _) = self.scanner.until(&[',']);
                Ok((self.scalar(text)?, Next::More))
            }
        }
    }

    fn json_value(&mut self) -> Result<Value> {
        if self.scanner.is_empty_value() {
            return Ok(Value::Nil);
        }
        let value = from_json(&self.scanner.json()?);
        self.scanner.is_empty_value();
        Ok(value)
    }

    /// Parses the items of `{a,b}`, after the opening brace.
    fn braces(&mut self) -> Result<Value> {
        let mut items = Vec::new();
        loop {
            let (text, sign) = self.scanner.until(&[',', '}']);
            if sign.is_none() {
                return Err(Error::OpenList);
            }
            if sign == Some('}') {
                self.scanner.take(',');
            }
            items.push(self.scalar(text)?);
            if sign == Some('}') {
                return Ok(Value::list(items));
            }
        }
    }

    fn scalar(&self, text: String) -> Result<Value> {
        match self.mode {
            Mode::Typed => Ok(typed(text)),
            Mode::Read(read) => read(&text).map_err(|error| Error::Read(error.to_string())),
            _ => Ok(text.into()),
        }
    }
}

/// Sets a value. An empty name sets nothing.
fn set(into: &Map, name: &str, value: Value) {
    if !name.is_empty() {
        into.insert(name, value);
    }
}

fn set_index(items: &mut Vec<Value>, place: usize, value: Value) -> Result {
    let index = i64::try_from(place).unwrap_or(i64::MAX);
    if index > MAX_INDEX {
        return Err(Error::IndexTooLarge(index));
    }
    if items.len() <= place {
        items.resize(place + 1, Value::Nil);
    }
    items[place] = value;
    Ok(())
}

/// Converts a text to a typed value. A number that starts with 0 stays a string, such as `007`. Counterpart: Helm's `typedVal`.
fn typed(text: String) -> Value {
    // Go's EqualFold treats the long s as an s.
    let folded = text.to_ascii_lowercase().replace('ſ', "s");
    match folded.as_str() {
        "true" => return true.into(),
        "false" => return false.into(),
        "null" => return Value::Nil,
        "0" => return Value::int64(0),
        _ => {}
    }
    match text.parse::<i64>() {
        Ok(number) if !text.starts_with('0') => Value::int64(number),
        _ => text.into(),
    }
}

/// Formats the characters like Go's `%q` of a slice of runes.
fn runes(text: &str) -> String {
    format!("[{}]", text.chars().map(quote_rune).collect::<Vec<_>>().join(" "))
}

/// Converts JSON like `encoding/json` decodes into an empty interface: every number becomes a float.
fn from_json(json: &Json) -> Value {
    match json {
        Json::Null => Value::Nil,
        Json::Bool(flag) => Value::Bool(*flag),
        Json::Number(number) => Value::Float(number.as_f64().unwrap_or_default()),
        Json::String(text) => Value::String(Str::from(text.as_str())),
        Json::Array(items) => Value::List(List::new(ListType::Interface, items.iter().map(from_json).collect())),
        Json::Object(entries) => {
            Value::Map(entries.iter().map(|(key, value)| (key.as_str(), from_json(value))).collect())
        }
    }
}
