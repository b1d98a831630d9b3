//! Determines as which account a release is read and written: the operator, or a ServiceAccount with fewer permissions.
//! Records, status and watches always use the operator's.

use helm_release::kube::{Call, Resource};

use crate::preflight::Refused;
use crate::reconcile::step_context::StepContext;
use crate::status::reason::Reason;
use crate::status::{Fault, condition};
use crate::view::primary::Primary;
use crate::watches::ServiceAccount;

impl<'a> StepContext<'a> {
    /// Returns whether the account does not exist. Impersonation would not show it, because to the server an account is
    /// only a name.
    pub(crate) async fn is_account_gone(&self, primary: &Primary) -> bool {
        let Some(account) = &self.shared.settings.service_account else { return false };
        let namespace = account.namespace(primary.namespace());
        let path = format!("/api/v1/namespaces/{namespace}/serviceaccounts/{}", account.name);
        // Any other error shows when the account is used.
        self.shared.api.send(Call::metadata(path)).await.is_err_and(|error| error.is_missing_object())
    }

    pub(crate) fn missing_account(&self, primary: &Primary) -> Fault {
        let account = self.shared.settings.service_account.as_ref();
        let (namespace, name) = account.map(|a| (a.namespace(primary.namespace()), &*a.name)).unwrap_or_default();
        let message = format!(
            "ServiceAccount {name:?} does not exist in namespace {namespace:?}: create it, with a role for what the chart contains, \
             or correct serviceAccountName in watches.yaml"
        );
        Fault { condition: condition::IRRECONCILABLE, reason: Reason::ServiceAccountMissing, message }
    }

    /// Lets the operator itself delete what a deleted account leaves. The account's roles disappear with its namespace,
    /// and the release must not stay.
    pub(crate) fn as_operator(&self) -> StepContext<'a> {
        StepContext { applier: self.shared.applier.through(self.api.clone()), orphaned: true, ..self.clone() }
    }
}

/// Adds the missing permission to an API server's refusal, if the message does not name it. `served` is the custom
/// resources' kind.
pub(crate) fn explain(fault: Fault, account: Option<&ServiceAccount>, served: &Resource) -> Fault {
    if let Some(account) = account.filter(|_| fault.message.contains(IMPERSONATION)) {
        let rule = format!(
            "{{apiGroups: [\"\"], resources: [serviceaccounts], resourceNames: [{}], verbs: [get, impersonate]}}",
            account.name
        );
        let message = format!("{}; add this rule to the operator's role: {rule}", fault.message);
        return Fault { reason: Reason::ImpersonationForbidden, message, ..fault };
    }
    if fault.message.contains(ESCALATION) {
        return Fault { message: format!("{}; {ESCALATION_HELP}", fault.message), ..fault };
    }
    let Some(refused) = Refused::read(&fault.message) else { return fault };
    let (whose, rule) = match account {
        // The operator itself writes the custom resource.
        _ if refused.is_about(served) => ("the operator".to_owned(), refused.rule_of_served()),
        Some(account) => (format!("ServiceAccount {}", account.name), refused.rule()),
        None => ("the operator".to_owned(), refused.rule()),
    };
    // Retrying does not help as long as the permission is missing.
    let reason = if fault.reason == Reason::Unanswered { Reason::Forbidden } else { fault.reason };
    let message = format!("{}; add this rule to the role of {whose}: {rule}", fault.message);
    Fault { reason, message, ..fault }
}

/// A part of Kubernetes' refusal of impersonation: `cannot impersonate resource`, or since 1.36 `cannot
/// impersonate-on:serviceaccount:get resource`.
const IMPERSONATION: &str = " cannot impersonate";

/// A part of Kubernetes' refusal of a Role or binding that grants more than its writer has.
const ESCALATION: &str = "is attempting to grant RBAC permissions not currently held";

const ESCALATION_HELP: &str = "Kubernetes lets an account grant only what it holds: add these rules to that account's own role \
    (helm-operator generate rbac does), or allow it the verb escalate on roles and clusterroles, or bind for a binding";

