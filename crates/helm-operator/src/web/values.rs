//! The values of a release, each with its origin. Sources of values are read for this view, because the process keeps
//! only their digests: those that the caller may get themselves.

use controller::report::chain;
use controller::server::{Access, Right};
use helm_release::kube::{Call, Error};

use super::address::ValueRows;
use super::sight::FoundRelease;
use crate::inspect::model::Name;
use crate::origins::rows::{Row, rows};
use crate::origins::{self, Inputs};
use crate::reconcile::controller_context::ControllerContext;
use crate::values_from::{self, Content, Contents, Resolved, keys_of};
use crate::view::sources::named::named;
use crate::watches::OverrideValuesType;

/// The maximum number of values on a page.
pub(crate) const MAX_ROWS: usize = 1000;

pub(crate) struct Values {
    pub(crate) resource: Name,
    pub(crate) which: ValueRows,
    /// Ordered by path.
    pub(crate) rows: Vec<Row>,
    pub(crate) omitted: usize,
    /// What the reader must know.
    pub(crate) notes: Vec<String>,
}

/// Returns a release's values. Errors become notes.
///
/// # Errors
/// The API server does not say what the caller may read.
pub(crate) async fn values(found: &FoundRelease, access: &dyn Access, which: ValueRows) -> Result<Values, Error> {
    let FoundRelease { controller, primary, .. } = found;
    let mut shown = Values { resource: found.name(), which, rows: Vec::new(), omitted: 0, notes: Vec::new() };
    let settings = &controller.settings;
    let sources = match named(primary, &settings.values_from, &settings.values_from_annotation) {
        Ok(sources) => sources,
        Err(error) => {
            shown.notes.push(chain(&error));
            return Ok(shown);
        }
    };
    let Some(contents) = read(controller, access, &sources, &mut shown.notes).await? else { return Ok(shown) };
    match traced(found, sources, contents).await {
        Ok((rows, warnings)) => {
            shown.rows = rows;
            shown.notes.extend(warnings);
        }
        Err(why) => shown.notes.push(why),
    }
    shown.rows.retain(|row| which == ValueRows::All || row.is_changed());
    shown.omitted = shown.rows.len().saturating_sub(MAX_ROWS);
    shown.rows.truncate(MAX_ROWS);
    Ok(shown)
}

/// Reads the sources that the caller may get; notes name the others. Returns `None` with a note if together they would
/// also be too large for a reconcile.
async fn read(
    controller: &ControllerContext,
    access: &dyn Access,
    sources: &[Resolved],
    notes: &mut Vec<String>,
) -> Result<Option<Contents>, Error> {
    let mut contents = Contents::default();
    for source in sources {
        let namespace = &source.key.namespace;
        if contents.get(source).is_none() {
            let content = match content(controller, access, source, sources).await? {
                Ok(content) => content,
                Err(why) => {
                    notes.push(why);
                    continue;
                }
            };
            if let Err(error) = contents.add(source.key.clone(), content) {
                notes.push(chain(&error));
                return Ok(None);
            }
        }
        notes.extend(contents.lack(source).map(|what| format!("{source}, in namespace {namespace:?}, {what}.")));
    }
    Ok(Some(contents))
}

/// Reads the keys of a source's object that any source names; returns a note if that is not possible.
async fn content(
    controller: &ControllerContext,
    access: &dyn Access,
    source: &Resolved,
    sources: &[Resolved],
) -> Result<Result<Content, String>, Error> {
    let (kind, namespace) = (source.key.kind, &source.key.namespace);
    if !access.has(Right { verb: "get", group: "", plural: kind.plural(), namespace }).await? {
        return Ok(Err(format!("You may not get {source}, in namespace {namespace:?}: what it sets is not shown.")));
    }
    let keys = keys_of(sources, &source.key);
    let content = match controller.api.send(Call::get(source.key.path())).await {
        Ok(answer) => Content::read(kind, &answer.body, &|key| keys.contains(key)),
        Err(error) if error.is_not_found() => Some(Content::default()),
        Err(_) => None,
    };
    let unread = || format!("{source}, in namespace {namespace:?}, cannot be read: what it sets is not shown.");
    Ok(content.ok_or_else(unread))
}

/// Traces the values, apart from other work: charts and specs may be large.
async fn traced(
    found: &FoundRelease,
    sources: Vec<Resolved>,
    contents: Contents,
) -> Result<(Vec<Row>, Vec<String>), String> {
    let (renderer, spec) = (found.controller.renderer.clone(), found.primary.spec.clone());
    let keeps_strings = found.records.as_ref().is_some_and(|release| release.has_string_overrides(&found.primary));
    let work = move || {
        let Some(chart) = renderer.chart_with_lines() else {
            return Err("The chart is not known here: it changed on the disk, or it is code.".to_owned());
        };
        let nothing = crate::watches::Overrides::default();
        let overrides = renderer.overrides().unwrap_or(&nothing);
        let open = if keeps_strings { OverrideValuesType::String } else { OverrideValuesType::Typed };
        let overrides_type = overrides.kind().unwrap_or(open);
        let found: Vec<values_from::FoundSource<'_>> =
            sources.iter().map(|source| values_from::FoundSource { source, bytes: contents.bytes(source) }).collect();
        let inputs = Inputs { sources: &found, spec: &spec, overrides, overrides_type };
        let values = origins::values(&chart, &inputs).map_err(|error| chain(&error))?;
        Ok((rows(&values), values.traced.warnings.clone()))
    };
    outside::apart(work).await.unwrap_or_else(|| Err("Merging the values failed.".to_owned()))
}
