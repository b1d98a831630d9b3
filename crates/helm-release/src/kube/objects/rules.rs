//! The operator user's rules about single objects: how drift is treated, and which objects and fields a rule selects.

use std::fmt;

use crate::kube::objects::object::{Object, ObjectError, ObjectFault, ObjectKey};
use crate::kube::objects::pointer::Pointer;

/// The annotation on a chart's object that decides whether it may be recreated: `"true"` or `"false"`.
pub const RECREATE_ANNOTATION: &str = "helm.sdk.operatorframework.io/recreate";

/// The annotation on a chart's object that sets its [`DriftPolicy`].
pub const DRIFT_ANNOTATION: &str = "helm.sdk.operatorframework.io/drift";

/// The treatment of an object that differs from what the release applied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DriftPolicy {
    /// Apply it again.
    #[default]
    Repair,
    /// Report it, but write nothing.
    Detect,
    /// Ignore it.
    Off,
}

impl DriftPolicy {
    /// Parses `repair`, `detect` or `off`; `None` for anything else.
    pub fn parse(text: &str) -> Option<DriftPolicy> {
        [DriftPolicy::Repair, DriftPolicy::Detect, DriftPolicy::Off]
            .into_iter()
            .find(|policy| policy.to_string() == text)
    }
}

impl fmt::Display for DriftPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            DriftPolicy::Repair => "repair",
            DriftPolicy::Detect => "detect",
            DriftPolicy::Off => "off",
        })
    }
}

impl Object {
    /// Returns the drift policy in the object's annotation, if it has one.
    ///
    /// # Errors
    /// The annotation has an unknown value.
    pub fn drift_policy(&self) -> Result<Option<DriftPolicy>, ObjectFault> {
        let Some(text) = self.annotation(DRIFT_ANNOTATION) else { return Ok(None) };
        let unknown =
            || ObjectFault::Annotation { key: DRIFT_ANNOTATION, allowed: "\"repair\", \"detect\" or \"off\"" };
        DriftPolicy::parse(text).map(Some).ok_or_else(unknown)
    }

    /// Returns whether the object's annotation requests recreation when the server rejects changes of its immutable
    /// fields; `None` without the annotation.
    ///
    /// # Errors
    /// The annotation has an unknown value.
    pub(in crate::kube) fn wants_recreation(&self) -> Result<Option<bool>, ObjectFault> {
        match self.annotation(RECREATE_ANNOTATION) {
            None => Ok(None),
            Some("true") => Ok(Some(true)),
            Some("false") => Ok(Some(false)),
            Some(_) => Err(ObjectFault::Annotation { key: RECREATE_ANNOTATION, allowed: "\"true\" or \"false\"" }),
        }
    }

    /// Checks the annotations that control the operator.
    ///
    /// # Errors
    /// One of them has an unknown value.
    pub fn check_annotations(&self) -> Result<(), ObjectError> {
        let checked = self.drift_policy().and_then(|_| self.wants_recreation()).map(|_| ());
        checked.map_err(|fault| ObjectError { template: self.template.clone(), fault })
    }
}

/// Selects objects of a release; a missing part matches every object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObjectRule {
    /// The API group; empty for the core group.
    pub group: Option<String>,
    /// The kind.
    pub kind: Option<String>,
    /// The object's name.
    pub name: Option<String>,
}

impl ObjectRule {
    /// Returns whether it selects the object.
    pub fn selects(&self, key: &ObjectKey) -> bool {
        let is = |wanted: &Option<String>, actual: &str| wanted.as_ref().is_none_or(|wanted| wanted == actual);
        is(&self.group, &key.group) && is(&self.kind, &key.kind) && is(&self.name, &key.name)
    }
}

/// Fields of some objects that the release leaves to other managers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IgnoreRule {
    /// The selected objects.
    pub objects: ObjectRule,
    /// The selected fields.
    pub paths: Vec<Pointer>,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_rule_selects_by_the_parts_that_it_names() {
        let key =
            ObjectKey { group: "apps".into(), kind: "Deployment".into(), namespace: "ns".into(), name: "web".into() };
        let rule = |group: &str, kind: &str, name: &str| {
            let part = |text: &str| (text != "*").then(|| text.to_owned());
            ObjectRule { group: part(group), kind: part(kind), name: part(name) }.selects(&key)
        };
        assert!(rule("*", "*", "*") && rule("apps", "Deployment", "web") && rule("*", "Deployment", "*"));
        assert!(!rule("", "*", "*") && !rule("*", "StatefulSet", "*") && !rule("*", "*", "we"));
    }

    #[test]
    fn an_annotation_sets_an_objects_policy_and_an_unknown_one_is_an_error() {
        let policy = |text: &str| {
            let metadata = json!({"name": "a", "annotations": {DRIFT_ANNOTATION: text}});
            Object::new(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})).unwrap().drift_policy()
        };
        assert_eq!(policy("detect"), Ok(Some(DriftPolicy::Detect)));
        assert_eq!(policy("off"), Ok(Some(DriftPolicy::Off)));
        assert_eq!(
            policy("Repair").unwrap_err().to_string(),
            "annotation helm.sdk.operatorframework.io/drift must be \"repair\", \"detect\" or \"off\""
        );
        let plain = Object::new(json!({"apiVersion": "v1", "kind": "ConfigMap"})).unwrap();
        assert_eq!((plain.drift_policy(), plain.wants_recreation()), (Ok(None), Ok(None)));
    }

    #[test]
    fn an_annotation_asks_for_recreation_or_forbids_it_and_an_unknown_value_is_an_error() {
        let object = |text: &str| {
            let metadata = json!({"name": "a", "annotations": {RECREATE_ANNOTATION: text}});
            Object::new(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})).unwrap()
        };
        assert_eq!(object("true").wants_recreation(), Ok(Some(true)));
        assert_eq!(object("false").wants_recreation(), Ok(Some(false)));
        assert_eq!(
            object("yes").check_annotations().unwrap_err().to_string(),
            "annotation helm.sdk.operatorframework.io/recreate must be \"true\" or \"false\""
        );
    }
}
