//! Prints any value with any verb. Counterpart: `printArg` and `printValue` in Go's `fmt/print.go`.

use super::format::Flags;
use super::{append_digits, append_integer, is_short_integer};
use crate::value::{Field, Kind, List, Map, Object, Value};

/// Maximum depth to which values are printed: deeper than real values, and shallow enough for the stack. A map can contain itself.
pub const MAX_DEPTH: usize = 500;

/// Length of the output, in bytes, at which one call stops printing: a map that contains itself twice would double at each level.
pub const MAX_OUTPUT: usize = 16 << 20;

/// The address of every map and function. In Go it differs from run to run.
const ADDRESS: u64 = 0x00c0_0012_0000;

/// Prints values to a buffer.
pub(super) struct Printer<'a> {
    out: &'a mut Vec<u8>,
    limit: usize,
    pub(super) flags: Flags,
    /// Whether the printer is inside `%!verb(…)`, where Go does not call `String` methods.
    erroring: bool,
}

impl<'a> Printer<'a> {
    pub(super) fn new(out: &'a mut Vec<u8>) -> Printer<'a> {
        let limit = out.len().saturating_add(MAX_OUTPUT);
        Printer { out, limit, flags: Flags::default(), erroring: false }
    }

    pub(super) fn bytes(&mut self, bytes: &[u8]) {
        self.out.extend_from_slice(bytes);
    }

    pub(super) fn text(&mut self, text: &str) {
        self.bytes(text.as_bytes());
    }

    pub(super) fn arg(&mut self, value: &Value, verb: char) {
        if self.out.len() > self.limit {
            return;
        }
        match (verb, value) {
            ('T' | 'v', Value::Nil) => self.flags.pad(self.out, b"<nil>"),
            (_, Value::Nil) => self.bad_verb(value, verb),
            ('T', _) => self.flags.string(self.out, value.type_name().as_bytes()),
            ('p', _) => self.pointer(value, verb),
            ('v' | 'd', Value::Bytes(bytes)) => self.byte_slice(bytes, verb, "[]byte", 0),
            ('w', Value::List(_) | Value::Map(_) | Value::Object(_)) => self.bad_verb(value, verb),
            _ => self.value(value, verb, 0),
        }
    }

    fn value(&mut self, value: &Value, verb: char, depth: usize) {
        if self.out.len() > self.limit {
            return;
        }
        if depth > MAX_DEPTH {
            return self.text("%!(DEPTH)");
        }
        match value {
            Value::Nil if self.flags.sharp_v => self.text("interface {}(nil)"),
            Value::Nil => self.text("<nil>"),
            Value::Bool(b) => self.bool(*b, verb),
            Value::Int(v, _) => self.integer(value, i128::from(*v), verb),
            Value::Uint(v, _) => self.integer(value, i128::from(*v), verb),
            Value::Float(v) => self.float(value, *v, verb),
            Value::Complex(re, im) => self.complex(value, *re, *im, verb),
            Value::String(s) => self.string(value, s, verb),
            Value::Bytes(b) => self.byte_slice(b, verb, "[]uint8", depth),
            Value::List(l) => self.list(l, l.ty().name(), verb, depth),
            Value::Map(m) => self.map(m, m.ty().name(), verb, depth),
            Value::Object(o) => self.object(value, o.as_ref(), verb, depth),
            Value::Func(_) => self.pointer(value, verb),
        }
    }

    fn bad_verb(&mut self, value: &Value, verb: char) {
        let erroring = std::mem::replace(&mut self.erroring, true);
        self.text(&format!("%!{verb}("));
        if matches!(value, Value::Nil) {
            self.text("<nil>");
        } else {
            self.text(value.type_name());
            self.text("=");
            self.value(value, 'v', 0);
        }
        self.text(")");
        self.erroring = erroring;
    }

    fn bool(&mut self, b: bool, verb: char) {
        match verb {
            't' | 'v' => self.flags.pad(self.out, if b { b"true" } else { b"false" }),
            _ => self.bad_verb(&Value::Bool(b), verb),
        }
    }

    fn integer(&mut self, value: &Value, number: i128, verb: char) {
        let code = number as u64;
        match verb {
            'v' | 'd' if self.flags.is_default() => append_digits(self.out, number),
            'v' if self.flags.sharp_v && matches!(value, Value::Uint(..)) => self.hex(code, true),
            'v' | 'd' => self.flags.integer(self.out, number, 10, verb),
            'b' => self.flags.integer(self.out, number, 2, verb),
            'o' | 'O' => self.flags.integer(self.out, number, 8, verb),
            'x' | 'X' => self.flags.integer(self.out, number, 16, verb),
            'c' => self.flags.character(self.out, code),
            'q' => self.flags.quoted_character(self.out, code),
            'U' => self.flags.unicode(self.out, code),
            _ => self.bad_verb(value, verb),
        }
    }

    fn hex(&mut self, number: u64, prefix: bool) {
        let flags = Flags { sharp: prefix, ..self.flags.clone() };
        flags.integer(self.out, i128::from(number), 16, 'v');
    }

    fn float(&mut self, value: &Value, v: f64, verb: char) {
        match verb {
            'v' if is_short_integer(v) && self.flags.is_default() => append_integer(self.out, v as i64),
            'v' => self.flags.float(self.out, v, b'g', None),
            'b' | 'g' | 'G' | 'x' | 'X' => self.flags.float(self.out, v, verb as u8, None),
            'f' | 'e' | 'E' => self.flags.float(self.out, v, verb as u8, Some(6)),
            'F' => self.flags.float(self.out, v, b'f', Some(6)),
            _ => self.bad_verb(value, verb),
        }
    }

    fn complex(&mut self, value: &Value, re: f64, im: f64, verb: char) {
        if !matches!(verb, 'v' | 'b' | 'g' | 'G' | 'x' | 'X' | 'f' | 'F' | 'e' | 'E') {
            return self.bad_verb(value, verb);
        }
        self.text("(");
        self.float(value, re, verb);
        let plus = std::mem::replace(&mut self.flags.plus, true);
        self.float(value, im, verb);
        self.flags.plus = plus;
        self.text("i)");
    }

    fn string(&mut self, value: &Value, s: &[u8], verb: char) {
        match verb {
            'v' if self.flags.sharp_v => self.flags.quoted(self.out, s),
            'v' | 's' => self.flags.string(self.out, s),
            'x' | 'X' => self.flags.hex_bytes(self.out, s, verb),
            'q' => self.flags.quoted(self.out, s),
            _ => self.bad_verb(value, verb),
        }
    }

    fn byte_slice(&mut self, bytes: &[u8], verb: char, type_name: &str, depth: usize) {
        match verb {
            's' => return self.flags.string(self.out, bytes),
            'x' | 'X' => return self.flags.hex_bytes(self.out, bytes, verb),
            'q' => return self.flags.quoted(self.out, bytes),
            _ => {}
        }
        let go_syntax = self.flags.sharp_v;
        self.text(if go_syntax { type_name } else { "" });
        self.text(if go_syntax { "{" } else { "[" });
        for (i, byte) in bytes.iter().enumerate() {
            self.separator(i);
            let item = Value::Uint(u64::from(*byte), crate::value::UintType::Uint8);
            self.value(&item, verb, depth + 1);
        }
        self.text(if go_syntax { "}" } else { "]" });
    }

    fn separator(&mut self, index: usize) {
        if index > 0 {
            self.text(if self.flags.sharp_v { ", " } else { " " });
        }
    }

    fn list(&mut self, list: &List, type_name: &str, verb: char, depth: usize) {
        let go_syntax = self.flags.sharp_v;
        self.text(if go_syntax { type_name } else { "" });
        if go_syntax && list.is_nil() {
            return self.text("(nil)");
        }
        self.text(if go_syntax { "{" } else { "[" });
        for (i, item) in list.iter().enumerate() {
            self.separator(i);
            self.value(item, verb, depth + 1);
        }
        self.text(if go_syntax { "}" } else { "]" });
    }

    fn map(&mut self, map: &Map, type_name: &str, verb: char, depth: usize) {
        let go_syntax = self.flags.sharp_v;
        self.text(if go_syntax { type_name } else { "map" });
        if go_syntax && map.is_nil() {
            return self.text("(nil)");
        }
        self.text(if go_syntax { "{" } else { "[" });
        for (i, (key, item)) in map.snapshot().into_iter().enumerate() {
            self.separator(i);
            self.value(&Value::String(key), verb, depth + 1);
            self.text(":");
            self.value(&item, verb, depth + 1);
        }
        self.text(if go_syntax { "}" } else { "]" });
    }

    fn object(&mut self, value: &Value, object: &dyn Object, verb: char, depth: usize) {
        if self.flags.sharp_v
            && !self.erroring
            && let Some(text) = object.go_syntax()
        {
            return self.flags.string(self.out, &text);
        }
        let stringable = matches!(verb, 'v' | 's' | 'x' | 'X' | 'q') && !self.erroring && !self.flags.sharp_v;
        if let Some(text) = stringable.then(|| object.display()).flatten() {
            return self.string(value, &text, verb);
        }
        let fields = object.fields();
        match object.kind() {
            Kind::Ptr if depth == 0 && !fields.is_empty() => {
                self.text("&");
                self.structure(object.type_name().trim_start_matches('*'), &fields, verb, depth + 1);
            }
            Kind::Ptr | Kind::Func => self.pointer(value, verb),
            _ if fields.is_empty() => match object.data() {
                Value::List(list) => self.list(&list, object.type_name(), verb, depth + 1),
                Value::Map(map) => self.map(&map, object.type_name(), verb, depth + 1),
                data => self.value(&data, verb, depth + 1),
            },
            _ => self.structure(object.type_name(), &fields, verb, depth),
        }
    }

    fn structure(&mut self, type_name: &str, fields: &[Field], verb: char, depth: usize) {
        self.text(if self.flags.sharp_v { type_name } else { "" });
        self.text("{");
        for (i, field) in fields.iter().enumerate() {
            self.separator(i);
            if self.flags.plus_v || self.flags.sharp_v {
                self.text(field.name);
                self.text(":");
            }
            self.value(&field.value, verb, depth + 1);
        }
        self.text("}");
    }

    fn pointer(&mut self, value: &Value, verb: char) {
        if !matches!(value.kind(), Kind::Func | Kind::Map | Kind::Ptr | Kind::Slice) {
            return self.bad_verb(value, verb);
        }
        match verb {
            'v' if self.flags.sharp_v => {
                self.text(&format!("({})(", value.type_name()));
                self.hex(ADDRESS, true);
                self.text(")");
            }
            'v' | 'p' => self.hex(ADDRESS, !self.flags.sharp),
            'b' | 'o' | 'd' | 'x' | 'X' => self.integer(value, i128::from(ADDRESS), verb),
            _ => self.bad_verb(value, verb),
        }
    }
}
