//! Reads from the API server's refusal which rule would grant the right.
//!
//! Counterpart: `forbiddenMessage` in k8s.io/apiserver `pkg/endpoints/handlers/responsewriters/errors.go`.

/// What the operator does with a chart's objects. A role that lacks one of these verbs mostly lacks all.
const OBJECT_VERBS: &[&str] = &["get", "list", "watch", "create", "patch", "delete"];

/// The rule that grants what a message like `… cannot patch resource "deployments" in API group "apps" in the namespace "demo"` refuses. A refused verb
/// on objects asks for all that the operator does with objects.
pub(crate) fn rule(message: &str) -> Option<String> {
    let (_, refused) = message.split_once("\" cannot ")?;
    let (verb, rest) = refused.split_once(" resource \"")?;
    let (resource, rest) = rest.split_once("\" in API group \"")?;
    let (group, _) = rest.split_once('"')?;
    let is_word = |text: &str| !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || "-./".contains(c));
    if !is_word(verb) || !is_word(resource) || !(group.is_empty() || is_word(group)) {
        return None;
    }
    let verbs = if OBJECT_VERBS.contains(&verb) { OBJECT_VERBS.join(", ") } else { verb.to_owned() };
    let group = if group.is_empty() { "\"\"" } else { group };
    Some(format!("{{apiGroups: [{group}], resources: [{resource}], verbs: [{verbs}]}}"))
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
            assert_eq!(rule(&message), expected, "{refused}");
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
        check("cannot get path \"/metrics\"", None);
        check("is not allowed", None);
    }
}
