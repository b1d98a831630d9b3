//! Which objects of a kind a process lists and watches: those whose uid or namespace has a hash in certain ranges.
//!
//! The grammar is a part of upstream's, which also takes parentheses and other literals of CEL. Counterpart:
//! `pkg/sharding` of k8s.io/apimachinery and of k8s.io/apiserver (KEP-5866), whose parameter is alpha and off by
//! default.

use std::fmt;
use std::hash::Hasher as _;
use std::ops::RangeInclusive;
use std::str::FromStr;
use std::sync::Arc;

/// A selector of objects by ranges of hashes. Equal selectors select the same objects.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ShardSelector(Arc<Ranges>);

#[derive(Debug, PartialEq, Eq, Hash)]
struct Ranges {
    field: Field,
    /// Sorted; no two of them touch.
    ranges: Vec<RangeInclusive<u64>>,
}

/// The field whose value is hashed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Field {
    Uid,
    Namespace,
}

/// The reason why an expression is not a selector.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}; a valid one is shardRange(object.metadata.uid, '0x0000000000000000', '0x8000000000000000')")]
pub struct InvalidSelector(Wrong);

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
enum Wrong {
    #[error("{0:?} is not shardRange(FIELD, 'START', 'END')")]
    Call(String),
    #[error("{0:?} is neither object.metadata.uid nor object.metadata.namespace")]
    Field(String),
    #[error("ranges must not differ in their field")]
    Fields,
    #[error("{0:?} is not a hash in single quotes: '0x' and 16 lower-case digits, or '0x10000000000000000' as an end")]
    Hash(String),
    #[error("{0:?} is no range, because it must end after its start")]
    Empty(String),
}

/// The server sent an object that a selector does not select: it does not know the parameter, its feature gate is off,
/// or it hashes in another way.
///
/// The field `shardInfo` of a list's metadata says that a server honoured the selector, but not in lists of custom
/// resources, as of Kubernetes 1.36. So this checks the objects themselves, which works for every kind, and for watches
/// as well.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the API server sends resources outside --shard-selector: enable its feature gate ShardedListAndWatch \
     (Kubernetes 1.36) on every API server, or remove the flag"
)]
pub struct NotHonoured;

impl ShardSelector {
    /// Returns whether it selects an object with this uid and namespace, which is empty if it is cluster-scoped.
    pub fn selects(&self, uid: &str, namespace: &str) -> bool {
        let hash = hash(match self.0.field {
            Field::Uid => uid,
            Field::Namespace => namespace,
        });
        self.0.ranges.iter().any(|range| range.contains(&hash))
    }

    /// Returns a short name, which equal selectors share and others do not.
    pub fn digest(&self) -> String {
        format!("{:016x}", hash(&self.to_string()))
    }
}

impl fmt::Display for ShardSelector {
    /// Writes the expression as the API server repeats it in the metadata of a list.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, range) in self.0.ranges.iter().enumerate() {
            let (or, end) = (if at == 0 { "" } else { " || " }, u128::from(*range.end()) + 1);
            write!(f, "{or}shardRange({}, '{:#018x}', '{end:#018x}')", self.0.field.path(), range.start())?;
        }
        Ok(())
    }
}

impl FromStr for ShardSelector {
    type Err = InvalidSelector;

    fn from_str(text: &str) -> Result<ShardSelector, InvalidSelector> {
        let calls = text.split("||").map(|call| range(call.trim())).collect::<Result<Vec<_>, _>>();
        let (fields, ranges): (Vec<_>, Vec<_>) = calls.map_err(InvalidSelector)?.into_iter().unzip();
        // A split has at least one part.
        let field = fields.first().copied().unwrap_or(Field::Uid);
        match fields.iter().all(|other| *other == field) {
            true => Ok(ShardSelector(Arc::new(Ranges { field, ranges: united(ranges) }))),
            false => Err(InvalidSelector(Wrong::Fields)),
        }
    }
}

impl Field {
    fn path(self) -> &'static str {
        match self {
            Field::Uid => "object.metadata.uid",
            Field::Namespace => "object.metadata.namespace",
        }
    }
}

/// Returns the hash of a field's value: FNV-1a.
fn hash(value: &str) -> u64 {
    let mut hasher = fnv::FnvHasher::default();
    hasher.write(value.as_bytes());
    hasher.finish()
}

