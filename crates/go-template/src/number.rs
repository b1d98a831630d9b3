//! Number constants, in every type that can represent them. Counterpart: `newNumber` in Go's `text/template/parse/node.go`.

use crate::item::ItemType;
use crate::node::{NumberNode, Pos};
use crate::value::{Str, Value};
use golibs::strconv::{parse_float, parse_int, parse_uint, quote, unquote_char};

/// Text that is not a valid number, in Go's words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NumberError {
    /// A character constant has an invalid escape sequence.
    #[error("invalid syntax")]
    InvalidChar,
    /// A character constant consists of several characters. Holds its source.
    #[error("malformed character constant: {0}")]
    MalformedChar(Str),
    /// A complex number lacks digits on one side.
    #[error("syntax error scanning complex number")]
    Complex,
    /// A part of a complex number is not a number. Holds the part.
    #[error("strconv.ParseFloat: parsing {}: invalid syntax", quote(.0.as_bytes()))]
    ComplexPart(String),
    /// The text is neither an integer nor a floating-point number.
    #[error("illegal number syntax: {}", quote(.0.as_bytes()))]
    IllegalSyntax(String),
    /// An integer exceeds 64 bits.
    #[error("integer overflow: {}", quote(.0.as_bytes()))]
    Overflow(String),
}

pub(crate) fn new_number(pos: Pos, text: &[u8], typ: ItemType) -> Result<NumberNode, NumberError> {
    let node = NumberNode { pos, text: text.into(), ..NumberNode::default() };
    match typ {
        ItemType::CharConstant => char_constant(node),
        ItemType::Complex => complex(node),
        _ => number(node),
    }
}

fn char_constant(mut node: NumberNode) -> Result<NumberNode, NumberError> {
    let (value, tail) = unquote_char(&node.text[1..], b'\'').ok_or(NumberError::InvalidChar)?;
    if tail != b"'" {
        return Err(NumberError::MalformedChar(node.text));
    }
    let code = value.code();
    node.int = Some(i64::from(code));
    node.uint = Some(u64::from(code));
    node.float = Some(f64::from(code));
    Ok(node)
}

/// Parses a complex number such as `1+2i`.
fn complex(mut node: NumberNode) -> Result<NumberNode, NumberError> {
    let text = node.text.to_text().into_owned();
    let inner = text.strip_suffix('i').unwrap_or(&text);
    let at = imaginary_sign(inner).ok_or(NumberError::Complex)?;
    node.complex = Some((float_part(&inner[..at])?, float_part(&inner[at..])?));
    simplify_complex(&mut node);
    Ok(node)
}

fn float_part(text: &str) -> Result<f64, NumberError> {
    if !text.contains(|c: char| c.is_ascii_digit()) {
        return Err(NumberError::Complex);
    }
    parse_float(text.as_bytes()).map_err(|_| NumberError::ComplexPart(text.to_owned()))
}

/// Returns where the imaginary part starts: at the last sign that is not part of an exponent.
fn imaginary_sign(text: &str) -> Option<usize> {
    let hex = text.contains(['x', 'X']);
    let bytes = text.as_bytes();
    let of_exponent = |b: u8| matches!(b, b'p' | b'P') || !hex && matches!(b, b'e' | b'E');
    (1..bytes.len()).rev().find(|i| matches!(bytes[*i], b'+' | b'-') && !of_exponent(bytes[i - 1]))
}

fn number(mut node: NumberNode) -> Result<NumberNode, NumberError> {
    let text = node.text.to_text().into_owned();
    if let Some(imaginary) = text.strip_suffix('i').and_then(|text| parse_float(text.as_bytes()).ok()) {
        node.complex = Some((0.0, imaginary));
        simplify_complex(&mut node);
        return Ok(node);
    }
    node.uint = parse_uint(text.as_bytes(), 0).ok();
    node.int = parse_int(text.as_bytes(), 0).ok();
    if node.int == Some(0) {
        node.uint = Some(0);
    }
    match (node.int, node.uint) {
        (Some(v), _) => node.float = Some(v as f64),
        (None, Some(v)) => node.float = Some(v as f64),
        (None, None) => float(&mut node, &text)?,
    }
    Ok(node)
}

fn float(node: &mut NumberNode, text: &str) -> Result<(), NumberError> {
    let Ok(value) = parse_float(text.as_bytes()) else {
        return Err(NumberError::IllegalSyntax(text.to_owned()));
    };
    if !text.contains(['.', 'e', 'E', 'p', 'P']) {
        return Err(NumberError::Overflow(text.to_owned()));
    }
    hold_float(node, value);
    Ok(())
}

fn hold_float(node: &mut NumberNode, value: f64) {
    node.float = Some(value);
    let integral = value.fract() == 0.0;
    node.int = (integral && (-TWO_63..TWO_63).contains(&value)).then_some(value as i64);
    node.uint = (integral && (0.0..2.0 * TWO_63).contains(&value)).then_some(value as u64);
}

const TWO_63: f64 = 9_223_372_036_854_775_808.0;

/// Sets the float of a complex number without an imaginary part, and its integer where possible.
fn simplify_complex(node: &mut NumberNode) {
    if let Some((real, 0.0)) = node.complex {
        hold_float(node, real);
    }
}

impl NumberNode {
    /// Returns the value where no type is expected, whose type follows from the syntax. `None` if it is too large for an `int`.
    pub(crate) fn ideal(&self) -> Option<Value> {
        if let Some((re, im)) = self.complex {
            return Some(Value::Complex(re, im));
        }
        match self.float {
            Some(v) if self.is_float_syntax() => Some(Value::Float(v)),
            _ => self.int.map(Value::int),
        }
    }

    fn is_float_syntax(&self) -> bool {
        let has = |set: &[u8]| self.text.iter().any(|b| set.contains(b));
        let hex_int = self.text.len() > 2 && matches!(&self.text[..2], b"0x" | b"0X") && !has(b"pP");
        !hex_int && !self.text.starts_with(b"'") && has(b".eEpP")
    }
}
