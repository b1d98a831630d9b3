//! Handles the value sources in a reconcile: which ones a resource has, whether they have changed, and their values
//! while they are needed.

use std::collections::BTreeSet;
use std::sync::Arc;

use controller::report::chain;
use helm_release::kube::Call;
use serde_json::{Value, json};

use super::causes;
use crate::mask::Mask;
use crate::reconcile::controller_context::ControllerContext;
use crate::reconcile::decide::inputs::NamedInput;
use crate::reconcile::decide::interruption::Used;
use crate::reconcile::failure::{Failed, FailedAttempt, Unanswered};
use crate::reconcile::learned::{Learned, Loaded};
use crate::reconcile::report::faults::invalid_annotation;
use crate::reconcile::step_context::StepContext;
use crate::status::reason::Reason;
use crate::values::Spec;
use crate::values_from::{self, Content, Contents, FoundSource, MergeError, Resolved, SourceKey, SourceKind, keys_of};
use crate::view::primary::Primary;
use crate::view::sources::named::{Unnamed, named};
use crate::view::sources::registry::{Known, Read};

impl StepContext<'_> {
    /// Records the resource's sources, so that a change of one wakes it.
    pub(crate) fn depend_on_sources(&self, primary: &Primary) {
        let idle = primary.deleting || primary.annotations.suspend() || primary.annotations.pause();
        let sources = if idle { Vec::new() } else { self.sources(primary).unwrap_or_default() };
        let user = (self.shared.settings.controller.clone(), self.key.clone());
        self.shared.sources.depend(user, sources.into_iter().map(|source| (source.key, source.values_key.into())));
    }

    /// Returns the resource's sources: those of its watch, then those of its annotation.
    fn sources(&self, primary: &Primary) -> Result<Vec<Resolved>, Failed> {
        let settings = &self.shared.settings;
        named(primary, &settings.values_from, &settings.values_from_annotation).map_err(|error| match error {
            Unnamed::Watch(_) => FailedAttempt::invalid_values(error.to_string()).into(),
            Unnamed::Annotation(_) => invalid_annotation(&error.to_string()).into(),
        })
    }

    /// Returns whether a Secret is among the resource's sources, or may be because they are unknown.
    pub(crate) fn has_secret_source(&self, primary: &Primary) -> bool {
        self.sources(primary).map_or(true, |all| all.iter().any(|source| source.key.kind == SourceKind::Secret))
    }

    /// Returns whether the content of every source is known, and no required source is missing.
    pub(crate) fn knows_sources(&self, primary: &Primary) -> bool {
        let is_known = |source: &Resolved| match self.shared.sources.known(&source.key, &source.values_key) {
            Known::Digest(digest) => source.optional || digest.is_some(),
            Known::Unread(_) => false,
        };
        self.found.loaded.is_some()
            || !self.maps_values() && self.sources(primary).is_ok_and(|sources| sources.iter().all(is_known))
    }

    /// Returns the digest of the sources and mapped values, for the digest of the inputs; `None` if there are none. It
    /// differs whenever a source may have changed.
    pub(crate) fn sources_digest(&self, primary: &Primary) -> Option<Value> {
        if let Some(loaded) = &self.found.loaded {
            return Some(loaded.digest.clone());
        }
        let known = self.known_digest(primary);
        // Only the mappers can determine the values.
        if self.maps_values() { Some(json!(["unmapped", known])) } else { known }
    }

    /// Returns the same digests individually, under the names that records contain.
    pub(crate) fn source_parts(&self, primary: &Primary) -> Vec<(String, Value)> {
        let Some(Value::Array(digests)) = self.sources_digest(primary) else { return Vec::new() };
        let name =
            |source: &Resolved| causes::source_part(source.key.kind.as_str(), &source.key.name, &source.values_key);
        let mut names: Vec<String> = self.sources(primary).unwrap_or_default().iter().map(name).collect();
        names.resize(digests.len(), NamedInput::Mapped.name().to_owned());
        names.into_iter().zip(digests).collect()
    }

    fn known_digest(&self, primary: &Primary) -> Option<Value> {
        let Ok(sources) = self.sources(primary) else { return Some("invalid".into()) };
        let part = |source: &Resolved| match self.shared.sources.known(&source.key, &source.values_key) {
            Known::Digest(of) => digest(source, of.as_deref()),
            Known::Unread(changes) => json!(["unread", changes]),
        };
        (!sources.is_empty()).then(|| sources.iter().map(part).collect())
    }

    /// Returns the values to render with: the `spec` merged over the contents that [`StepContext::load_sources`] read.
    pub(crate) fn effective_spec(&self, primary: &Primary) -> Spec {
        self.found.loaded.as_ref().and_then(|loaded| loaded.spec.clone()).unwrap_or_else(|| primary.spec.clone())
    }

    /// Returns a mask of the contents of Secrets among the sources, until they are dropped.
    pub(crate) fn secrets(&self) -> Mask {
        self.found.loaded.as_ref().map(|loaded| loaded.mask.clone()).unwrap_or_default()
    }

    /// Returns a mask that also redacts the override values, which may come from the operator's environment: as charts
    /// see them, and as watches.yaml has them, which an event quotes.
    pub(crate) fn secrets_and_overrides(&self) -> Mask {
        let mut mask = self.secrets();
        if let Some(overrides) = self.shared.renderer.overrides() {
            overrides.add_to(&mut mask);
        }
        mask
    }

    /// Reads the sources, unless this reconcile has already done so. Returns their contents.
    ///
    /// # Errors
    /// A source is missing, unreadable or invalid.
    pub(crate) async fn load_sources(&self, primary: &Primary) -> Result<Learned, Failed> {
        let sources = self.sources(primary)?;
        if (sources.is_empty() && !self.maps_values())
            || self.found.loaded.as_ref().is_some_and(|loaded| loaded.spec.is_some())
        {
            return Ok(Learned::Sources(self.found.loaded.clone()));
        }
        let (mut digests, spec, mask) = self.merged(primary, &sources).await?;
        let spec = self.map_values(primary, spec).await?;
        if self.maps_values() {
            digests.push(json!(["mapped", spec.digest()]));
        }
        Ok(Learned::Sources(Some(Arc::new(Loaded { digest: digests.into(), spec: Some(spec), mask }))))
    }

    /// Reads the sources and merges them below the `spec`. Also returns their digests.
    async fn merged(&self, primary: &Primary, sources: &[Resolved]) -> Result<(Vec<Value>, Spec, Mask), Failed> {
        let invalid = |error: MergeError| FailedAttempt::invalid_values(error.to_string());
        let _permit = if sources.is_empty() { None } else { self.shared.sources.loading().await };
        let mut contents = Contents::default();
        for source in sources {
            if contents.get(source).is_none() {
                let content = read_source(self.shared, &source.key, &keys_of(sources, &source.key)).await?;
                contents.add(source.key.clone(), content).map_err(invalid)?;
            }
        }
        let mut found = Vec::new();
        for source in sources {
            match contents.lack(source) {
                Some(what) if !source.optional => return Err(missing(source, what).into()),
                _ => found.push(FoundSource { source, bytes: contents.bytes(source) }),
            }
        }
        let of = |source: &Resolved| {
            let content = contents.get(source).and_then(|content| content.digest(&source.values_key));
            digest(source, content.as_deref())
        };
        let digests = sources.iter().map(of).collect();
        let (spec, mask) = values_from::merge(&found, &primary.spec).map_err(invalid)?;
        Ok((digests, spec, mask))
    }

    /// Returns the sources that this reconcile has read, with the digests of their contents.
    pub(crate) fn used_sources(&self, primary: &Primary) -> Vec<Used> {
        match self.found.loaded.as_ref().map(|loaded| &loaded.digest) {
            Some(Value::Array(digests)) => {
                self.sources(primary).unwrap_or_default().into_iter().zip(digests.clone()).collect()
            }
            _ => Vec::new(),
        }
    }
}

