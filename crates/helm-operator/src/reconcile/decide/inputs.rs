//! Digests the inputs of a release, and compares such digests. Pure.

use std::collections::BTreeMap;

use helm_release::kube::digest_json;
use serde_json::json;
use strum::{EnumIter, IntoEnumIterator as _, IntoStaticStr};

use super::state::Inputs;
use crate::values_from::SourceKind;
use crate::view::primary::Primary;

/// The version of the digest scheme. Digests of different schemes are not compared; the record decides instead.
const SCHEME: &str = "2";

/// An input with a fixed name in records, in the order of their digests. Sources are named after their objects, and the
/// resource's own part is not one of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumIter, IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub(crate) enum NamedInput {
    Chart,
    Overrides,
    /// The post-renderers of the operator's author.
    Code,
    Labels,
    Annotations,
    Patches,
    Capabilities,
    /// What the operator's value mapper returned.
    Mapped,
}

/// The recorded differences between two digests of inputs.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Changed {
    /// Whether the resource's own part differs.
    pub(crate) own: bool,
    /// The names of the other inputs that differ.
    pub(crate) parts: Vec<String>,
}

impl Changed {
    pub(crate) fn has(&self, input: NamedInput) -> bool {
        self.parts.iter().any(|name| name == input.name())
    }

    /// Returns the names of the sources of values that differ.
    pub(crate) fn sources(&self) -> impl Iterator<Item = &String> {
        self.parts.iter().filter(|name| NamedInput::iter().all(|input| *name != input.name()))
    }
}

impl NamedInput {
    /// Returns the name in records.
    pub(crate) fn name(self) -> &'static str {
        self.into()
    }

    /// Returns the inputs that all resources of a kind share, and that a rollout brings to them.
    pub(crate) fn shared() -> impl Iterator<Item = NamedInput> {
        NamedInput::iter().filter(|input| input.is_shared())
    }

    fn is_shared(self) -> bool {
        match self {
            NamedInput::Chart
            | NamedInput::Overrides
            | NamedInput::Code
            | NamedInput::Labels
            | NamedInput::Annotations
            | NamedInput::Patches => true,
            // No one rolls out what a cluster serves.
            NamedInput::Capabilities | NamedInput::Mapped => false,
        }
    }

    /// Returns whether a change of it changes the release even if chart and values are equal. Of the other inputs, only
    /// the record can show whether they still lead to the same chart and values.
    pub(crate) fn is_decisive(self) -> bool {
        match self {
            NamedInput::Chart | NamedInput::Overrides | NamedInput::Mapped => false,
            NamedInput::Code
            | NamedInput::Labels
            | NamedInput::Annotations
            | NamedInput::Patches
            | NamedInput::Capabilities => true,
        }
    }
}

/// Combines the digest of all inputs with its scheme and with the digest of the resource's own part. The latter shows
/// who caused a change. It is not compared, because earlier versions did not record it.
pub(crate) fn with_scheme(all: &str, own: &str) -> String {
    format!("{SCHEME}:{all}.{own}")
}

/// Appends a digest per input: `name=digest,…`. They only explain a change, so they are not compared.
pub(crate) fn with_parts(digest: &str, parts: &str) -> String {
    format!("{digest}.{parts}")
}

/// Splits a digest into the digest of all inputs and, if it is recorded, the digest of the resource's own part.
fn parts(digest: &str) -> (&str, Option<&str>) {
    let mut parts = digest.splitn(3, '.');
    (parts.next().unwrap_or_default(), parts.next())
}

/// Compares two digests input by input.
pub(crate) fn changed_parts(recorded: &str, current: &str) -> Changed {
    let rest = |digest: &str| digest.splitn(3, '.').nth(2).map(str::to_owned);
    let named = |rest: &str| -> BTreeMap<String, String> {
        rest.split(',').filter_map(|part| part.rsplit_once('=')).map(|(n, d)| (n.to_owned(), d.to_owned())).collect()
    };
    let own = parts(recorded).1.is_some_and(|own| Some(own) != parts(current).1);
    let (Some(old), Some(new)) = (rest(recorded), rest(current)) else { return Changed { own, parts: Vec::new() } };
    let (old, new) = (named(&old), named(&new));
    let names = old.keys().chain(new.keys().filter(|name| !old.contains_key(*name)));
    let parts = names.filter(|name| old.get(*name) != new.get(*name)).cloned().collect();
    Changed { own, parts }
}

/// Returns whether the inputs with these names are the same in two digests. Missing in both counts as the same.
pub(crate) fn has_same(one: &str, other: &str, names: &[&str]) -> bool {
    let of = |digest: &str, name: &str| {
        let parts = digest.splitn(3, '.').nth(2).unwrap_or_default();
        parts.split(',').filter_map(|part| part.rsplit_once('=')).find(|(of, _)| *of == name).map(|(_, d)| d.to_owned())
    };
    names.iter().all(|name| of(one, name) == of(other, name))
}

/// Returns whether a Secret is among the sources of the values, if the digest names them.
pub(crate) fn has_secret_source(digest: &str) -> bool {
    let parts = digest.splitn(3, '.').nth(2).unwrap_or_default();
    parts.split(',').any(|part| part.split_once('/').is_some_and(|(kind, _)| kind == SourceKind::Secret.as_str()))
}

/// Compares a revision's inputs with the resource's, as far as digests allow.
pub(crate) fn judge(recorded: Option<&str>, current: &str) -> Inputs {
    match recorded {
        Some(recorded) if is_equal(recorded, current) => Inputs::Same,
        Some(recorded) if recorded.split_once(':').is_none_or(|(scheme, _)| scheme != SCHEME) => Inputs::Uncompared,
        _ => Inputs::Changed,
    }
}

