//! Percent-encoding for each part of a URL. Counterpart: `escape` and `unescape` of Go's `net/url`.

use super::parse::Error;

/// A part of a URL, which determines what needs escaping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    Path,
    Host,
    /// The zone after `%25` in an IPv6 address.
    Zone,
    Userinfo,
    Fragment,
}

impl Part {
    /// Returns whether the byte needs no escape in this part.
    fn is_plain(self, byte: u8) -> bool {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            return true;
        }
        let plain: &[u8] = match self {
            Part::Path => b"$&+,/:;=@",
            Part::Host | Part::Zone => b"!\"$&'()*+,:;<=>[]",
            Part::Userinfo => b"$&+,;=",
            Part::Fragment => b"!$&()*+,/:;=?@",
        };
        plain.contains(&byte)
    }
}

pub(super) fn escape(text: &[u8], part: Part) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    for byte in text {
        if part.is_plain(*byte) {
            out.push(*byte);
        } else {
            out.extend(format!("%{byte:02X}").bytes());
        }
    }
    out
}

/// Decodes the escapes of this part.
pub(super) fn unescape(text: &[u8], part: Part) -> Result<Vec<u8>, Error> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((byte, after)) = rest.split_first() {
        if *byte == b'%' {
            out.push(escaped(rest, part)?);
            rest = &rest[3..];
            continue;
        }
        if matches!(part, Part::Host | Part::Zone) && byte.is_ascii() && !part.is_plain(*byte) {
            return Err(Error::HostCharacter(vec![*byte]));
        }
        out.push(*byte);
        rest = after;
    }
    Ok(out)
}

/// Decodes the escape that the text starts with.
fn escaped(text: &[u8], part: Part) -> Result<u8, Error> {
    let digit = |i: usize| text.get(i).and_then(|b| char::from(*b).to_digit(16)).map(|d| d as u8);
    let invalid = || Error::Escape(text[..text.len().min(3)].to_vec());
    let byte = digit(1).zip(digit(2)).map(|(high, low)| high << 4 | low).ok_or_else(invalid)?;
    // Hosts may escape only non-ASCII bytes; zones may also escape the bytes that hosts may contain unescaped.
    let allowed = match part {
        Part::Host => !byte.is_ascii() || byte == b'%',
        Part::Zone => byte == b'%' || byte == b' ' || Part::Host.is_plain(byte),
        _ => true,
    };
    if allowed { Ok(byte) } else { Err(invalid()) }
}