/// Returns whether one of these sources has changed. Reads only those for which a watch has reported a change. A source
/// that cannot be read, or is missing for a moment, counts as unchanged.
pub(crate) async fn have_changed(shared: &ControllerContext, used: &[Used]) -> bool {
    for (source, before) in used {
        let values_key = source.values_key.as_str();
        let read = match shared.sources.known(&source.key, values_key) {
            Known::Digest(of) => Some(of),
            Known::Unread(_) => {
                let _permit = shared.sources.loading().await;
                let read = read_source(shared, &source.key, &BTreeSet::from([values_key])).await;
                read.ok().map(|content| content.digest(values_key))
            }
        };
        let is_other =
            |of: Option<Box<str>>| (source.optional || of.is_some()) && digest(source, of.as_deref()) != *before;
        if read.is_some_and(is_other) {
            return true;
        }
    }
    false
}

/// Reads these keys of a source, and digests those that other resources name.
async fn read_source(
    shared: &ControllerContext,
    key: &SourceKey,
    named: &BTreeSet<&str>,
) -> Result<Content, Unanswered> {
    if let Some(why) = shared.sources.refusal(key) {
        return Err(forbidden(key, &why));
    }
    let (mut keys, changes) = shared.sources.begin_read(key);
    keys.extend(named.iter().map(|values_key| Box::<str>::from(*values_key)));
    let content = match shared.api.send(Call::get(key.path())).await {
        Ok(answer) => Content::read(key.kind, &answer.body, &|values_key| keys.contains(values_key)),
        Err(error) if error.is_missing_object() => Some(Content::default()),
        Err(error) if error.code() == Some(403) => return Err(forbidden(key, &chain(&error))),
        Err(error) => return Err(unanswered(Reason::Unanswered, format!("cannot read {key}: {}", chain(&error)))),
    };
    let mut content = content.ok_or_else(|| {
        unanswered(Reason::Unanswered, format!("cannot read {key}: it is not a {}", key.kind.as_str()))
    })?;
    shared.sources.store(key, Read::of(&content, keys), changes);
    content.retain(&|values_key| named.contains(values_key));
    Ok(content)
}

/// Digests a source's target path and content. The same content under another name does not count as a change.
fn digest(source: &Resolved, of: Option<&str>) -> Value {
    json!([source.target_path, of])
}

/// Describes a missing source. It may be missing only for a moment, so this does not condemn the inputs.
fn missing(source: &Resolved, what: &str) -> Unanswered {
    let namespace = &source.key.namespace;
    let message = format!("{source}, in namespace {namespace:?}: {} {what}", source.key.kind.as_str());
    unanswered(Reason::ValuesSourceMissing, message)
}

fn forbidden(key: &SourceKey, why: &str) -> Unanswered {
    let (namespace, plural) = (&key.namespace, key.kind.plural());
    let rule = format!("{{apiGroups: [\"\"], resources: [{plural}], verbs: [get, list, watch]}}");
    let message =
        format!("cannot read {key} in namespace {namespace:?}: {why}; add this rule to the operator's role: {rule}");
    unanswered(Reason::ValuesSourceForbidden, message)
}

fn unanswered(reason: Reason, message: String) -> Unanswered {
    Unanswered::with_reason(reason, message)
}
