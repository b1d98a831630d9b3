//! Scans anchors, aliases, tags and directives.

use super::super::read::is_name;
use super::{Result, Scanner, TokenKind};

/// Maximum number of digits in each part of a `%YAML` version.
const MAX_VERSION_DIGITS: usize = 2;

impl Scanner<'_> {
    pub(super) fn fetch_anchor(&mut self, kind: fn(String) -> TokenKind) -> Result {
        self.save_simple_key()?;
        self.simple_key_allowed = false;
        let start = self.reader.mark;
        self.reader.skip();
        let name = self.scan_name()?;
        let ends = self.reader.is_blankz(0) || b"?:,]}%@`".contains(&self.reader.peek(0));
        if name.is_empty() || !ends {
            return Err(self.error("did not find expected alphabetic or numeric character"));
        }
        self.push(kind(name), start);
        Ok(())
    }

    fn scan_name(&mut self) -> Result<String> {
        self.reader.need(1)?;
        let mut name = String::new();
        while is_name(self.reader.peek(0)) {
            self.reader.read(&mut name);
            self.reader.need(1)?;
        }
        Ok(name)
    }

    pub(super) fn fetch_tag(&mut self) -> Result {
        self.save_simple_key()?;
        self.simple_key_allowed = false;
        let start = self.reader.mark;
        self.reader.need(2)?;
        let (handle, suffix) = if self.reader.peek(1) == b'<' {
            (String::new(), self.scan_verbatim_tag()?)
        } else {
            self.scan_short_tag()?
        };
        self.reader.need(1)?;
        if !self.reader.is_blankz(0) {
            return Err(self.error("did not find expected whitespace or line break"));
        }
        self.push(TokenKind::Tag { handle, suffix }, start);
        Ok(())
    }

    fn scan_verbatim_tag(&mut self) -> Result<String> {
        self.reader.skip();
        self.reader.skip();
        let uri = self.scan_uri("")?;
        if self.reader.peek(0) != b'>' {
            return Err(self.error("did not find the expected '>'"));
        }
        self.reader.skip();
        Ok(uri)
    }

    /// Scans `!handle!suffix`, `!suffix`, or `!` alone, which has no handle.
    fn scan_short_tag(&mut self) -> Result<(String, String)> {
        let handle = self.scan_handle(false)?;
        if handle.len() > 1 && handle.ends_with('!') {
            let suffix = self.scan_uri("")?;
            return Ok((handle, suffix));
        }
        let suffix = self.scan_uri(&handle)?;
        Ok(if suffix.is_empty() { (String::new(), "!".to_owned()) } else { ("!".to_owned(), suffix) })
    }

    fn scan_handle(&mut self, directive: bool) -> Result<String> {
        self.reader.need(1)?;
        if self.reader.peek(0) != b'!' {
            return Err(self.error("did not find expected '!'"));
        }
        self.reader.skip();
        let mut handle = format!("!{}", self.scan_name()?);
        if self.reader.peek(0) == b'!' {
            self.reader.read(&mut handle);
        } else if directive && handle != "!" {
            return Err(self.error("did not find expected '!'"));
        }
        Ok(handle)
    }

    /// Scans a URI. `head` is the part already read, which starts with `!`.
    fn scan_uri(&mut self, head: &str) -> Result<String> {
        let mut uri = head.get(1..).unwrap_or("").to_owned();
        let mut found = !head.is_empty();
        self.reader.need(1)?;
        while is_name(self.reader.peek(0)) || b";/?:@&=+$,.!~*'()[]%".contains(&self.reader.peek(0)) {
            if self.reader.peek(0) == b'%' {
                self.scan_uri_escapes(&mut uri)?;
            } else {
                self.reader.read(&mut uri);
            }
            self.reader.need(1)?;
            found = true;
        }
        if !found {
            return Err(self.error("did not find expected tag URI"));
        }
        Ok(uri)
    }

    /// Scans one UTF-8 character, written as `%XX` octets.
    fn scan_uri_escapes(&mut self, uri: &mut String) -> Result {
        let mut octets = Vec::new();
        let mut width = 1;
        while octets.len() < width {
            self.reader.need(3)?;
            let digit = |ahead| char::from(self.reader.peek(ahead)).to_digit(16);
            let (b'%', Some(high), Some(low)) = (self.reader.peek(0), digit(1), digit(2)) else {
                return Err(self.error("did not find URI escaped octet"));
            };
            let octet = (high << 4 | low) as u8;
            if octets.is_empty() {
                width = match octet {
                    0..=0x7F => 1,
                    0xC0..=0xDF => 2,
                    0xE0..=0xEF => 3,
                    0xF0..=0xF7 => 4,
                    _ => return Err(self.error("found an incorrect leading UTF-8 octet")),
                };
            } else if octet & 0xC0 != 0x80 {
                return Err(self.error("found an incorrect trailing UTF-8 octet"));
            }
            octets.push(octet);
            (0..3).for_each(|_| self.reader.skip());
        }
        uri.push_str(&String::from_utf8_lossy(&octets));
        Ok(())
    }

    pub(super) fn scan_directive(&mut self) -> Result<TokenKind> {
        self.reader.skip();
        let name = self.scan_directive_name()?;
        let kind = match &*name {
            "YAML" => self.scan_version()?,
            "TAG" => self.scan_tag_directive()?,
            _ => return Err(self.error("found unknown directive name")),
        };
        self.reader.need(1)?;
        self.skip_blanks()?;
        self.skip_comment()?;
        if !self.reader.is_breakz(0) {
            return Err(self.error("did not find expected comment or line break"));
        }
        self.reader.need(2)?;
        self.reader.skip_line();
        Ok(kind)
    }

    fn scan_directive_name(&mut self) -> Result<String> {
        let name = self.scan_name()?;
        if name.is_empty() {
            return Err(self.error("could not find expected directive name"));
        }
        if !self.reader.is_blankz(0) {
            return Err(self.error("found unexpected non-alphabetical character"));
        }
        Ok(name)
    }

    fn scan_version(&mut self) -> Result<TokenKind> {
        self.reader.need(1)?;
        self.skip_blanks()?;
        let major = self.scan_version_number()?;
        if self.reader.peek(0) != b'.' {
            return Err(self.error("did not find expected digit or '.' character"));
        }
        self.reader.skip();
        let minor = self.scan_version_number()?;
        Ok(TokenKind::VersionDirective { major, minor })
    }

    fn scan_version_number(&mut self) -> Result<u8> {
        self.reader.need(1)?;
        let mut value = 0;
        let mut digits = 0;
        while self.reader.peek(0).is_ascii_digit() {
            digits += 1;
            if digits > MAX_VERSION_DIGITS {
                return Err(self.error("found extremely long version number"));
            }
            value = value * 10 + (self.reader.peek(0) - b'0');
            self.reader.skip();
            self.reader.need(1)?;
        }
        if digits == 0 {
            return Err(self.error("did not find expected version number"));
        }
        Ok(value)
    }

    fn scan_tag_directive(&mut self) -> Result<TokenKind> {
        self.reader.need(1)?;
        self.skip_blanks()?;
        let handle = self.scan_handle(true)?;
        self.reader.need(1)?;
        if !super::super::read::is_blank(self.reader.peek(0)) {
            return Err(self.error("did not find expected whitespace"));
        }
        self.skip_blanks()?;
        let prefix = self.scan_uri("")?;
        self.reader.need(1)?;
        if !self.reader.is_blankz(0) {
            return Err(self.error("did not find expected whitespace or line break"));
        }
        Ok(TokenKind::TagDirective { handle, prefix })
    }
}
