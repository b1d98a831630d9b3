//! Reads TOML as BurntSushi/toml's `Unmarshal` into a map, with its errors.

use go_template::{Map, Value};

use golibs::strconv::quote;

use super::MAX_DEPTH;
use super::lex::{Lexer, Problem, Result, Scalar, quote_char};
use super::number;
use super::table::Tables;

/// Why a text could not be read. The text is BurntSushi/toml's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("toml: line {line}{}: {message}", last_key_text(.last_key))]
pub struct Error {
    line: usize,
    last_key: String,
    message: String,
}

fn last_key_text(key: &str) -> String {
    if key.is_empty() { String::new() } else { format!(" (last key {})", quote(key)) }
}

/// The document as a map: integers are `int64`, arrays of tables `[]map[string]interface {}`.
pub fn decode(text: &[u8]) -> std::result::Result<Map, Error> {
    let mut decoder = Decoder { lexer: Lexer::new(text), tables: Tables::default(), line: 1, depth: 0 };
    match decoder.document() {
        Ok(()) => Ok(decoder.tables.into_map()),
        Err(Problem { line, message }) => Err(Error { line, last_key: decoder.tables.last_key(), message }),
    }
}

struct Decoder<'a> {
    lexer: Lexer<'a>,
    tables: Tables,
    /// The line of the last key.
    line: usize,
    depth: usize,
}

