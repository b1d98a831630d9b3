//! Replaces custom resource definitions of a chart's `crds` folder, unless that would lose objects.

use outside::{Call, Error};
use serde_json::Value;

use crate::kube::live_state::live::Live;
use crate::kube::live_state::ownership::Ownership;
use crate::kube::objects::decorate::{CHART_LABEL, Decoration, FIELD_MANAGER, RELEASE_NAME};
use crate::kube::objects::object::{Object, ObjectKey};
use crate::kube::writes::apply::{Applier, ApplyError, MAX_TRIES, describe};
use crate::kube::writes::found::{Existing, Found};
use crate::kube::writes::write::{Body, Previous};

/// The policy for the definitions in a chart's `crds` folder: `crds` in watches.yaml. No policy ever deletes one, not even
/// if it was among the chart's templates before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CrdPolicy {
    /// Leave them to others.
    Skip,
    /// Create missing ones at an install, as Helm does.
    #[default]
    Create,
    /// Create missing ones and replace existing ones, at installs and upgrades.
    CreateOrReplace,
}

/// Who has a definition of a chart's `crds` folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DefinitionOf {
    /// No release: charts share it.
    Nobody,
    /// The release, among the objects of a revision to which it may have to return.
    Release,
}

impl Applier {
    /// Applies a definition over an existing one, or creates it. Returns whether it was created. A definition that
    /// belongs to the release keeps its metadata, without which a rollback could not import it.
    ///
    /// # Errors
    /// The definition is being deleted. It belongs to another release, or the new one lacks a stored version, or changes
    /// scope or names; the server rejects it or is unreachable.
    pub(crate) async fn replace_definition(
        &self,
        object: &Object,
        of: DefinitionOf,
        decoration: &Decoration,
    ) -> Result<bool, ApplyError> {
        let mut tries = 0;
        loop {
            tries += 1;
            match self.replace_definition_as_read(object, of, decoration).await {
                // It changed since it was read.
                Err(ApplyError::Failed { source, .. }) if source.is_conflict() && tries < MAX_TRIES => {}
                replaced => return replaced,
            }
        }
    }

    async fn replace_definition_as_read(
        &self,
        object: &Object,
        of: DefinitionOf,
        decoration: &Decoration,
    ) -> Result<bool, ApplyError> {
        let failed = |source| ApplyError::Failed { verb: "apply", object: describe(object), source };
        let resource = self.resource(object).await?;
        let path = resource.path("", &object.name).map_err(failed)?;
        let live: Value = match self.api.send(Call::get(&path)).await {
            Err(error) if error.is_missing_object() => return self.apply_definition(object).await,
            answer => answer.and_then(|answer| answer.parse()).map_err(failed)?,
        };
        if !live["metadata"]["deletionTimestamp"].is_null() {
            return Err(being_deleted(object, serde_json::from_value(live).ok()));
        }
        if let Some(why) = claim(&live, decoration).or_else(|| objection(&live, &object.body)) {
            return Err(ApplyError::Definition { object: describe(object), why });
        }
        let existing = Found::Read(Box::new(Existing::of(&live)));
        let key = ObjectKey::new(resource.group(), &resource.kind, "", &object.name);
        let json = match of {
            DefinitionOf::Release => decoration.decorate(object, &resource),
            DefinitionOf::Nobody => object.as_sent(),
        };
        let body = Body { resource, key, path, json, handed_over: Vec::new(), owner: String::new() };
        let written: Result<_, Error> = self.write_by_apply(&body, &existing, Previous::Apply).await;
        written.map(|_| false).map_err(failed)
    }

    /// Fails if an object that exists, according to the server, is being deleted or already gone. Without the right to
    /// read it, it counts as staying.
    pub(in crate::kube::writes) async fn check_stays(&self, object: &Object, path: &str) -> Result<(), ApplyError> {
        match self.read_metadata::<Live>(path).await {
            Ok(Some(live)) if !live.deleting => Ok(()),
            Ok(live) => Err(being_deleted(object, live)),
            Err(error) if error.is_forbidden() => Ok(()),
            Err(source) => Err(ApplyError::Failed { verb: "read", object: describe(object), source }),
        }
    }
}

fn being_deleted(object: &Object, live: Option<Live>) -> ApplyError {
    let finalizers = live.and_then(|live| live.metadata.finalizers).unwrap_or_default();
    ApplyError::BeingDeleted { object: describe(object), finalizers }
}

/// Returns who else claims the live definition: the release of a chart that has it among its templates. Charts share a
/// definition that no release claims any more.
fn claim(live: &Value, decoration: &Decoration) -> Option<String> {
    let is_left = is_left(live);
    let live: Live = serde_json::from_value(live.clone()).ok()?;
    match decoration.ownership(&live) {
        Ownership::Foreign(_) if is_left => None,
        Ownership::Foreign(owner) => {
            Some(format!("it belongs to {owner}; with `crds: create` in watches.yaml it is left to its owner"))
        }
        Ownership::Ours | Ownership::Unclaimed => None,
    }
}