/// Parses `shardRange(FIELD, 'START', 'END')`.
fn range(call: &str) -> Result<(Field, RangeInclusive<u64>), Wrong> {
    let no_call = || Wrong::Call(call.to_owned());
    let rest = call.strip_prefix("shardRange").ok_or_else(no_call)?.trim_start();
    let inner = rest.strip_prefix('(').and_then(|rest| rest.strip_suffix(')')).ok_or_else(no_call)?;
    let parts: Vec<&str> = inner.split(',').map(str::trim).collect();
    let [path, start, end] = parts[..] else { return Err(no_call()) };
    let field = [Field::Uid, Field::Namespace].into_iter().find(|field| field.path() == path);
    let field = field.ok_or_else(|| Wrong::Field(path.to_owned()))?;
    let no_range = || Wrong::Empty(call.to_owned());
    // Only an end can be 2^64.
    let start = u64::try_from(bound(start)?).map_err(|_| no_range())?;
    let last = bound(end)?.checked_sub(1).filter(|last| *last >= u128::from(start)).ok_or_else(no_range)?;
    Ok((field, start..=u64::try_from(last).unwrap_or(u64::MAX)))
}

/// Parses a quoted hash, or 2^64.
fn bound(literal: &str) -> Result<u128, Wrong> {
    let digits = literal.strip_prefix("'0x").and_then(|rest| rest.strip_suffix('\''));
    let is_hash = |digits: &&str| digits.len() == 16 && digits.bytes().all(|c| matches!(c, b'0'..=b'9' | b'a'..=b'f'));
    let digits = digits.filter(|digits| is_hash(digits) || *digits == "10000000000000000");
    digits.and_then(|digits| u128::from_str_radix(digits, 16).ok()).ok_or_else(|| Wrong::Hash(literal.to_owned()))
}

