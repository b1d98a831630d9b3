//! Decodes a TOML document into a map. Counterpart: BurntSushi/toml's `Unmarshal` into `map[string]any`.

use go_template::{Map, Value};
use golibs::strconv::quote;

use super::MAX_DEPTH;
use super::error::{Error, Located, Problem, Result};
use super::lex::{Lexer, Scalar, quote_char};
use super::number;
use super::table::{Header, Tables};

/// Decodes a document. Integers become `int64`, arrays of tables `[]map[string]interface {}`.
///
/// # Errors
/// The document is not valid TOML, or nests deeper than [`MAX_DEPTH`].
///
/// ```
/// use go_encoding::toml::decode;
///
/// let document = decode(b"port = 8080")?;
/// assert_eq!(document.get("port").map(|port| port.type_name().to_owned()).as_deref(), Some("int64"));
/// # Ok::<(), go_encoding::toml::Error>(())
/// ```
pub fn decode(text: &[u8]) -> Result<Map, Error> {
    let mut decoder = Decoder { lexer: Lexer::new(text), tables: Tables::default(), line: 1, depth: 0 };
    match decoder.document() {
        Ok(()) => Ok(decoder.tables.into_map()),
        Err(error) => Err(Error::new(error, decoder.tables.last_key())),
    }
}

/// The context in which a value occurs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Context {
    Key,
    Array,
}

/// Whether a value is a plain array, which tables cannot extend.
#[derive(Clone, Copy)]
enum Kind {
    Array,
    Other,
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
                    return Err(
                        self.unexpected("a top-level item to end with a newline, comment, or EOF", quote_char(c))
                    );
                }
            }
        }
    }

    fn unexpected(&self, expected: &'static str, found: String) -> Located {
        self.lexer.fail(Problem::Expected { expected, found })
    }

    /// Reports a conflict with another key, on the line of this key.
    fn define(&self, result: Result<(), Problem>) -> Result<()> {
        result.map_err(|problem| Located { line: self.line, problem })
    }

    /// Parses `[key]` or `[[key]]`, after the first bracket.
    fn table(&mut self) -> Result<()> {
        let header = if self.lexer.accept('[')? { Header::ArrayItem } else { Header::Table };
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
                    return Err(self.unexpected("'.' or ']' to end table name", quote_char(c)));
                }
            }
        }
        if header == Header::ArrayItem {
            let c = self.lexer.next()?;
            if c != Some(']') {
                return Err(self.unexpected("end of table array name delimiter ']'", quote_char(c)));
            }
        }
        let entered = self.tables.enter(&key, header);
        self.define(entered)?;
        let unmarked = self.tables.unmark_array("");
        self.define(unmarked)
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

    /// Parses `key = value`; a dotted key creates the tables on its path.
    fn key_value(&mut self) -> Result<()> {
        let outer = self.tables.context.clone();
        let key = self.key()?;
        self.enter_parents(key)?;
        let (value, kind) = self.value(Context::Key)?;
        let name = self.tables.key.clone();
        let set = self.tables.set_value(&name, value);
        self.define(set)?;
        self.mark(&name, kind)?;
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
                    return Err(self.lexer.fail_on_previous_line(Problem::Expected {
                        expected: "'.' or '='",
                        found: "'\\n'".to_owned(),
                    }));
                }
                c => return Err(self.unexpected("'.' or '='", quote_char(c))),
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

    fn mark(&mut self, name: &str, kind: Kind) -> Result<()> {
        let marked = match kind {
            Kind::Array => self.tables.mark_array(name),
            Kind::Other => self.tables.unmark_array(name),
        };
        self.define(marked)
    }

    fn value(&mut self, place: Context) -> Result<(Value, Kind)> {
        self.lexer.skip_blanks()?;
        match self.lexer.next()? {
            Some('[') => self.nested(Self::array).map(|value| (value, Kind::Array)),
            Some('{') => self.nested(|this| this.inline_table(place)).map(|value| (value, Kind::Other)),
            _ => {
                self.lexer.back();
                self.scalar().map(|value| (value, Kind::Other))
            }
        }
    }

    fn nested(&mut self, read: impl FnOnce(&mut Self) -> Result<Value>) -> Result<Value> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(self.lexer.fail(Problem::TooDeep));
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
        value.map_err(|problem| Located { line: self.lexer.line, problem })
    }

    fn array(&mut self) -> Result<Value> {
        let key = self.tables.key.clone();
        let marked = self.tables.mark_array(&key);
        self.define(marked)?;
        let mut items = Vec::new();
        let mut comma = true;
        loop {
            match self.lexer.next()? {
                Some(' ' | '\t' | '\r' | '\n') => {}
                Some('#') => self.lexer.skip_comment()?,
                Some(']') => return Ok(Value::list(items)),
                Some(',') if comma => return Err(self.lexer.fail("unexpected comma")),
                Some(',') => comma = true,
                c if !comma => return Err(self.lexer.fail(Problem::ArraySeparator(found(c)))),
                _ => {
                    self.lexer.back();
                    items.push(self.value(Context::Array)?.0);
                    comma = false;
                }
            }
        }
    }

    fn inline_table(&mut self, place: Context) -> Result<Value> {
        let (outer, key) = (self.tables.context.clone(), self.tables.key.clone());
        let entered = self.tables.enter_inline(if place == Context::Array { Header::ArrayItem } else { Header::Table });
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
                    // A closing brace may follow, but not a second comma.
                    comma = self.lexer.peek()? != Some('}');
                }
                c if !comma => {
                    return Err(self.unexpected("a comma or an inline table terminator '}'", found(c)));
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
        let (value, kind) = self.value(Context::Key)?;
        let name = self.tables.key.clone();
        let set = self.tables.set_value(&name, value.clone());
        self.define(set)?;
        self.mark(&name, kind)?;
        let mut table = table.clone();
        for part in &parents[..parents.len() - 1] {
            let below = table.get(part.as_bytes()).unwrap_or_else(|| Value::Map(Map::default()));
            let Value::Map(below) = below else {
                let context: Vec<String> = self.tables.context.iter().map(quote).collect();
                return Err(Located { line: self.line, problem: Problem::NotATable(context.join(" ")) });
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
