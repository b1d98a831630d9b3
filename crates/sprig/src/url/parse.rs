//! Splits and joins URLs by RFC 3986, as Go's `net/url` does.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

use golibs::strconv::quote;

use super::escape::{Part, escape, unescape};

/// The parts of a URL, unescaped except for the query and the opaque part.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Url {
    pub(super) scheme: Vec<u8>,
    pub(super) userinfo: Option<Userinfo>,
    /// Host and port.
    pub(super) host: Vec<u8>,
    pub(super) path: Vec<u8>,
    pub(super) query: Vec<u8>,
    pub(super) opaque: Vec<u8>,
    pub(super) fragment: Vec<u8>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Userinfo {
    name: Vec<u8>,
    password: Option<Vec<u8>>,
}

/// The reason why a URL is invalid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Error {
    /// A message of Go.
    Text(&'static str),
    Escape(Vec<u8>),
    HostCharacter(Vec<u8>),
    Port(Vec<u8>),
    Address(Vec<u8>),
    /// An error, and the URL that contains it.
    In(Vec<u8>, Box<Error>),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Text(text) => write!(f, "{text}"),
            Error::Escape(text) => write!(f, "invalid URL escape {}", quote(text)),
            Error::HostCharacter(text) => write!(f, "invalid character {} in host name", quote(text)),
            Error::Port(text) => write!(f, "invalid port {} after host", quote(text)),
            Error::Address(text) => write!(f, "invalid host: ParseAddr({}): unable to parse IP", quote(text)),
            Error::In(url, error) => write!(f, "parse {}: {error}", quote(url)),
        }
    }
}

impl Url {
    pub(super) fn parse(text: &[u8]) -> Result<Url, Error> {
        let (before, fragment) = cut(text, b'#');
        let mut url = Url::parse_without_fragment(before).map_err(|e| Error::In(before.to_vec(), Box::new(e)))?;
        if let Some(fragment) = fragment {
            url.fragment = unescape(fragment, Part::Fragment).map_err(|e| Error::In(text.to_vec(), Box::new(e)))?;
        }
        Ok(url)
    }

    fn parse_without_fragment(text: &[u8]) -> Result<Url, Error> {
        if text.iter().any(u8::is_ascii_control) {
            return Err(Error::Text("net/url: invalid control character in URL"));
        }
        if text == b"*" {
            return Ok(Url { path: text.to_vec(), ..Url::default() });
        }
        let (scheme, rest) = split_scheme(text)?;
        let (rest, query) = cut(rest, b'?');
        let mut url =
            Url { scheme: scheme.to_ascii_lowercase(), query: query.unwrap_or_default().to_vec(), ..Url::default() };
        if !rest.starts_with(b"/") {
            if !scheme.is_empty() {
                url.opaque = rest.to_vec();
                return Ok(url);
            }
            if cut(rest, b'/').0.contains(&b':') {
                return Err(Error::Text("first path segment in URL cannot contain colon"));
            }
        }
        let has_authority = rest.starts_with(b"//") && (!scheme.is_empty() || !rest.starts_with(b"///"));
        let path = if has_authority { url.take_authority(&rest[2..])? } else { rest };
        url.path = unescape(path, Part::Path)?;
        Ok(url)
    }

    /// Parses the authority, which is between `//` and the path; returns the path.
    fn take_authority<'t>(&mut self, text: &'t [u8]) -> Result<&'t [u8], Error> {
        let (authority, path) = text.split_at(text.iter().position(|b| *b == b'/').unwrap_or(text.len()));
        let at = authority.iter().rposition(|b| *b == b'@');
        self.host = parse_host(&self.scheme, at.map_or(authority, |at| &authority[at + 1..]))?;
        self.userinfo = at.map(|at| Userinfo::parse(&authority[..at])).transpose()?;
        Ok(path)
    }

    /// Returns the host without its port and without the brackets of IPv6.
    pub(super) fn hostname(&self) -> &[u8] {
        let colon = self.host.iter().rposition(|b| *b == b':').filter(|i| is_optional_port(&self.host[*i..]));
        let host = colon.map_or(&self.host[..], |i| &self.host[..i]);
        host.strip_prefix(b"[").and_then(|h| h.strip_suffix(b"]")).unwrap_or(host)
    }

    /// Joins the parts, escaped where necessary.
    pub(super) fn written(&self) -> Vec<u8> {
        let mut out = Vec::new();
        if !self.scheme.is_empty() {
            out.extend([&self.scheme[..], b":"].concat());
        }
        if self.opaque.is_empty() {
            self.write_hierarchy(&mut out);
        } else {
            out.extend_from_slice(&self.opaque);
        }
        if !self.query.is_empty() {
            out.extend([b"?", &self.query[..]].concat());
        }
        if !self.fragment.is_empty() {
            out.push(b'#');
            out.extend(escape(&self.fragment, Part::Fragment));
        }
        out
    }

    fn write_hierarchy(&self, out: &mut Vec<u8>) {
        let has_authority = !self.host.is_empty() || self.userinfo.is_some();
        if has_authority || !self.scheme.is_empty() && !self.path.is_empty() {
            out.extend_from_slice(b"//");
        }
        if let Some(userinfo) = &self.userinfo {
            out.extend([&userinfo.written()[..], b"@"].concat());
        }
        out.extend(escape(&self.host, Part::Host));
        let path = if self.path == b"*" { self.path.clone() } else { escape(&self.path, Part::Path) };
        if !path.is_empty() && !path.starts_with(b"/") && !self.host.is_empty() {
            out.push(b'/');
        }
        // A colon in the first segment would be read as the end of a scheme.
        if out.is_empty() && cut(&path, b'/').0.contains(&b':') {
            out.extend_from_slice(b"./");
        }
        out.extend(path);
    }
}