/// Sorts ranges, and unites those that overlap or touch.
fn united(mut ranges: Vec<RangeInclusive<u64>>) -> Vec<RangeInclusive<u64>> {
    ranges.sort_by_key(|range| *range.start());
    let mut united: Vec<RangeInclusive<u64>> = Vec::new();
    for range in ranges {
        match united.last_mut() {
            Some(last) if *range.start() <= last.end().saturating_add(1) => {
                *last = *last.start()..=*last.end().max(range.end());
            }
            _ => united.push(range),
        }
    }
    united
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> ShardSelector {
        text.parse().unwrap()
    }

    #[test]
    fn values_have_the_hashes_of_the_api_server() {
        // By HashField of k8s.io/apimachinery v0.36.3.
        for (value, expected) in [
            ("", 0xcbf2_9ce4_8422_2325),
            ("a", 0xaf63_dc4c_8601_ec8c),
            ("default", 0xebad_a516_8620_c5fe),
            ("kube-system", 0xdf65_c7bc_1d82_b35e),
            ("team-7", 0xde90_5571_7d11_ce4c),
            ("0f8fad5b-d9cb-469f-a165-70867728950e", 0x3ec7_2038_cdc7_44c1),
            ("7c9e6679-7425-40de-944b-e07fc1f90ae7", 0x1b81_7976_6717_e9b3),
            ("00000000-0000-0000-0000-000000000000", 0x7c38_4c62_18f2_99f1),
            ("é", 0x0ac2_1707_b718_1e01),
        ] {
            assert_eq!(hash(value), expected, "{value}");
        }
    }

    #[test]
    fn an_expression_is_repeated_as_the_api_server_repeats_it() {
        let low = "shardRange(object.metadata.uid, '0x0000000000000000', '0x8000000000000000')";
        for (text, expected) in [
            (low, low),
            (" shardRange ( object.metadata.uid,'0x0000000000000000' ,\t'0x8000000000000000' )\n", low),
            (
                "shardRange(object.metadata.namespace, '0x8000000000000000', '0x10000000000000000')||\
                 shardRange(object.metadata.namespace, '0x0000000000000000', '0x4000000000000000')",
                "shardRange(object.metadata.namespace, '0x0000000000000000', '0x4000000000000000') || \
                 shardRange(object.metadata.namespace, '0x8000000000000000', '0x10000000000000000')",
            ),
        ] {
            assert_eq!(of(text).to_string(), expected, "{text}");
        }
    }

    #[test]
    fn expressions_that_select_the_same_are_equal() {
        let uid = |start: &str, end: &str| format!("shardRange(object.metadata.uid, '{start}', '{end}')");
        let (zero, four, eight) = ("0x0000000000000000", "0x4000000000000000", "0x8000000000000000");
        let whole = of(&uid(zero, "0x10000000000000000"));
        let halves = of(&format!("{} || {}", uid(eight, "0x10000000000000000"), uid(zero, eight)));
        let overlapping = of(&format!("{} || {}", uid(zero, "0x10000000000000000"), uid(four, eight)));
        assert_eq!((&halves, &overlapping), (&whole, &whole));
        assert_eq!(halves.digest(), whole.digest());
        let quarter = of(&uid(zero, four));
        assert!(quarter != whole && quarter.digest() != whole.digest());
        let apart = format!("{} || {}", uid(zero, four), uid(eight, "0x10000000000000000"));
        assert_eq!(of(&apart).to_string(), apart);
    }

    #[test]
    fn an_object_is_in_one_of_two_halves() {
        for field in ["uid", "namespace"] {
            let half = |start: &str, end: &str| of(&format!("shardRange(object.metadata.{field}, '{start}', '{end}')"));
            let low = half("0x0000000000000000", "0x8000000000000000");
            let high = half("0x8000000000000000", "0x10000000000000000");
            for n in 0..100 {
                let (uid, namespace) = (format!("uid-{n}"), format!("ns-{n}"));
                assert_ne!(low.selects(&uid, &namespace), high.selects(&uid, &namespace), "{field} {n}");
            }
        }
        // `a` has the hash 0xaf63dc4c8601ec8c.
        let exact = of("shardRange(object.metadata.uid, '0xaf63dc4c8601ec8c', '0xaf63dc4c8601ec8d')");
        let before = of("shardRange(object.metadata.uid, '0x0000000000000000', '0xaf63dc4c8601ec8c')");
        assert!(exact.selects("a", "ns") && !exact.selects("ns", "a") && !before.selects("a", "ns"));
    }

    #[test]
    fn an_invalid_expression_says_what_is_wrong_and_shows_a_valid_one() {
        let example = "; a valid one is shardRange(object.metadata.uid, '0x0000000000000000', '0x8000000000000000')";
        let uid = |bounds: &str| format!("shardRange(object.metadata.uid, {bounds})");
        let hash = |text: &str| {
            format!(
                "{text:?} is not a hash in single quotes: '0x' and 16 lower-case digits, \
                 or '0x10000000000000000' as an end"
            )
        };
        let call = |text: &str| format!("{text:?} is not shardRange(FIELD, 'START', 'END')");
        let (zero, eight) = ("'0x0000000000000000'", "'0x8000000000000000'");
        let valid = uid(&format!("{zero}, {eight}"));
        for (text, expected) in [
            (String::new(), call("")),
            ("shard=a".to_owned(), call("shard=a")),
            (uid(zero), call(&uid(zero))),
            (format!("{valid} ||"), call("")),
            (format!("({valid})"), call(&format!("({valid})"))),
            (format!("{valid} && {valid}"), call(&format!("{valid} && {valid}"))),
            (
                format!("shardRange(metadata.uid, {zero}, {eight})"),
                "\"metadata.uid\" is neither object.metadata.uid nor object.metadata.namespace".to_owned(),
            ),
            (
                format!("{valid} || {}", valid.replace("uid", "namespace")),
                "ranges must not differ in their field".to_owned(),
            ),
            (uid(&format!("'0x0', {eight}")), hash("'0x0'")),
            (uid(&format!("0, {eight}")), hash("0")),
            (uid(&format!("{zero}, '0xA000000000000000'")), hash("'0xA000000000000000'")),
            (uid(&format!("{zero}, '0x20000000000000000'")), hash("'0x20000000000000000'")),
            (
                uid(&format!("{eight}, {eight}")),
                format!("{:?} is no range, because it must end after its start", uid(&format!("{eight}, {eight}"))),
            ),
            (
                uid(&format!("'0x10000000000000000', {eight}")),
                format!(
                    "{:?} is no range, because it must end after its start",
                    uid(&format!("'0x10000000000000000', {eight}"))
                ),
            ),
            (
                uid(&format!("{zero}, {zero}")),
                format!("{:?} is no range, because it must end after its start", uid(&format!("{zero}, {zero}"))),
            ),
        ] {
            let message = text.parse::<ShardSelector>().unwrap_err().to_string();
            assert_eq!(message, format!("{expected}{example}"), "{text}");
        }
    }
}
