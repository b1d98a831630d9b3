//! Reads what a server wants to see before it answers: the header `WWW-Authenticate`.

use http::Uri;

/// An authentication scheme that the server offers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Challenge {
    /// With a token from this address.
    Bearer { realm: String, service: Option<String>, scope: Option<String> },
    /// With user and password.
    Basic,
}

impl Challenge {
    /// Returns where to get the token.
    pub(super) fn uri(&self) -> Option<Uri> {
        let Challenge::Bearer { realm, service, scope } = self else { return None };
        let mut text = realm.clone();
        for (name, value) in [("service", service), ("scope", scope)] {
            let Some(value) = value else { continue };
            text.push(if text.contains('?') { '&' } else { '?' });
            text.push_str(name);
            text.push('=');
            text.push_str(&encoded(value));
        }
        let uri: Uri = text.parse().ok()?;
        let is_whole = uri.scheme().is_some() && uri.authority().is_some_and(|host| !host.as_str().contains('@'));
        is_whole.then_some(uri)
    }
}

/// Escapes all that is not plain in a query.
fn encoded(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~:/,".contains(&byte);
    text.bytes().map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}

/// Parses one value of the header; returns `None` for other ways.
pub(super) fn parse(value: &str) -> Option<Challenge> {
    let (scheme, rest) = value.trim().split_once(' ').unwrap_or((value.trim(), ""));
    if scheme.eq_ignore_ascii_case("basic") {
        return Some(Challenge::Basic);
    }
    if !scheme.eq_ignore_ascii_case("bearer") {
        return None;
    }
    let (mut realm, mut service, mut scope) = (None, None, None);
    for (name, value) in parameters(rest) {
        match &*name.to_ascii_lowercase() {
            "realm" => realm = Some(value),
            "service" => service = Some(value),
            "scope" => scope = Some(value),
            _ => {}
        }
    }
    Some(Challenge::Bearer { realm: realm?, service, scope })
}

/// Splits `a="b,c", d=e` into names and values.
fn parameters(mut text: &str) -> Vec<(&str, String)> {
    let mut found = Vec::new();
    while let Some((name, rest)) = text.split_once('=') {
        let name = name.trim_matches([' ', ',']);
        let (value, rest) = match rest.strip_prefix('"') {
            Some(quoted) => unquoted(quoted),
            None => {
                let end = rest.find(',').unwrap_or(rest.len());
                (rest[..end].trim().to_owned(), &rest[end..])
            }
        };
        found.push((name, value));
        text = rest;
    }
    found
}

/// Reads up to the closing quote; returns the value and what follows.
fn unquoted(text: &str) -> (String, &str) {
    let mut value = String::new();
    let mut characters = text.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => return (value, &text[at + 1..]),
            '\\' => value.extend(characters.next().map(|(_, escaped)| escaped)),
            other => value.push(other),
        }
    }
    (value, "")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn uri(header: &str) -> Option<String> {
        Some(parse(header)?.uri()?.to_string())
    }

    #[test]
    fn a_token_is_asked_for_where_the_challenge_says() {
        let header =
            r#"Bearer realm="https://auth.example.com/token",service="registry",scope="repository:a/b:pull,push""#;
        let expected = "https://auth.example.com/token?service=registry&scope=repository:a/b:pull,push";
        assert_eq!(uri(header).as_deref(), Some(expected));
        assert_eq!(
            uri(r#"bearer Realm="https://a/t?x=1", scope="a b&c", error=none"#).as_deref(),
            Some("https://a/t?x=1&scope=a%20b%26c")
        );
        assert_eq!(uri(r#"Bearer realm=https://a/t,service=s"#).as_deref(), Some("https://a/t?service=s"));
        for wrong in [
            r#"Bearer service="s""#,
            r#"Bearer realm="/token""#,
            r#"Bearer realm="https://u:p@a/t""#,
            "Bearer",
            "Digest a=b",
        ] {
            assert_eq!(uri(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn values_may_be_quoted_and_escaped() {
        assert_eq!(
            parameters(r#"a="b,\"c=", d=e, f="open"#),
            [("a", "b,\"c=".into()), ("d", "e".into()), ("f", "open".into())]
        );
        assert_eq!(parse("Basic realm=\"x\""), Some(Challenge::Basic));
    }
}