impl Userinfo {
    fn parse(text: &[u8]) -> Result<Userinfo, Error> {
        let is_valid = |b: &u8| b.is_ascii_alphanumeric() || b"-._:~!$&'()*+,;=%@".contains(b);
        if !text.iter().all(is_valid) {
            return Err(Error::Text("net/url: invalid userinfo"));
        }
        let (name, password) = cut(text, b':');
        let name = unescape(name, Part::Userinfo)?;
        Ok(Userinfo { name, password: password.map(|p| unescape(p, Part::Userinfo)).transpose()? })
    }

    /// Joins name and password, escaped.
    pub(super) fn written(&self) -> Vec<u8> {
        let mut out = escape(&self.name, Part::Userinfo);
        if let Some(password) = &self.password {
            out.push(b':');
            out.extend(escape(password, Part::Userinfo));
        }
        out
    }
}

/// Splits the text at the first such byte, if there is one.
fn cut(text: &[u8], separator: u8) -> (&[u8], Option<&[u8]>) {
    match text.iter().position(|b| *b == separator) {
        Some(i) => (&text[..i], Some(&text[i + 1..])),
        None => (text, None),
    }
}

/// Splits off the scheme, which may be empty.
fn split_scheme(text: &[u8]) -> Result<(&[u8], &[u8]), Error> {
    let in_scheme =
        |(i, b): (usize, &u8)| b.is_ascii_alphabetic() || i > 0 && (b.is_ascii_digit() || b"+-.".contains(b));
    let length = text.iter().enumerate().take_while(|(i, b)| in_scheme((*i, b))).count();
    match text.get(length) {
        Some(b':') if length == 0 => Err(Error::Text("missing protocol scheme")),
        Some(b':') => Ok((&text[..length], &text[length + 1..])),
        _ => Ok((b"", text)),
    }
}

fn is_optional_port(text: &[u8]) -> bool {
    text.strip_prefix(b":").map_or(text.is_empty(), |port| port.iter().all(u8::is_ascii_digit))
}

fn parse_host(scheme: &[u8], host: &[u8]) -> Result<Vec<u8>, Error> {
    match host.iter().rposition(|b| *b == b'[') {
        Some(0) => return parse_literal(host),
        Some(_) => return Err(Error::Text("invalid IP-literal")),
        None => {}
    }
    // Only database URLs list several hosts with ports, so http allows no further colons.
    let is_strict = scheme == b"http" || scheme == b"https";
    let is_colon = |b: &u8| *b == b':';
    let colon = if is_strict { host.iter().position(is_colon) } else { host.iter().rposition(is_colon) };
    match colon {
        Some(i) if !is_optional_port(&host[i..]) => Err(Error::Port(host[i..].to_vec())),
        _ => unescape(host, Part::Host),
    }
}

/// Checks an IPv6 address in brackets, which may have a zone and a port.
fn parse_literal(host: &[u8]) -> Result<Vec<u8>, Error> {
    let close = host.iter().rposition(|b| *b == b']').ok_or(Error::Text("missing ']' in host"))?;
    let port = &host[close + 1..];
    if !is_optional_port(port) {
        return Err(Error::Port(port.to_vec()));
    }
    let inside = &host[1..close];
    let zone = inside.windows(3).position(|w| w == b"%25").unwrap_or(inside.len());
    let mut name = unescape(&inside[..zone], Part::Host)?;
    name.extend(unescape(&inside[zone..], Part::Zone)?);
    check_address(&name)?;
    Ok([b"[", &name[..], b"]", port].concat())
}

fn check_address(name: &[u8]) -> Result<(), Error> {
    let (address, zone) = cut(name, b'%');
    let text = std::str::from_utf8(address).unwrap_or_default();
    match text.parse::<IpAddr>() {
        Ok(IpAddr::V4(_)) if zone.is_none() => Err(Error::Text("invalid IP-literal")),
        _ if text.parse::<Ipv6Addr>().is_ok() && zone.is_none_or(|z| !z.is_empty()) => Ok(()),
        _ => Err(Error::Address(name.to_vec())),
    }
}
