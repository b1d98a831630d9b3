//! Runs the operator author's code in a reconcile: value mappers, post-renderers, and hooks around actions.

use controller::report::{chain, shorten};
use helm_release::action::{Candidate, Completed};
use kube::core::DynamicObject;
use serde_json::Value;

use crate::hooks::{After, Before, DeployedRevision, Mapping, PostRender, Voice};
use crate::reconcile::failure::{Failed, FailedAttempt, Unanswered};
use crate::reconcile::step_context::StepContext;
use crate::rendering::renderer::release_objects;
use crate::rendering::separate;
use crate::status::reason::Reason;
use crate::values::Spec;
use crate::view::primary::Primary;

/// The maximum length of a mapper's error in a condition, in bytes.
const MESSAGE: usize = 1024;

impl StepContext<'_> {
    /// Returns whether the author's code maps the values.
    pub(crate) fn maps_values(&self) -> bool {
        !self.shared.extensions.mappers.is_empty()
    }

    /// Runs the mappers on the values.
    ///
    /// # Errors
    /// The `spec` cannot be read, or a mapper fails or returns something other than a map.
    pub(crate) async fn map_values(&self, primary: &Primary, spec: Spec) -> Result<Spec, Failed> {
        if !self.maps_values() {
            return Ok(spec);
        }
        let resource = self.object(primary)?;
        let mut values = read(&spec)?;
        for mapper in &self.shared.extensions.mappers {
            let mapping = Mapping {
                resource: resource.clone(),
                values,
                client: self.shared.client_for(self.key),
                voice: self.voice(primary),
            };
            let mapped = mapper.map(mapping).await;
            // The author's code may depend on other systems, so its failure does not condemn the inputs.
            values = mapped.map_err(|e| unanswered(Reason::ValueMappingFailed, format!("cannot map values: {e}")))?;
        }
        match values {
            Value::Object(_) => Ok(Spec::new(&values.to_string())),
            _ => Err(failed(Reason::ValueMappingFailed, "cannot map values: the mapper returned no map".into())),
        }
    }

    /// Returns the versions of the post-renderers, for the digest of the inputs; `None` if there are none.
    pub(crate) fn post_renderers(&self) -> Option<Value> {
        let versions: Vec<&str> = self.shared.extensions.post_renderers.iter().map(|(v, _)| v.as_str()).collect();
        (!versions.is_empty()).then(|| serde_json::json!(["post-rendered", versions]))
    }

    /// Runs the post-renderers on a rendered candidate. As in Helm, they also change the chart's hooks.
    ///
    /// # Errors
    /// A post-renderer fails, or returns something other than objects.
    pub(crate) async fn post_render(&self, primary: &Primary, mut candidate: Candidate) -> Result<Candidate, Failed> {
        let renderers = &self.shared.extensions.post_renderers;
        if renderers.is_empty() {
            return Ok(candidate);
        }
        let message = |why: &dyn std::fmt::Display| format!("cannot post-render: {why}");
        let unusable = |why: &dyn std::fmt::Display| failed(Reason::PostRenderFailed, message(why));
        let resource = self.object(primary)?;
        let hooks = candidate.hooks.iter().map(|hook| (hook.path.as_str(), hook.manifest.as_str()));
        let mut manifest = helm::manifest::join(&candidate.manifest, hooks);
        for (_, renderer) in renderers {
            let rendered = renderer.render(PostRender { resource: resource.clone(), manifest }).await;
            manifest = rendered.map_err(|e| unanswered(Reason::PostRenderFailed, message(&e)))?;
        }
        (candidate.manifest, candidate.hooks) = separate(&manifest).map_err(|e| unusable(&e))?;
        let objects = release_objects(&candidate.manifest, primary.namespace());
        (candidate.objects, candidate.duplicates) = objects.map_err(|e| unusable(&e))?;
        Ok(candidate)
    }

    /// Runs the pre-action hooks. As in upstream, a failed hook is logged and ignored.
    pub(crate) async fn before(&self, primary: &Primary, candidate: &Candidate) {
        let hooks = &self.shared.extensions.before;
        let Some(resource) = self.object(primary).ok().filter(|_| !hooks.is_empty()) else { return };
        for hook in hooks {
            let before = Before {
                resource: resource.clone(),
                values: candidate.config.clone(),
                deployed: self.release().and_then(|release| release.deployed().map(|(version, _)| version)),
                client: self.shared.client_for(self.key),
                voice: self.voice(primary),
            };
            if let Err(error) = hook.run(before).await {
                tracing::error!(resource = %self.key, error = chain(&*error), "Pre-release hook failed");
            }
        }
    }

    /// Runs the post-action hooks.
    pub(crate) async fn after(&self, primary: &Primary, outcome: &Completed, manifest: &str) {
        let hooks = &self.shared.extensions.after;
        let Some(resource) = self.object(primary).ok().filter(|_| !hooks.is_empty()) else { return };
        for hook in hooks {
            let release = DeployedRevision {
                name: primary.name().to_owned(),
                namespace: primary.namespace().to_owned(),
                revision: outcome.version,
                manifest: manifest.to_owned(),
            };
            let (client, voice) = (self.shared.client_for(self.key), self.voice(primary));
            let after = After { resource: resource.clone(), release, client, voice };
            if let Err(error) = hook.run(after).await {
                tracing::error!(resource = %self.key, error = chain(&*error), "Post-release hook failed");
            }
        }
    }

    /// Returns the resource as the author's code sees it.
    fn object(&self, primary: &Primary) -> Result<DynamicObject, Failed> {
        let mut object = primary.object();
        object.data = serde_json::json!({"spec": read(&primary.spec)?});
        Ok(object)
    }

    fn voice(&self, primary: &Primary) -> Voice {
        Voice {
            events: self.shared.events.clone(),
            metrics: self.shared.metrics.clone(),
            controller: self.shared.settings.controller.clone(),
            resource: primary.reference(),
        }
    }
}

/// Parses the values of a `spec`; `null` has none. The parser's message is not used, because it could quote a value.
fn read(spec: &Spec) -> Result<Value, Failed> {
    let json = spec.json().map_err(|why| failed(Reason::InvalidValues, why.to_string()))?;
    let read = serde_json::from_str(json).map_err(|_| "it nests too deep for code of the operator (limit 128)");
    match read.map_err(|why| failed(Reason::InvalidValues, format!("cannot read spec: {why}")))? {
        Value::Null => Ok(Value::Object(serde_json::Map::new())),
        values => Ok(values),
    }
}

fn failed(reason: Reason, message: String) -> Failed {
    FailedAttempt::rendering(reason, shorten(&message, MESSAGE)).into()
}

fn unanswered(reason: Reason, message: String) -> Failed {
    Unanswered::with_reason(reason, shorten(&message, MESSAGE)).into()
}