/// Returns the digest of the resource's own part, if it is recorded. Anyone who may read the resource can compute it.
pub(crate) fn own_part(digest: &str) -> Option<&str> {
    parts(digest).1
}

/// Returns whether two digests represent the same inputs.
pub(crate) fn is_equal(recorded: &str, current: &str) -> bool {
    parts(recorded).0 == parts(current).0
}

/// Returns whether the resource's own part has this digest. A record without that part counts as equal.
pub(crate) fn has_own(recorded: &str, own: &str) -> bool {
    parts(recorded).1.is_none_or(|recorded| recorded == own)
}

/// Returns whether only inputs outside the resource differ: chart, override values or value sources. A record that does
/// not name the resource's own part counts as equal in it.
pub(crate) fn is_from_outside(recorded: &str, current: &str) -> bool {
    !is_equal(recorded, current) && has_own(recorded, parts(current).1.unwrap_or_default())
}

/// Returns whether only sources of values differ. They are in the resource's namespace, so they are its owner's. The
/// values that the operator's value mapper returns follow from them.
pub(crate) fn is_by_sources(recorded: &str, current: &str) -> bool {
    let changed = changed_parts(recorded, current);
    let is_other = |input: NamedInput| input != NamedInput::Mapped && changed.has(input);
    !changed.own && !NamedInput::iter().any(is_other) && changed.sources().next().is_some()
}

/// Returns whether only the kinds that the cluster serves differ.
pub(crate) fn is_by_kinds(recorded: &str, current: &str) -> bool {
    let changed = changed_parts(recorded, current);
    !changed.own && changed.parts == [NamedInput::Capabilities.name()]
}

/// Returns the resource's own part of the inputs.
pub(crate) fn own(primary: &Primary) -> [&str; 3] {
    [primary.spec.digest(), primary.name(), primary.namespace()]
}

/// Digests the resource's own part of the inputs.
pub(crate) fn own_digest(primary: &Primary) -> String {
    digest_json(&json!(own(primary)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_digests_of_the_same_scheme_show_a_change() {
        let current = with_scheme("abc", "def");
        for (recorded, expected) in [
            (Some("2:abc.def"), Inputs::Same),
            (Some("2:abc"), Inputs::Same),
            (Some("2:abc.def.chart=1"), Inputs::Same),
            (Some("2:abd.def"), Inputs::Changed),
            (Some("2:abd"), Inputs::Changed),
            (Some("1:abc"), Inputs::Uncompared),
            (Some("3:abc.def"), Inputs::Uncompared),
            (Some("abc"), Inputs::Uncompared),
            (Some(""), Inputs::Uncompared),
            (None, Inputs::Changed),
        ] {
            assert_eq!(judge(recorded, &current), expected, "{recorded:?}");
        }
    }

    #[test]
    fn a_digest_names_the_kinds_of_its_sources() {
        for (digest, expected) in [
            ("2:abc.def.chart=1,Secret/web-values/values.yaml=2", true),
            ("2:abc.def.chart=1,ConfigMap/Secret/a=2", false),
            ("2:abc.def", false),
            ("", false),
        ] {
            assert_eq!(has_secret_source(digest), expected, "{digest:?}");
        }
    }

    #[test]
    fn a_digest_shows_whether_only_sources_changed() {
        let current = "2:abc.def.chart=1,Secret/web-auth/password=2,mapped=3";
        for (recorded, expected) in [
            ("2:abd.def.chart=1,Secret/web-auth/password=1,mapped=3", true),
            ("2:abd.def.chart=1,Secret/web-auth/password=1,mapped=2", true),
            ("2:abd.def.chart=1,mapped=3", true),
            ("2:abd.def.chart=0,Secret/web-auth/password=1,mapped=3", false),
            ("2:abd.def.chart=1,capabilities=1,Secret/web-auth/password=1,mapped=3", false),
            ("2:abd.def.chart=1,Secret/web-auth/password=2,mapped=2", false),
            ("2:abd.deg.chart=1,Secret/web-auth/password=1,mapped=3", false),
            ("2:abd.def", false),
        ] {
            assert_eq!(is_by_sources(recorded, current), expected, "{recorded:?}");
        }
    }

    #[test]
    fn a_digest_shows_whether_only_kinds_changed() {
        let current = "2:abc.def.chart=1,capabilities=2";
        for (recorded, expected) in [
            ("2:abd.def.chart=1,capabilities=1", true),
            ("2:abd.def.chart=1", true),
            ("2:abd.def.chart=0,capabilities=1", false),
            ("2:abd.deg.chart=1,capabilities=1", false),
            ("2:abd.def.chart=1,capabilities=1,mapped=3", false),
            ("2:abd.def.chart=1,capabilities=2", false),
            ("2:abd.def", false),
        ] {
            assert_eq!(is_by_kinds(recorded, current), expected, "{recorded:?}");
        }
    }

    #[test]
    fn a_digest_shows_whether_the_resource_itself_changed() {
        for (recorded, expected) in [
            ("2:abc.def", false),
            ("2:abd.def", true),
            ("2:abd.def.chart=1", true),
            ("2:abd.deg", false),
            ("2:abd", true),
            ("2:abc", false),
            ("", true),
        ] {
            assert_eq!(is_from_outside(recorded, &with_scheme("abc", "def")), expected, "{recorded:?}");
        }
    }
}
