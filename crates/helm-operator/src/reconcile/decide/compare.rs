//! Whether a recorded revision was made from the resource's chart and values when its digest cannot tell, because Helm, an upstream or another
//! version of this operator wrote it. If so, the revision stays as it was rendered, random values included, and only the digest is written.

use std::collections::BTreeMap;
use std::sync::Arc;

use helm_release::release::Release as Record;
use helm_release::storage::Marks;

use super::state::Inputs;
use crate::reconcile::context::{Next, Work};
use crate::reconcile::failure::Failed;
use crate::reconcile::steps::repair::{deployed, fault, note_inputs};
use crate::view::primary::Primary;
use crate::view::release::Release;

/// The scheme by which digests of inputs are made. Digests of different schemes are not compared; the record decides.
const SCHEME: &str = "2";

/// The digest of all inputs with its scheme, and with the digest of the resource's own part. The latter tells who caused a change and is not compared:
/// earlier versions did not record it.
pub(crate) fn with_scheme(all: &str, own: &str) -> String {
    format!("{SCHEME}:{all}.{own}")
}

/// The digest with one for each input: `name=digest,…`. Only [`changed_parts`] reads them.
pub(crate) fn with_parts(digest: &str, parts: &str) -> String {
    format!("{digest}.{parts}")
}

/// The digest of all inputs, and that of the resource's own part if it is recorded.
fn parts(digest: &str) -> (&str, Option<&str>) {
    let mut parts = digest.splitn(3, '.');
    (parts.next().unwrap_or_default(), parts.next())
}

/// What differs between two digests of inputs, as far as they tell.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Changed {
    /// Whether the resource's own part does.
    pub(crate) own: bool,
    /// The names of other inputs that do.
    pub(crate) parts: Vec<String>,
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

/// A revision's inputs against the resource's, as far as digests can tell.
pub(crate) fn judge(recorded: Option<&str>, current: &str) -> Inputs {
    match recorded {
        Some(recorded) if is_equal(recorded, current) => Inputs::Same,
        Some(recorded) if recorded.split_once(':').is_none_or(|(scheme, _)| scheme != SCHEME) => Inputs::Uncompared,
        _ => Inputs::Changed,
    }
}

/// Whether two digests stand for the same inputs.
pub(crate) fn is_equal(recorded: &str, current: &str) -> bool {
    parts(recorded).0 == parts(current).0
}

/// Whether the resource's own part is this one, as far as the record tells.
pub(crate) fn has_own(recorded: &str, own: &str) -> bool {
    parts(recorded).1.is_none_or(|recorded| recorded == own)
}

/// Whether only inputs outside the resource differ: chart, override values or sources. A record that cannot tell counts as if they did.
pub(crate) fn is_from_outside(recorded: &str, current: &str) -> bool {
    !is_equal(recorded, current) && has_own(recorded, parts(current).1.unwrap_or_default())
}

/// Compares the deployed revision's chart and values with the resource's, and records today's digest if they are equal.
pub(crate) async fn compare(work: &mut Work<'_>, primary: &Primary) -> Result<Next, Failed> {
    let Some((version, marks)) = deployed(work) else { return Ok(Next::Done) };
    work.load_sources(primary).await?;
    work.judged = Some(Inputs::Changed);
    let Some(record) = read(work, primary, version).await? else { return Ok(Next::Again) };
    if is_made_from(work, primary, &record) {
        work.judged = Some(Inputs::Same);
        work.drop_source_values();
        // Otherwise taking ownership of the objects records it.
        let is_own = work.release().as_deref().and_then(Release::deployed).is_some_and(|(_, r)| r.is_sealed());
        if is_own && marks.complete && *marks.owner == *primary.uid() {
            note_inputs(work, primary, version, work.recorded_inputs(primary)).await?;
        }
    }
    Ok(Next::Again)
}

/// The revision's record; `None` if it cannot be decoded, since then it proves nothing.
async fn read(work: &Work<'_>, primary: &Primary, version: u32) -> Result<Option<Record>, Failed> {
    let packed = work.release().and_then(|release| release.packed.clone()).filter(|(known, _)| *known == version);
    if let Some((_, packed)) = packed {
        return Ok(packed.facts().unpack().ok());
    }
    match work.shared.storage.get(primary.namespace(), primary.name(), version).await {
        Ok(record) => Ok(Some(record.release.facts().clone())),
        Err(error) if error.is_damage() => Ok(None),
        Err(error) => Err(fault(&error.into())),
    }
}

/// Whether a record proves that it was made from the resource's chart and values.
pub(crate) fn is_made_from(work: &Work<'_>, primary: &Primary, record: &Record) -> bool {
    let sources = work.shared.renderer.sources(&work.effective_spec(primary), work.overrides_type());
    let Some((chart, values)) = sources else { return false };
    let difference = record.differs_from(&chart, &values);
    match &difference {
        Ok(None) => {
            tracing::info!(resource = %work.key, revision = record.version, "The record has the same chart and values")
        }
        Ok(Some(what)) => {
            tracing::info!(resource = %work.key, revision = record.version, "Not proven equal to the record: {what}")
        }
        Err(error) => {
            tracing::info!(resource = %work.key, revision = record.version, %error, "Cannot read the recorded chart")
        }
    }
    matches!(difference, Ok(None))
}

/// Gives a pending revision today's digest, so that its finished steps are not repeated.
pub(crate) fn mark_as_current(work: &Work<'_>, version: u32, marks: &Marks, inputs: &str) {
    let marks = Arc::new(Marks { inputs: inputs.to_owned(), ..marks.clone() });
    work.shared.cache.change_release(work.key, |release| {
        release.revisions.entry(version).and_modify(|revision| revision.marks = Some(marks));
    });
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
    fn a_digest_tells_whether_the_resource_itself_changed() {
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
