//! The `regex*` functions. Those with `must` return an error where the others fail with Go's panic. Counterpart: Sprig's `regex.go`.

use std::sync::Arc;
use std::time::Duration;

use go_template::{FuncError, FuncMap, List, ListType, Str, Value};
use golibs::clock::Instant;
use golibs::strconv::{can_backquote, quote};
use golibs::work::note_work;

use super::limits::{MAX_LIST_ITEMS, check_list, check_string, exceeded};
use golibs::regex::{Error, MAX_SEARCH_WORK, Regex, TooSlow, cached, quote_meta};

/// Search work per step: two bytes of text for a small pattern.
const WORK_PER_STEP: u64 = 8 << 10;

/// Duration of a search from which its time is charged too.
const SLOW_SEARCH: Duration = Duration::from_millis(50);

/// Steps per microsecond of such a search, which use up a render's budget.
const STEPS_PER_MICROSECOND: u64 = 10;

pub(super) fn register(map: &mut FuncMap) {
    map.add("regexMatch", |regex: Str, text: Str| match cached(&regex) {
        Ok(regex) => searched(&regex, &text, || regex.is_match(&text)),
        Err(_) => Ok(false),
    });
    map.add("mustRegexMatch", |regex: Str, text: Str| -> Result<bool, FuncError> {
        let regex = must(&regex)?;
        searched(&regex, &text, || regex.is_match(&text))
    });
    map.add("regexQuoteMeta", |text: Str| quote_meta(&text).into_owned());
    register_with(map, "regex", compile);
    register_with(map, "mustRegex", must);
}

/// Registers the functions that have two variants, which differ in how an invalid pattern fails.
fn register_with(map: &mut FuncMap, prefix: &str, regex: fn(&[u8]) -> Result<Arc<Regex>, FuncError>) {
    map.add(&format!("{prefix}Find"), move |pattern: Str, text: Str| -> Result<Vec<u8>, FuncError> {
        let regex = regex(&pattern)?;
        searched(&regex, &text, || regex.find(&text).unwrap_or_default().to_vec())
    });
    map.add(&format!("{prefix}FindAll"), move |pattern: Str, text: Str, limit: isize| -> Result<Value, FuncError> {
        let regex = regex(&pattern)?;
        let found = searched(&regex, &text, || regex.find_all(&text, at_most(limit)))?.map_err(too_slow)?;
        check_list("regexFindAll", found.len())?;
        if found.is_empty() {
            return Ok(List::nil(ListType::String).into());
        }
        Ok(strings(found.into_iter().map(|(start, end)| &text[start..end])))
    });
    map.add(&format!("{prefix}Split"), move |pattern: Str, text: Str, limit: isize| -> Result<Value, FuncError> {
        let regex = regex(&pattern)?;
        let parts = searched(&regex, &text, || regex.split(&text, at_most(limit)))?.map_err(too_slow)?;
        check_list("regexSplit", parts.len())?;
        // The result is nil only if no parts are requested; if there are no parts, it is an empty list.
        Ok(if limit == 0 { List::nil(ListType::String).into() } else { List::strings(parts).into() })
    });
    map.add(&format!("{prefix}ReplaceAll"), move |pattern: Str, text: Str, by: Str| -> Result<Vec<u8>, FuncError> {
        let regex = regex(&pattern)?;
        checked(searched(&regex, &text, || regex.replace_all(&text, &by))?)
    });
    map.add(
        &format!("{prefix}ReplaceAllLiteral"),
        move |pattern: Str, text: Str, by: Str| -> Result<Vec<u8>, FuncError> {
            let regex = regex(&pattern)?;
            checked(searched(&regex, &text, || regex.replace_all_literal(&text, &by))?)
        },
    );
}

fn checked(replaced: Result<Vec<u8>, TooSlow>) -> Result<Vec<u8>, FuncError> {
    let replaced = replaced.map_err(too_slow)?;
    check_string("regexReplaceAll", replaced.len())?;
    Ok(replaced)
}

fn too_slow(error: TooSlow) -> FuncError {
    exceeded("MAX_SEARCH_TIME", error.to_string())
}

/// Limits the number of matches to one more than a list may have. A negative limit requests all matches.
fn at_most(limit: isize) -> isize {
    let most = MAX_LIST_ITEMS as isize + 1;
    if limit < 0 { most } else { limit.min(most) }
}

/// Runs the search and charges steps for the sizes of pattern and text, and also for the time of an expensive search.
fn searched<T>(regex: &Regex, text: &[u8], search: impl FnOnce() -> T) -> Result<T, FuncError> {
    let work = regex.work(text.len());
    if work > MAX_SEARCH_WORK {
        let message = format!("the pattern is too large for a text of {} bytes", text.len());
        return Err(exceeded("MAX_SEARCH_WORK", message));
    }
    let started = Instant::now();
    let found = search();
    note_work(work / WORK_PER_STEP);
    let elapsed = started.elapsed();
    if elapsed >= SLOW_SEARCH {
        note_work(elapsed.as_micros() as u64 * STEPS_PER_MICROSECOND);
    }
    Ok(found)
}

/// Creates a `[]string`. Without items it is Go's nil slice, which is null in JSON.
fn strings<'t>(items: impl Iterator<Item = &'t [u8]>) -> Value {
    List::strings(items).into()
}

/// Compiles a pattern. Counterpart: `regexp.Compile`.
fn must(pattern: &[u8]) -> Result<Arc<Regex>, FuncError> {
    cached(pattern).map_err(|error| FuncError::new(error.to_string()))
}

/// Compiles a pattern. Counterpart: `regexp.MustCompile`, whose panic names the pattern.
fn compile(pattern: &[u8]) -> Result<Arc<Regex>, FuncError> {
    cached(pattern).map_err(|error: Error| {
        let quoted = match can_backquote(pattern) {
            true => format!("`{}`", String::from_utf8_lossy(pattern)),
            false => quote(pattern),
        };
        FuncError::new(format!("regexp: Compile({quoted}): {error}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_patterns_fail_with_gos_words() {
        let plain = "error parsing regexp: missing closing ): `(`";
        assert_eq!(must(b"(").unwrap_err().to_string(), plain);
        assert_eq!(compile(b"(").unwrap_err().to_string(), format!("regexp: Compile(`(`): {plain}"));
    }

    #[test]
    fn group_references_contain_only_gos_letters_and_digits() {
        // U+00B2 is a number, but not a digit; U+0345 is alphabetic, but not a letter.
        for (template, expected) in [("$1\u{b2}", "a\u{b2}"), ("$1\u{345}", "a\u{345}"), ("$1é", "")] {
            crate::test_call::check("regexReplaceAll", &["(a)".into(), "a".into(), template.into()], Ok(expected));
        }
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
