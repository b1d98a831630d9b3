//! Reads and writes the parts of DER that keys and certificates need.

pub(super) mod tag {
    pub(crate) const INTEGER: u8 = 0x02;
    pub(crate) const BIT_STRING: u8 = 0x03;
    pub(crate) const OCTET_STRING: u8 = 0x04;
    pub(crate) const OID: u8 = 0x06;
    pub(crate) const UTF8_STRING: u8 = 0x0c;
    pub(crate) const PRINTABLE_STRING: u8 = 0x13;
    pub(crate) const UTC_TIME: u8 = 0x17;
    pub(crate) const GENERALIZED_TIME: u8 = 0x18;
    pub(crate) const SEQUENCE: u8 = 0x30;
    pub(crate) const SET: u8 = 0x31;
    /// `[n]`, constructed.
    pub(crate) const CONTEXT: u8 = 0xa0;
    /// `[n]`, primitive.
    pub(crate) const CONTEXT_PRIMITIVE: u8 = 0x80;
}

/// Encodes an element: tag, length, content.
pub(super) fn element(tag: u8, content: &[u8]) -> Vec<u8> {
    let mut out = vec![tag];
    let length = content.len();
    if length < 0x80 {
        out.push(length as u8);
    } else {
        let bytes = length.to_be_bytes();
        let significant = &bytes[bytes.iter().take_while(|b| **b == 0).count()..];
        out.push(0x80 | significant.len() as u8);
        out.extend_from_slice(significant);
    }
    out.extend_from_slice(content);
    out
}

pub(super) fn sequence(elements: &[&[u8]]) -> Vec<u8> {
    element(tag::SEQUENCE, &elements.concat())
}

/// Encodes a non-negative integer, given as big-endian bytes.
pub(super) fn integer(bytes: &[u8]) -> Vec<u8> {
    let zeros = bytes.iter().take_while(|b| **b == 0).count();
    let significant = &bytes[zeros..];
    let needs_zero = significant.first().is_none_or(|b| *b >= 0x80);
    let sign: &[u8] = if needs_zero { &[0] } else { &[] };
    element(tag::INTEGER, &[sign, significant].concat())
}

/// Encodes a bit string of whole bytes.
pub(super) fn bit_string(bytes: &[u8]) -> Vec<u8> {
    element(tag::BIT_STRING, &[&[0], bytes].concat())
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Element<'d> {
    pub(super) tag: u8,
    pub(super) content: &'d [u8],
    /// The bytes, including tag and length.
    pub(super) whole: &'d [u8],
}

impl<'d> Element<'d> {
    pub(super) fn inside(self) -> Reader<'d> {
        Reader { rest: self.content }
    }

    /// Returns the bytes of a bit string.
    pub(super) fn bits(self) -> Option<&'d [u8]> {
        self.content.strip_prefix(&[0])
    }

    /// Returns the bytes of an integer, without leading zeros.
    pub(super) fn unsigned(self) -> &'d [u8] {
        let zeros = self.content.iter().take_while(|b| **b == 0).count();
        &self.content[zeros..]
    }
}

/// Reads consecutive elements.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reader<'d> {
    pub(super) rest: &'d [u8],
}

impl<'d> Reader<'d> {
    /// Returns the next element, or `None` at the end or if it is malformed.
    pub(super) fn any(&mut self) -> Option<Element<'d>> {
        let (tag, first) = (*self.rest.first()?, *self.rest.get(1)?);
        let long = usize::from(first & 0x7f);
        let (header, length) = match first {
            ..=0x7f => (2, usize::from(first)),
            0x81..=0x84 => (2 + long, self.rest.get(2..2 + long)?.iter().fold(0, |n, b| n << 8 | usize::from(*b))),
            _ => return None,
        };
        let (whole, rest) = self.rest.split_at_checked(header.checked_add(length)?)?;
        self.rest = rest;
        Some(Element { tag, content: &whole[header..], whole })
    }

    /// Returns the next element if it has this tag.
    pub(super) fn next(&mut self, tag: u8) -> Option<Element<'d>> {
        let before = self.rest;
        let element = self.any().filter(|e| e.tag == tag);
        if element.is_none() {
            self.rest = before;
        }
        element
    }
}

/// Returns the only element in the bytes, if it has this tag.
pub(super) fn only(bytes: &[u8], tag: u8) -> Option<Element<'_>> {
    let mut reader = Reader { rest: bytes };
    reader.next(tag).filter(|_| reader.rest.is_empty())
}