impl Decoder<'_> {
    fn document(&mut self) -> Result<()> {
        if self.lexer.begins_with_nul() {
            let problem = "files cannot contain NULL bytes; probably using UTF-16; TOML files must be UTF-8";
            return Err(self.lexer.fail(problem));
        }
        loop {
            match self.lexer.next()? {
                Some(' ' | '\t' | '\r' | '\n') => {}
                Some('#') => self.lexer.skip_comment()?,
                Some('[') => {
                    self.table()?;
                    self.line_end()?;
                }
                None => return Ok(()),
                Some(_) => {
                    self.lexer.back();
                    self.key_value()?;
                    self.line_end()?;
                }
            }
        }
    }

    fn line_end(&mut self) -> Result<()> {
        loop {
            match self.lexer.next()? {
                Some(' ' | '\t') => {}
                Some('#') => return self.lexer.skip_comment(),
                None | Some('\n' | '\r') => return Ok(()),
                c => {
                    let c = quote_char(c);
                    let expected = "expected a top-level item to end with a newline, comment, or EOF";
                    return Err(self.lexer.fail(format!("{expected}, but got {c} instead")));
                }
            }
        }
    }

    /// What the tables refuse is reported on the line of the key.
    fn define(&self, result: std::result::Result<(), String>) -> Result<()> {
        result.map_err(|message| Problem { line: self.line, message })
    }

    /// `[key]` or `[[key]]` behind its first bracket.
    fn table(&mut self) -> Result<()> {
        let array = self.lexer.accept('[')?;
        let mut key = Vec::new();
        loop {
            key.push(self.table_name()?);
            if key.len() == 1 {
                self.line = self.lexer.line;
            }
            self.lexer.skip_blanks()?;
            match self.lexer.next()? {
                Some('.') => {}
                Some(']') => break,
                c => {
                    let c = quote_char(c);
                    return Err(self.lexer.fail(format!("expected '.' or ']' to end table name, but got {c} instead")));
                }
            }
        }
        if array {
            let c = self.lexer.next()?;
            if c != Some(']') {
                let c = quote_char(c);
                let problem = format!("expected end of table array name delimiter ']', but got {c} instead");
                return Err(self.lexer.fail(problem));
            }
        }
        let entered = self.tables.enter(&key, array);
        self.define(entered)?;
        self.tables.set_type("", false);
        Ok(())
    }

    fn table_name(&mut self) -> Result<String> {
        self.lexer.skip_blanks()?;
        match self.lexer.peek()? {
            Some(']') | None => Err(self.lexer.fail("unexpected end of table name (table names cannot be empty)")),
            Some('.') => Err(self.lexer.fail("unexpected table separator (table names cannot be empty)")),
            Some('"' | '\'') => self.lexer.quoted_name(),
            Some(_) => self.lexer.bare_name(),
        }
    }

    /// `key = value`; keys with dots make tables on the way.
    fn key_value(&mut self) -> Result<()> {
        let outer = self.tables.context.clone();
        let key = self.key()?;
        self.enter_parents(key)?;
        let (value, array) = self.value(false)?;
        let name = self.tables.key.clone();
        let set = self.tables.set_value(&name, value);
        self.define(set)?;
        self.tables.set_type(&name, array);
        self.tables.context = outer;
        self.tables.key.clear();
        Ok(())
    }

    fn enter_parents(&mut self, mut key: Vec<String>) -> Result<()> {
        self.tables.key = key.pop().unwrap_or_default();
        for part in key {
            let entered = self.tables.enter_implicit(&part);
            self.define(entered)?;
        }
        Ok(())
    }

    fn key(&mut self) -> Result<Vec<String>> {
        self.lexer.skip_blanks()?;
        match self.lexer.peek()? {
            Some('=') | None => return Err(self.lexer.fail("unexpected '=': key name appears blank")),
            Some('.') => return Err(self.lexer.fail("unexpected '.': keys cannot start with a '.'")),
            Some(_) => {}
        }
        let mut key = Vec::new();
        loop {
            key.push(self.key_name()?);
            if key.len() == 1 {
                self.line = self.lexer.line;
            }
            self.lexer.skip_blanks()?;
            match self.lexer.next()? {
                Some('.') => {}
                Some('=') => return Ok(key),
                None => return Err(self.lexer.fail("unexpected EOF; expected key separator '='")),
                Some('\n') => {
                    return Err(self.lexer.fail_on_line_before("expected '.' or '=', but got '\\n' instead"));
                }
                c => {
                    let c = quote_char(c);
                    return Err(self.lexer.fail(format!("expected '.' or '=', but got {c} instead")));
                }
            }
        }
    }

    fn key_name(&mut self) -> Result<String> {
        self.lexer.skip_blanks()?;
        match self.lexer.peek()? {
            Some('"' | '\'') => self.lexer.quoted_name(),
            Some('=') | None => Err(self.lexer.fail("unexpected '='")),
            Some('.') => Err(self.lexer.fail("unexpected '.'")),
            Some(_) => self.lexer.bare_name(),
        }
    }

    /// A value, and whether it is a plain array.
    fn value(&mut self, in_array: bool) -> Result<(Value, bool)> {
        self.lexer.skip_blanks()?;
        match self.lexer.next()? {
            Some('[') => self.nested(Self::array).map(|value| (value, true)),
            Some('{') if in_array => self.nested(|this| this.inline_table(true)).map(|value| (value, false)),
            Some('{') => self.nested(|this| this.inline_table(false)).map(|value| (value, false)),
            _ => {
                self.lexer.back();
                self.scalar().map(|value| (value, false))
            }
        }
    }

    fn nested(&mut self, read: impl FnOnce(&mut Self) -> Result<Value>) -> Result<Value> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(self.lexer.fail(format!("exceeded max depth of {MAX_DEPTH}")));
        }
        let value = read(self);
        self.depth -= 1;
        value
    }

    fn scalar(&mut self) -> Result<Value> {
        let value = match self.lexer.scalar()? {
            Scalar::Text(text) => Ok(Value::from(text)),
            Scalar::Bool(yes) => Ok(Value::Bool(yes)),
            Scalar::Integer(text) => number::integer(&text),
            Scalar::Float(text) => number::float(&text),
            Scalar::Datetime(text) => number::datetime(&text),
        };
        value.map_err(|message| Problem { line: self.lexer.line, message })
    }

    fn array(&mut self) -> Result<Value> {
        let key = self.tables.key.clone();
        self.tables.set_type(&key, true);
        let mut items = Vec::new();
        let mut comma = true;
        loop {
            match self.lexer.next()? {
                Some(' ' | '\t' | '\r' | '\n') => {}
                Some('#') => self.lexer.skip_comment()?,
                Some(']') => return Ok(Value::list(items)),
                Some(',') if comma => return Err(self.lexer.fail("unexpected comma")),
                Some(',') => comma = true,
                c if !comma => {
                    let found = found(c);
                    let expected = "expected a comma (',') or array terminator (']')";
                    return Err(self.lexer.fail(format!("{expected}, but got {found}")));
                }
                _ => {
                    self.lexer.back();
                    items.push(self.value(true)?.0);
                    comma = false;
                }
            }
        }
    }

    fn inline_table(&mut self, in_array: bool) -> Result<Value> {
        let (outer, key) = (self.tables.context.clone(), self.tables.key.clone());
        let entered = self.tables.enter_inline(in_array);
        self.define(entered)?;
        let inside = self.tables.context.clone();
        let table = Map::default();
        let mut comma = true;
        loop {
            match self.lexer.next()? {
                Some(' ' | '\t' | '\r' | '\n') => {}
                Some('#') => self.lexer.skip_comment()?,
                Some('}') => break,
                Some(',') if comma => return Err(self.lexer.fail("unexpected comma")),
                Some(',') => {
                    self.lexer.skip_blanks()?;
                    // A brace right behind it is still the end, and so is a comma an item's.
                    comma = self.lexer.peek()? != Some('}');
                }
                c if !comma => {
                    let found = found(c);
                    let expected = "expected a comma or an inline table terminator '}'";
                    return Err(self.lexer.fail(format!("{expected}, but got {found} instead")));
                }
                _ => {
                    self.lexer.back();
                    self.inline_entry(&table)?;
                    self.tables.context.clone_from(&inside);
                    comma = false;
                }
            }
        }
        (self.tables.context, self.tables.key) = (outer, key);
        Ok(Value::Map(table))
    }

    fn inline_entry(&mut self, table: &Map) -> Result<()> {
        let key = self.key()?;
        let parents = key.clone();
        self.enter_parents(key)?;
        let (value, array) = self.value(false)?;
        let name = self.tables.key.clone();
        let set = self.tables.set_value(&name, value.clone());
        self.define(set)?;
        self.tables.set_type(&name, array);
        let mut table = table.clone();
        for part in &parents[..parents.len() - 1] {
            let below = table.get(part.as_bytes()).unwrap_or_else(|| Value::Map(Map::default()));
            let Value::Map(below) = below else {
                let context: Vec<String> = self.tables.context.iter().map(quote).collect();
                let message = format!("[{}] is not a table", context.join(" "));
                return Err(Problem { line: self.line, message });
            };
            table.insert(part.as_str(), below.clone());
            table = below;
        }
        table.insert(name.as_str(), value);
        Ok(())
    }
}

fn found(c: Option<char>) -> String {
    c.map_or_else(|| "end of file".to_owned(), |c| format!("'{c}'"))
}
