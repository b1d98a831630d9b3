use super::*;

fn parsed(text: &str) -> String {
    match url_parse(text.as_bytes()) {
        Ok(map) => map
            .snapshot()
            .into_iter()
            .filter(|(_, v)| v.is_true())
            .map(|(k, v)| format!("{k}={}", v.as_str().unwrap()))
            .collect::<Vec<_>>()
            .join(" "),
        Err(error) => error.to_string(),
    }
}

#[test]
fn urls_split_as_in_go() {
    for (text, expected) in [
        ("", ""),
        ("/only/path?x=1", "path=/only/path query=x=1"),
        ("//host/path", "host=host hostname=host path=/path"),
        ("http://[::1]:80/x", "host=[::1]:80 hostname=::1 path=/x scheme=http"),
        (
            "HTTP://user@h/p%20q?a=%26#f%20g",
            "fragment=f g host=h hostname=h path=/p q query=a=%26 scheme=http userinfo=user",
        ),
        ("redis://:p%40ss@h:6379/0", "host=h:6379 hostname=h path=/0 scheme=redis userinfo=:p%40ss"),
        ("h:80", "opaque=80 scheme=h"),
        ("http://h/a#b#c", "fragment=b#c host=h hostname=h path=/a scheme=http"),
        ("http://[fe80::1%25eth0]/", "host=[fe80::1%eth0] hostname=fe80::1%eth0 path=/ scheme=http"),
        ("mongodb://a:1,b:2/db", "host=a:1,b:2 hostname=a:1,b path=/db scheme=mongodb"),
    ] {
        assert_eq!(parsed(text), expected, "{text}");
    }
}

#[test]
fn invalid_urls_fail_with_gos_words() {
    for (text, expected) in [
        ("http://%zz/", r#"parse "http://%zz/": invalid URL escape "%zz""#),
        ("://x", r#"parse "://x": missing protocol scheme"#),
        ("1http://x", r#"parse "1http://x": first path segment in URL cannot contain colon"#),
        ("http://us er@h", r#"parse "http://us er@h": net/url: invalid userinfo"#),
        ("http://h:x/", r#"parse "http://h:x/": invalid port ":x" after host"#),
        ("http://a b/", r#"parse "http://a b/": invalid character " " in host name"#),
        ("http://[::1", r#"parse "http://[::1": missing ']' in host"#),
        ("http://[1.2.3.4]/", r#"parse "http://[1.2.3.4]/": invalid IP-literal"#),
        ("http://a:1:2/", r#"parse "http://a:1:2/": invalid port ":1:2" after host"#),
        ("a\nb", r#"parse "a\nb": net/url: invalid control character in URL"#),
        ("/a%", r#"parse "/a%": invalid URL escape "%""#),
    ] {
        assert_eq!(parsed(text), format!("unable to parse url: {expected}"));
    }
}

#[test]
fn parts_are_joined_and_escaped() {
    for (parts, expected) in [
        (
            &[
                ("scheme", "http"),
                ("host", "h:80"),
                ("path", "/p"),
                ("query", "a=1"),
                ("fragment", "f"),
                ("userinfo", "u:p"),
            ][..],
            "http://u:p@h:80/p?a=1#f",
        ),
        (&[("host", "h"), ("path", "p")], "//h/p"),
        (&[("path", "/a b/é")], "/a%20b/%C3%A9"),
        (&[("fragment", "a b#c")], "#a%20b%23c"),
        (&[("scheme", "http"), ("path", "//x")], "http:////x"),
        (&[("scheme", "http")], "http:"),
        (&[("path", "a:b")], "./a:b"),
        (&[("host", "h"), ("path", "/%2F")], "//h/%252F"),
        (&[("opaque", "x@y"), ("scheme", "mailto")], "mailto:x@y"),
    ] {
        let map: Map = parts.iter().copied().collect();
        assert_eq!(String::from_utf8(url_join(&map).unwrap()).unwrap(), expected, "{parts:?}");
    }
}

#[test]
fn parts_other_than_strings_are_refused() {
    let map: Map = [("host", Value::int(1))].into_iter().collect();
    assert_eq!(
        url_join(&map).unwrap_err().to_string(),
        "unable to parse host key, must be of type string, but int found"
    );
    let map: Map = [("userinfo", "u@x:p/q")].into_iter().collect();
    assert_eq!(
        url_join(&map).unwrap_err().to_string(),
        r#"unable to parse userinfo in dict: parse "proto://u@x:p/q@host": invalid port ":p" after host"#
    );
}
