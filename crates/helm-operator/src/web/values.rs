//! The values of a release, each with its origin. Sources of values are read for this view, because the process keeps
//! only their digests: those that the caller may get themselves.

use controller::report::chain;
use controller::server::{Access, Right};
use helm_release::kube::{Call, Error};

use super::address::ValueRows;
use super::sight::Found;
use crate::inspect::model::Name;
use crate::origins::rows::{Row, rows};
use crate::origins::{self, Inputs};
use crate::reconcile::controller_context::ControllerContext;
use crate::values_from::{self, Content, Resolved, SourceKind};
use crate::view::sources::named::named;
use crate::watches::OverrideValuesType;

/// The maximum number of values on a page.
pub(crate) const MAX_ROWS: usize = 1000;

/// The values of a release.
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
pub(crate) async fn values(found: &Found, access: &dyn Access, which: ValueRows) -> Result<Values, Error> {
    let Found { controller, primary, .. } = found;
    let mut shown = Values { resource: found.name(), which, rows: Vec::new(), omitted: 0, notes: Vec::new() };
    let settings = &controller.settings;
    let sources = match named(primary, &settings.values_from, &settings.values_from_annotation) {
        Ok(named) => read(controller, access, named, &mut shown.notes).await?,
        Err(error) => {
            shown.notes.push(chain(&error));
            return Ok(shown);
        }
    };
    match traced(found, sources).await {
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

/// Reads the sources that the caller may get; `None` instead of others, which a note names.
async fn read(
    controller: &ControllerContext,
    access: &dyn Access,
    named: Vec<Resolved>,
    notes: &mut Vec<String>,
) -> Result<Vec<(Resolved, Option<Content>)>, Error> {
    let mut sources = Vec::new();
    for source in named {
        let namespace = source.key.namespace.clone();
        let plural = match source.key.kind {
            SourceKind::Secret => "secrets",
            SourceKind::ConfigMap => "configmaps",
        };
        if !access.has(Right { verb: "get", group: "", plural, namespace: &namespace }).await? {
            notes.push(format!("You may not get {source}, in namespace {namespace:?}: what it sets is not shown."));
            sources.push((source, None));
            continue;
        }
        let content = match controller.api.send(Call::get(source.key.path())).await {
            Ok(answer) => Content::read(source.key.kind, &answer.body, &|key| key == source.values_key),
            Err(error) if error.is_not_found() => {
                notes.push(format!("{source}, in namespace {namespace:?}, does not exist."));
                None
            }
            Err(_) => {
                notes.push(format!("{source}, in namespace {namespace:?}, cannot be read: what it sets is not shown."));
                None
            }
        };
        if content.as_ref().is_some_and(|content| content.get(&source.values_key).is_none()) {
            notes.push(format!("{source}, in namespace {namespace:?}, has no such key."));
        }
        sources.push((source, content));
    }
    Ok(sources)
}

/// Traces the values, apart from other work: charts and specs may be large.
async fn traced(found: &Found, sources: Vec<(Resolved, Option<Content>)>) -> Result<(Vec<Row>, Vec<String>), String> {
    let (renderer, spec) = (found.controller.renderer.clone(), found.primary.spec.clone());
    let keeps_strings = found.records.as_ref().is_some_and(|release| release.has_string_overrides());
    let work = move || {
        let Some(chart) = renderer.chart_with_lines() else {
            return Err("The chart is not known here: it changed on the disk, or it is code.".to_owned());
        };
        let nothing = crate::watches::Overrides::default();
        let overrides = renderer.overrides().unwrap_or(&nothing);
        let open = if keeps_strings { OverrideValuesType::String } else { OverrideValuesType::Typed };
        let overrides_type = overrides.kind().unwrap_or(open);
        let found: Vec<values_from::Found<'_>> = sources
            .iter()
            .map(|(source, content)| values_from::Found {
                source,
                bytes: content.as_ref().and_then(|content| content.get(&source.values_key)),
            })
            .collect();
        let inputs = Inputs { sources: &found, spec: &spec, overrides, overrides_type };
        let values = origins::values(&chart, &inputs).map_err(|error| chain(&error))?;
        Ok((rows(&values), values.traced.warnings.clone()))
    };
    outside::apart(work).await.unwrap_or_else(|| Err("Merging the values failed.".to_owned()))
}
