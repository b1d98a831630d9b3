//! The `regex*` functions; those with `must` give an error where the others fail as a Go panic does. Counterpart: Sprig's `regex.go`.

use std::sync::Arc;

use go_template::fmt::{Charset, can_backquote, quote};
use go_template::{FuncError, FuncMap, List, ListType, Str, Value};

use super::limits::check_string;
use crate::regex::{Error, Regex, cached, quote_meta};

/// Adds the family's functions.
pub(super) fn register(map: &mut FuncMap) {
    map.add("regexMatch", |regex: Str, text: Str| cached(&regex).is_ok_and(|r| r.is_match(&text)));
    map.add("mustRegexMatch", |regex: Str, text: Str| -> Result<bool, FuncError> { Ok(must(&regex)?.is_match(&text)) });
    map.add("regexQuoteMeta", |text: Str| quote_meta(&text).into_owned());
    register_with(map, "regex", compile);
    register_with(map, "mustRegex", must);
}

/// The functions that exist in two forms, which differ in how a bad pattern fails.
fn register_with(map: &mut FuncMap, prefix: &str, regex: fn(&[u8]) -> Result<Arc<Regex>, FuncError>) {
    map.add(&format!("{prefix}Find"), move |pattern: Str, text: Str| -> Result<Vec<u8>, FuncError> {
        Ok(regex(&pattern)?.find(&text).unwrap_or_default().to_vec())
    });
    map.add(&format!("{prefix}FindAll"), move |pattern: Str, text: Str, limit: isize| -> Result<Value, FuncError> {
        let found = regex(&pattern)?.find_all(&text, limit);
        if found.is_empty() {
            return Ok(List::nil(ListType::String).into());
        }
        Ok(strings(found.into_iter().map(|(start, end)| &text[start..end])))
    });
    map.add(&format!("{prefix}Split"), move |pattern: Str, text: Str, limit: isize| -> Result<Value, FuncError> {
        Ok(strings(regex(&pattern)?.split(&text, limit).into_iter()))
    });
    map.add(&format!("{prefix}ReplaceAll"), move |pattern: Str, text: Str, by: Str| -> Result<Vec<u8>, FuncError> {
        checked(regex(&pattern)?.replace_all(&text, &by))
    });
    map.add(
        &format!("{prefix}ReplaceAllLiteral"),
        move |pattern: Str, text: Str, by: Str| -> Result<Vec<u8>, FuncError> {
            checked(regex(&pattern)?.replace_all_literal(&text, &by))
        },
    );
}

fn checked(replaced: Vec<u8>) -> Result<Vec<u8>, FuncError> {
    check_string("regexReplaceAll", replaced.len())?;
    Ok(replaced)
}

/// A `[]string`; with nothing in it Go's nil slice, which is JSON's null.
fn strings<'t>(items: impl Iterator<Item = &'t [u8]>) -> Value {
    let list = List::strings(items);
    Value::List(if list.is_empty() { List::nil(ListType::String) } else { list })
}

/// Go's `Compile`.
fn must(pattern: &[u8]) -> Result<Arc<Regex>, FuncError> {
    cached(pattern).map_err(|error| FuncError::new(error.to_string()))
}

/// Go's `MustCompile`, whose panic names the pattern.
fn compile(pattern: &[u8]) -> Result<Arc<Regex>, FuncError> {
    cached(pattern).map_err(|error: Error| {
        let quoted =
            if can_backquote(pattern) { [b"`", pattern, b"`"].concat() } else { quote(pattern, Charset::Unicode) };
        FuncError::new(format!("regexp: Compile({}): {error}", String::from_utf8_lossy(&quoted)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bad_pattern_fails_with_go_s_words() {
        let plain = "error parsing regexp: missing closing ): `(`";
        assert_eq!(must(b"(").unwrap_err().to_string(), plain);
        assert_eq!(compile(b"(").unwrap_err().to_string(), format!("regexp: Compile(`(`): {plain}"));
    }

    #[test]
    fn every_function_has_both_forms() {
        let mut map = FuncMap::default();
        register(&mut map);
        for name in ["Find", "FindAll", "Split", "ReplaceAll", "ReplaceAllLiteral", "Match"] {
            assert!(
                map.get(&format!("regex{name}")).is_some() && map.get(&format!("mustRegex{name}")).is_some(),
                "{name}"
            );
        }
    }
}