#[cfg(test)]
mod tests {
    use super::*;

    fn explained(message: &str, account: Option<&ServiceAccount>) -> (Reason, String) {
        let fault =
            Fault { condition: condition::RELEASE_FAILED, reason: Reason::InstallError, message: message.into() };
        let served = Resource {
            api_version: "apps.example.com/v1".into(),
            kind: "Shop".into(),
            plural: "shops".into(),
            namespaced: true,
        };
        let Fault { reason, message, .. } = explain(fault, account, &served);
        (reason, message)
    }

    #[test]
    fn a_refused_impersonation_names_the_rule() {
        let account = ServiceAccount { namespace: None, name: "web".into() };
        for verb in
            ["impersonate resource \"serviceaccounts\"", "impersonate-on:serviceaccount:get resource \"configmaps\""]
        {
            let message = format!(
                "cannot apply ConfigMap \"a\": \"x\" is forbidden: User \"operator\" cannot {verb} in API group \"\""
            );
            let (reason, explanation) = explained(&message, Some(&account));
            assert_eq!(reason, Reason::ImpersonationForbidden);
            assert!(explanation.ends_with("resourceNames: [web], verbs: [get, impersonate]}"), "{explanation}");
        }
    }

    #[test]
    fn an_escalation_says_what_to_do() {
        let message = "roles \"r\" is forbidden: user \"o\" (groups=[\"g\"]) is attempting to grant RBAC permissions not currently held:\n{}";
        let (reason, explanation) = explained(message, None);
        assert_eq!((reason, explanation.as_str()), (Reason::InstallError, &*format!("{message}; {ESCALATION_HELP}")));
    }

    #[test]
    fn a_refused_object_names_the_rule_and_whose_role_lacks_it() {
        let message = "configmaps is forbidden: User \"o\" cannot list resource \"configmaps\" in API group \"\" in the namespace \"a\"";
        let rule = "{apiGroups: [\"\"], resources: [configmaps], verbs: [get, list, watch, create, patch, delete]}";
        let account = ServiceAccount { namespace: None, name: "web".into() };
        for (account, whose) in [(None, "the operator"), (Some(&account), "ServiceAccount web")] {
            let expected = format!("{message}; add this rule to the role of {whose}: {rule}");
            assert_eq!(explained(message, account), (Reason::InstallError, expected));
        }
    }

    #[test]
    fn a_refused_write_of_the_custom_resource_asks_for_no_more_than_the_operator_does_with_it() {
        let account = ServiceAccount { namespace: None, name: "web".into() };
        for (resource, verbs) in [("shops", "get, list, watch, patch"), ("shops/status", "patch")] {
            let message = format!(
                "shops.apps.example.com \"a\" is forbidden: User \"o\" cannot patch resource \"{resource}\" in API group \"apps.example.com\" in the namespace \"a\""
            );
            let rule = format!("{{apiGroups: [apps.example.com], resources: [{resource}], verbs: [{verbs}]}}");
            let expected = format!("{message}; add this rule to the role of the operator: {rule}");
            assert_eq!(explained(&message, Some(&account)), (Reason::InstallError, expected));
        }
    }

    #[test]
    fn a_refused_read_is_named_as_one() {
        let message = "cannot read ConfigMap \"a\": User \"o\" cannot get resource \"configmaps\" in API group \"\" in the namespace \"a\"";
        let of = |message: &str| {
            let fault =
                Fault { condition: condition::IRRECONCILABLE, reason: Reason::Unanswered, message: message.into() };
            let (api_version, kind, plural) = ("apps.example.com/v1".into(), "Shop".into(), "shops".into());
            explain(fault, None, &Resource { api_version, kind, plural, namespaced: true }).reason
        };
        assert_eq!((of(message), of("connection refused")), (Reason::Forbidden, Reason::Unanswered));
    }

    #[test]
    fn other_failures_stay_as_they_are() {
        let account = ServiceAccount { namespace: None, name: "web".into() };
        assert_eq!(explained("no", Some(&account)), (Reason::InstallError, "no".to_owned()));
    }
}
