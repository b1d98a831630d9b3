//! Escaping for HTML, JavaScript and URLs: the functions `html`, `js` and `urlquery`. Counterpart: the escapers in Go's `text/template/funcs.go`.
//!
//! Each escaper stops once its output exceeds [`MAX_OUTPUT`], as printing does; the caller rejects such a result.

use golibs::unicode::is_print;
use golibs::utf8::{Rune, runes};

use crate::fmt::MAX_OUTPUT;

/// Escapes text for HTML. Counterpart: `template.HTMLEscapeString`.
pub fn html(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    for byte in text {
        if out.len() > MAX_OUTPUT {
            break;
        }
        match byte {
            0 => out.extend("\u{fffd}".bytes()),
            b'"' => out.extend(b"&#34;"),
            b'\'' => out.extend(b"&#39;"),
            b'&' => out.extend(b"&amp;"),
            b'<' => out.extend(b"&lt;"),
            b'>' => out.extend(b"&gt;"),
            other => out.push(*other),
        }
    }
    out
}

/// Escapes text for JavaScript. Counterpart: `template.JSEscapeString`.
pub(crate) fn js(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    for rune in runes(text) {
        if out.len() > MAX_OUTPUT {
            break;
        }
        match rune {
            Rune::Char(c @ ('\\' | '\'' | '"')) => out.extend([b'\\', c as u8]),
            Rune::Char(c @ ('<' | '>' | '&' | '=')) => out.extend(format!("\\u{:04X}", u32::from(c)).bytes()),
            Rune::Char(c) if c == '\u{7f}' || is_print(c) => out.extend(c.encode_utf8(&mut [0; 4]).bytes()),
            Rune::Char(c) => out.extend(format!("\\u{:04X}", u32::from(c)).bytes()),
            Rune::Invalid(byte) => out.push(byte),
        }
    }
    out
}

/// Escapes text for the query of a URL. Counterpart: `url.QueryEscape`.
pub fn url_query(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    for byte in text {
        if out.len() > MAX_OUTPUT {
            break;
        }
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => out.push(*byte),
            b' ' => out.push(b'+'),
            other => out.extend(format!("%{other:02X}").bytes()),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(escape: fn(&[u8]) -> Vec<u8>, cases: &[(&str, &str)]) {
        for (text, expected) in cases {
            assert_eq!(String::from_utf8_lossy(&escape(text.as_bytes())), *expected, "{text}");
        }
    }

    #[test]
    fn html_escapes_quotes_brackets_ampersands_and_nul() {
        check(
            html,
            &[
                ("<a href='x'>\"T&J\"</a>", "&lt;a href=&#39;x&#39;&gt;&#34;T&amp;J&#34;&lt;/a&gt;"),
                ("\0x", "\u{fffd}x"),
            ],
        );
    }

    #[test]
    fn js_escapes_characters_that_could_end_a_string_or_a_script() {
        check(
            js,
            &[("<a='b\"\\>&", "\\u003Ca\\u003D\\'b\\\"\\\\\\u003E\\u0026"), ("é\u{ad}\n`/", "é\\u00AD\\u000A`/")],
        );
        assert_eq!(js(b"\xff"), b"\xff");
    }

    #[test]
    fn url_query_escapes_all_except_unreserved_characters() {
        check(url_query, &[("a b&c=d/é?", "a+b%26c%3Dd%2F%C3%A9%3F"), ("~-_.!*'()", "~-_.%21%2A%27%28%29")]);
    }
}