/// Returns whether a release of this operator once contained the definition: the release's name that we wrote is still
/// there, but the label of its objects is not.
fn is_left(live: &Value) -> bool {
    let metadata = &live["metadata"];
    let names_release = |entry: &Value| {
        entry["manager"] == FIELD_MANAGER
            && !entry["fieldsV1"]["f:metadata"]["f:annotations"][format!("f:{RELEASE_NAME}")].is_null()
    };
    metadata["labels"][CHART_LABEL].is_null()
        && metadata["managedFields"].as_array().into_iter().flatten().any(names_release)
}

/// Returns why the live definition must not be replaced by the new one.
fn objection(live: &Value, new: &Value) -> Option<String> {
    let versions = || new["spec"]["versions"].as_array().into_iter().flatten();
    let has = |stored: &&Value| versions().any(|version| version["name"] == **stored);
    let mut stored = live["status"]["storedVersions"].as_array().into_iter().flatten();
    if let Some(lost) = stored.find(|stored| !has(stored)) {
        let lost = lost.as_str().unwrap_or_default();
        return Some(format!(
            "objects are stored in version {lost}, which the chart's definition lacks: migrate them first"
        ));
    }
    let fields = ["/spec/group", "/spec/scope", "/spec/names/kind", "/spec/names/plural"];
    let changed = fields.into_iter().find(|field| live.pointer(field) != new.pointer(field))?;
    let name = changed.trim_start_matches('/').replace('/', ".");
    Some(format!("it would change {name}, and existing objects would be lost"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::sample::decoration;

    fn definition(versions: &[&str], scope: &str, kind: &str) -> Value {
        let versions: Vec<Value> = versions.iter().map(|name| json!({"name": name})).collect();
        let names = json!({"kind": kind, "plural": "things"});
        json!({"spec": {"group": "x.y", "scope": scope, "names": names, "versions": versions}})
    }

    #[test]
    fn a_definition_may_gain_and_lose_versions_in_which_nothing_is_stored() {
        let mut live = definition(&["v1", "v2"], "Namespaced", "Thing");
        live["status"] = json!({"storedVersions": ["v2"]});
        assert_eq!(objection(&live, &definition(&["v2", "v3"], "Namespaced", "Thing")), None);
        let lost = objection(&live, &definition(&["v1", "v3"], "Namespaced", "Thing")).unwrap();
        assert_eq!(lost, "objects are stored in version v2, which the chart's definition lacks: migrate them first");
    }

    #[test]
    fn another_releases_definition_is_its_own() {
        let mut live = definition(&["v1"], "Namespaced", "Thing");
        assert_eq!(claim(&live, &decoration()), None, "from another chart's folder");
        let annotate = |live: &mut Value, release: &str| {
            live["metadata"]["annotations"] =
                json!({"meta.helm.sh/release-name": release, "meta.helm.sh/release-namespace": "ns"});
        };
        annotate(&mut live, "web");
        assert_eq!(claim(&live, &decoration()), None);
        annotate(&mut live, "other");
        let why = claim(&live, &decoration()).unwrap();
        assert!(why.starts_with("it belongs to release \"other\" in namespace \"ns\"; with `crds: create`"), "{why}");
        let name = json!({"f:metadata": {"f:annotations": {"f:meta.helm.sh/release-name": {}}}});
        for (behaviour, manager, fields, labels, is_claimed) in [
            ("Helm's, once from a folder of ours", "helm-operator", json!({"f:spec": {}}), json!({}), true),
            ("Helm's", "helm", name.clone(), json!({}), true),
            ("among the other's templates", "helm-operator", name.clone(), json!({CHART_LABEL: "c"}), true),
            ("left by the other", "helm-operator", name, json!({}), false),
        ] {
            live["metadata"]["labels"] = labels;
            live["metadata"]["managedFields"] = json!([{"manager": manager, "operation": "Apply", "fieldsV1": fields}]);
            assert_eq!(claim(&live, &decoration()).is_some(), is_claimed, "{behaviour}");
        }
    }

    #[test]
    fn scope_and_names_must_stay() {
        let live = definition(&["v1"], "Namespaced", "Thing");
        let why = |new: Value| objection(&live, &new).unwrap();
        assert!(why(definition(&["v1"], "Cluster", "Thing")).starts_with("it would change spec.scope,"));
        assert!(why(definition(&["v1"], "Namespaced", "Other")).starts_with("it would change spec.names.kind,"));
    }
}
