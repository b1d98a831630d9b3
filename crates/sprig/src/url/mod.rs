//! `urlParse` and `urlJoin`. Counterpart: Sprig's `url.go`.

mod escape;
mod parse;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use go_template::{FuncError, FuncMap, Map, MapType, Str, Value};

use parse::{Url, Userinfo};

pub(super) fn register(map: &mut FuncMap) {
    map.add("urlParse", |url: Str| -> Result<Map, FuncError> { url_parse(&url) });
    map.add("urlJoin", |parts: Map| -> Result<Vec<u8>, FuncError> { url_join(&parts) });
}

fn url_parse(text: &[u8]) -> Result<Map, FuncError> {
    let url = Url::parse(text).map_err(|error| FuncError::new(format!("unable to parse url: {error}")))?;
    let hostname = url.hostname().to_vec();
    let userinfo = url.userinfo.as_ref().map(Userinfo::written).unwrap_or_default();
    let parts: [(&str, Vec<u8>); 8] = [
        ("scheme", url.scheme),
        ("host", url.host),
        ("hostname", hostname),
        ("path", url.path),
        ("query", url.query),
        ("opaque", url.opaque),
        ("fragment", url.fragment),
        ("userinfo", userinfo),
    ];
    let entries: BTreeMap<Str, Value> =
        parts.into_iter().map(|(key, text)| (key.into(), Value::String(text.into()))).collect();
    Ok(Map::new(MapType::Interface, entries))
}

fn url_join(parts: &Map) -> Result<Vec<u8>, FuncError> {
    let mut url = Url {
        scheme: part(parts, "scheme")?,
        host: part(parts, "host")?,
        path: part(parts, "path")?,
        query: part(parts, "query")?,
        opaque: part(parts, "opaque")?,
        fragment: part(parts, "fragment")?,
        userinfo: None,
    };
    let userinfo = part(parts, "userinfo")?;
    if !userinfo.is_empty() {
        let whole = Url::parse(&[b"proto://", &userinfo[..], b"@host"].concat());
        url.userinfo =
            whole.map_err(|error| FuncError::new(format!("unable to parse userinfo in dict: {error}")))?.userinfo;
    }
    Ok(url.written())
}

/// Returns the string under the key, or an empty string if there is none.
fn part(parts: &Map, key: &str) -> Result<Vec<u8>, FuncError> {
    match parts.get(key) {
        None => Ok(Vec::new()),
        Some(Value::String(text)) => Ok(text.to_vec()),
        Some(Value::Nil) => Err("runtime error: invalid memory address or nil pointer dereference".into()),
        Some(other) => {
            let kind = other.kind().name();
            Err(FuncError::new(format!("unable to parse {key} key, must be of type string, but {kind} found")))
        }
    }
}
