//! The output of a render, in a worker or not: only texts, from which the manager itself reads the objects.

use std::ops::Deref;
use std::panic::{self, AssertUnwindSafe};
use std::sync::{Arc, OnceLock};

use go_template::Map;
use helm::chart::UnreadSchema;
use helm::engine::{Engine, Error, ReleaseOptions, Rendered, Request};
use helm::manifest::SortError;
use helm::reads::{Reads, Unread};
use helm::schema::InvalidSchema;
use helm::view::Unusable;
use helm_release::release::{DeletePolicy, Hook, HookEvent};
use serde::{Deserialize, Serialize};

use super::message::{Failure, Reason};

#[derive(Default, Serialize, Deserialize)]
pub(crate) struct Output {
    /// The manifest, in the form that the record keeps.
    pub(crate) manifest: String,
    /// The hooks, in install order.
    pub(crate) hooks: Vec<Hook>,
    pub(crate) notes: String,
    /// The path and content of each file below `crds/`.
    pub(crate) crds: Vec<(String, String)>,
    /// Values that no template reads.
    #[serde(with = "unread")]
    pub(crate) unread: Vec<Unread>,
}

/// The maximum number of unread values of one render; more are hardly typing errors.
const MAX_UNREAD: usize = 32;

/// A chart that can be rendered, with the values that its templates read, once they have been determined.
pub(crate) struct Analysed {
    engine: Arc<Engine>,
    reads: OnceLock<Option<Reads>>,
}

impl Deref for Analysed {
    type Target = Engine;

    fn deref(&self) -> &Engine {
        &self.engine
    }
}

impl Analysed {
    pub(crate) fn new(engine: Arc<Engine>) -> Analysed {
        Analysed { engine, reads: OnceLock::new() }
    }

    pub(crate) fn rendered(&self, request: &Request<'_>) -> Result<Output, Failure> {
        let rendered = self.engine.render(request).map_err(|error| failure(&error))?;
        Ok(Output { unread: self.unread(request.values), ..Output::from(rendered) })
    }

    /// Returns the values that no template reads. A bug in the analysis does not fail the render.
    fn unread(&self, values: &Map) -> Vec<Unread> {
        let chart = self.engine.chart();
        let find =
            || self.reads.get_or_init(|| guarded(|| Reads::of(chart))).as_ref().map(|reads| reads.unread(values));
        let mut unread = guarded(find).flatten().unwrap_or_default();
        unread.truncate(MAX_UNREAD);
        unread
    }
}

/// Returns what templates see of the release. Its first revision is an install.
pub(super) fn release_options(name: &str, namespace: &str, revision: u32) -> ReleaseOptions {
    ReleaseOptions {
        name: name.to_owned(),
        namespace: namespace.to_owned(),
        revision: i64::from(revision),
        is_upgrade: revision > 1,
    }
}

fn guarded<T>(work: impl FnOnce() -> T) -> Option<T> {
    panic::catch_unwind(AssertUnwindSafe(work)).ok()
}

/// The serialised form of [`Unread`] in a worker's messages.
mod unread {
    use helm::reads::Unread;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    type Fields = (Vec<String>, Option<String>, bool);

    pub(super) fn serialize<S: Serializer>(all: &[Unread], to: S) -> Result<S::Ok, S::Error> {
        let fields = |one: &Unread| (one.path.clone(), one.nearest.clone(), one.is_documented);
        all.iter().map(fields).collect::<Vec<Fields>>().serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Unread>, D::Error> {
        let all = Vec::<Fields>::deserialize(from)?.into_iter();
        Ok(all.map(|(path, nearest, is_documented)| Unread { path, nearest, is_documented }).collect())
    }
}

impl From<Rendered> for Output {
    fn from(of: Rendered) -> Output {
        Output {
            manifest: of.manifest(),
            hooks: of.hooks.into_iter().map(hook).collect(),
            notes: of.notes,
            crds: of.crds.into_iter().map(|crd| (crd.path, crd.data.to_text().into_owned())).collect(),
            unread: Vec::new(),
        }
    }
}

/// Returns why a chart does not render, with the reason for conditions. The message quotes no values, unless a template
/// does.
pub(crate) fn failure(error: &Error) -> Failure {
    let reason = match error {
        Error::Schema(of) => return schema_failure(error, of.unusable_schema()),
        Error::Dependencies(_) | Error::Values(_) => Reason::InvalidValues,
        Error::KubeVersion { .. } => Reason::UnsupportedKubernetes,
        Error::Template(of) if of.is_unanswered() => Reason::Unanswered,
        Error::Template(_) | Error::Manifest { .. } => Reason::RenderError,
    };
    Failure { reason, message: error.without_values() }
}

/// Returns the failure of a schema. An unusable schema has its own reason, because no values can correct it.
fn schema_failure(error: &Error, unusable: Option<&Unusable>) -> Failure {
    match unusable {
        Some(Unusable { chart, why: InvalidSchema::NotRead(url) }) => {
            let unread = UnreadSchema { chart: chart.clone(), url: url.clone() };
            Failure { reason: Reason::ExternalSchema, message: explain(&unread) }
        }
        Some(_) => Failure { reason: Reason::InvalidSchema, message: error.without_values() },
        None => Failure { reason: Reason::InvalidValues, message: error.without_values() },
    }
}

/// Explains an unread document, and names the keys of watches.yaml that help.
pub(crate) fn explain(unread: &UnreadSchema) -> String {
    let url = &unread.url;
    format!(
        "{unread}: copy the document into the image and name it in watches.yaml with schema: {{copies: {{{url:?}: PATH}}}}, \
         or set schema: {{skip: true}}"
    )
}

/// Separates the hooks from a stream that post-renderers returned.
pub(crate) fn separate(stream: &str) -> Result<(String, Vec<Hook>), SortError> {
    let (manifest, hooks) = helm::manifest::separate(stream)?;
    Ok((manifest, hooks.into_iter().map(hook).collect()))
}

fn hook(of: helm::manifest::Hook) -> Hook {
    let policy = |word: &String| word.parse().unwrap_or(DeletePolicy::Other);
    Hook {
        name: of.name,
        kind: of.kind,
        path: of.path,
        manifest: of.manifest,
        events: of.events.iter().map(|event| HookEvent::parse(event)).collect(),
        weight: of.weight,
        delete_policies: of.delete_policies.iter().map(policy).collect(),
        output_log_policies: of.output_log_policies,
        ..Hook::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hook_is_recorded_with_all_its_fields() {
        let read = hook(helm::manifest::Hook {
            name: "migrate".into(),
            kind: "Job".into(),
            path: "c/templates/job.yaml".into(),
            manifest: "kind: Job".into(),
            events: vec!["pre-upgrade"],
            weight: -5,
            delete_policies: ["hook-succeeded", "hook-failed", "before-hook-creation", "odd"].map(Into::into).into(),
            output_log_policies: vec!["hook-failed".into()],
        });
        let expected = Hook {
            name: "migrate".into(),
            kind: "Job".into(),
            path: "c/templates/job.yaml".into(),
            manifest: "kind: Job".into(),
            events: vec![HookEvent::PreUpgrade],
            weight: -5,
            delete_policies: vec![
                DeletePolicy::HookSucceeded,
                DeletePolicy::HookFailed,
                DeletePolicy::BeforeHookCreation,
                DeletePolicy::Other,
            ],
            output_log_policies: vec!["hook-failed".into()],
            ..Hook::default()
        };
        assert_eq!(format!("{read:?}"), format!("{expected:?}"));
    }
}
