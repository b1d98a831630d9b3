//! Determines the rule that would grant a permission from the API server's refusal.
//!
//! Counterpart: `forbiddenMessage` in k8s.io/apiserver `pkg/endpoints/handlers/responsewriters/errors.go`.

use helm_release::kube::Resource;

/// The verbs that the operator uses on a chart's objects. A role that lacks one of them usually lacks all.
const OBJECT_VERBS: &[&str] = &["get", "list", "watch", "create", "patch", "delete"];

/// The verbs that the operator uses on the custom resources that it serves.
const RESOURCE_VERBS: &[&str] = &["get", "list", "watch", "patch"];

/// The permission that a message like `… cannot patch resource "deployments" in API group "apps" in the namespace
/// "demo"` refuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Refused<'m> {
    verb: &'m str,
    group: &'m str,
    /// The plural, or a subresource: `deployments/scale`.
    resource: &'m str,
}

impl<'m> Refused<'m> {
    /// Parses a refusal; returns `None` for any other message.
    pub(crate) fn read(message: &'m str) -> Option<Refused<'m>> {
        let (_, refused) = message.split_once("\" cannot ")?;
        let (verb, rest) = refused.split_once(" resource \"")?;
        let (resource, rest) = rest.split_once("\" in API group \"")?;
        let (group, _) = rest.split_once('"')?;
        let is_word =
            |text: &str| !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || "-./".contains(c));
        let is_refusal = is_word(verb) && is_word(resource) && (group.is_empty() || is_word(group));
        is_refusal.then_some(Refused { verb, group, resource })
    }

    /// Returns whether the refusal is about this kind or one of its subresources.
    pub(crate) fn is_about(&self, kind: &Resource) -> bool {
        let plural = self.resource.split_once('/').map_or(self.resource, |(plural, _)| plural);
        self.group == kind.group() && plural == &*kind.plural
    }

    /// Returns the rule that grants the permission to the account that applies objects. If the operator uses the refused
    /// verb on objects, the rule has all verbs that it uses on them.
    pub(crate) fn rule(&self) -> String {
        self.among(OBJECT_VERBS)
    }

    /// Returns the rule that grants the permission on the custom resources that the operator serves.
    pub(crate) fn rule_of_served(&self) -> String {
        self.among(RESOURCE_VERBS)
    }

    fn among(&self, usual: &[&str]) -> String {
        let is_usual = usual.contains(&self.verb) && !self.resource.contains('/');
        let verbs = if is_usual { usual.join(", ") } else { self.verb.to_owned() };
        let group = if self.group.is_empty() { "\"\"" } else { self.group };
        format!("{{apiGroups: [{group}], resources: [{}], verbs: [{verbs}]}}", self.resource)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_names_the_rule_that_is_missing() {
        let all = "verbs: [get, list, watch, create, patch, delete]}";
        let check = |refused: &str, expected: Option<String>| {
            let message =
                format!("cannot apply X \"a\": x \"a\" is forbidden: User \"system:serviceaccount:a:b\" {refused}");
            assert_eq!(Refused::read(&message).map(|read| read.rule()), expected, "{refused}");
        };
        check(
            "cannot patch resource \"deployments\" in API group \"apps\" in the namespace \"demo\"",
            Some(format!("{{apiGroups: [apps], resources: [deployments], {all}")),
        );
        check(
            "cannot list resource \"secrets\" in API group \"\" at the cluster scope",
            Some(format!("{{apiGroups: [\"\"], resources: [secrets], {all}")),
        );
        check(
            "cannot bind resource \"roles\" in API group \"rbac.authorization.k8s.io\" in the namespace \"demo\"",
            Some("{apiGroups: [rbac.authorization.k8s.io], resources: [roles], verbs: [bind]}".into()),
        );
        check(
            "cannot patch resource \"deployments/scale\" in API group \"apps\" in the namespace \"demo\"",
            Some("{apiGroups: [apps], resources: [deployments/scale], verbs: [patch]}".into()),
        );
        check("cannot get path \"/metrics\"", None);
        check("is not allowed", None);
    }
}
