//! The reasons why a resource fails: each has one stable name for condition, event and metric, whether retries can
//! help, and a remedy.

use std::fmt;

use strum::{EnumString, IntoStaticStr};

/// The reason why a resource fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumString, IntoStaticStr)]
#[cfg_attr(test, derive(strum::EnumIter))]
#[strum(const_into_str)]
pub(crate) enum Reason {
    /// The chart's files changed while the operator was running.
    ChartChanged,
    /// The chart cannot be fetched, and is not in the cache.
    ChartUnavailable,
    /// The chart is not signed as the watch requires.
    ChartUnverified,
    /// The API server refuses to delete what a revision drops.
    DeletionRefused,
    /// The operator or the account may not read what the resource depends on.
    DependencyForbidden,
    /// Another writer changes the same fields again and again.
    DriftLoop,
    /// A schema refers to a document that is not read.
    ExternalSchema,
    /// The API server rejected a read for lack of a permission.
    Forbidden,
    /// The operator may not act as the ServiceAccount.
    ImpersonationForbidden,
    /// A group of an ordered release failed, or is not ready in time.
    GroupNotReady,
    InstallError,
    /// The operator has a bug.
    InternalError,
    /// A control annotation cannot be read.
    InvalidAnnotation,
    /// The resource's name is not valid for a release.
    InvalidName,
    /// The chart asks for an order that does not exist.
    InvalidOrder,
    /// The chart's schema of values is invalid.
    InvalidSchema,
    /// The chart cannot use the values.
    InvalidValues,
    /// Another process of this operator serves the same resource, or something else keeps making revisions of its release.
    OtherOperator,
    /// The release would contain objects that are not allowed.
    OutOfReach,
    PostRenderFailed,
    /// A step that creates no revision failed.
    ReconcileError,
    RecordTooLarge,
    /// The operator may not watch the release's records.
    RecordsForbidden,
    /// The release, or one of its objects, belongs to another owner.
    ReleaseConflict,
    /// The release, or its records, are in another namespace than the watch says.
    ReleaseElsewhere,
    /// Another program is working on the release.
    ReleaseInFlight,
    /// The chart does not render.
    RenderError,
    RenderLimit,
    /// The ServiceAccount of watches.yaml does not exist.
    ServiceAccountMissing,
    TestFailed,
    /// A request was not answered.
    Unanswered,
    UninstallError,
    /// The chart does not support the cluster's version.
    UnsupportedKubernetes,
    UpgradeError,
    ValueMappingFailed,
    /// The operator may not read a value source.
    ValuesSourceForbidden,
    /// A value source does not exist.
    ValuesSourceMissing,
    /// The reason of a custom renderer.
    #[strum(disabled)]
    Own(&'static str),
}

impl Reason {
    pub(crate) fn named(name: &'static str) -> Reason {
        name.parse().unwrap_or(Reason::Own(name))
    }

    /// Returns the name, in upper camel case.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Reason::Own(name) => name,
            known => known.into_str(),
        }
    }

    /// Returns whether retries with the same inputs are expected to fail: then the resource is `Stalled`, not
    /// `Reconciling`.
    pub(crate) fn is_permanent(self) -> bool {
        self.remedy().is_some()
    }

    pub(crate) fn advice(self) -> &'static str {
        self.remedy().unwrap_or("correct spec or the chart, or what the message of Ready names in the cluster")
    }

    /// Returns the only remedy; `None` if a retry may help.
    fn remedy(self) -> Option<&'static str> {
        Some(match self {
            Reason::ChartChanged => "restart the operator, which then serves the chart as it is now",
            Reason::DeletionRefused => {
                "grant the permission, or lift the policy, that the message of Ready names, or correct spec or the chart"
            }
            Reason::DriftLoop => "stop the other writer, or put the field into drift.ignore",
            Reason::ExternalSchema => "correct watches.yaml or the chart; no value of spec helps",
            Reason::InvalidAnnotation => "correct the annotation",
            Reason::InvalidName => "create the resource under another name",
            Reason::InvalidOrder => {
                "correct the annotations and depends-on that the message of Ready names; helm-operator dag shows the order"
            }
            Reason::InvalidSchema => "correct the chart's values.schema.json; no value of spec helps",
            Reason::InvalidValues => "correct the values in spec",
            Reason::OutOfReach => {
                "correct the values in spec, or grant in watches.yaml what the message of Ready names"
            }
            Reason::ReleaseConflict => {
                "rename one of them, or take it over with the annotation helm.sdk.operatorframework.io/adopt"
            }
            Reason::ReleaseElsewhere => "set the key of watches.yaml as the message of Ready says",
            Reason::RenderError => "correct spec or the chart",
            Reason::RenderLimit => "make the chart render less, or raise the limit that the message of Ready names",
            Reason::TestFailed => {
                "correct spec or the chart; to try the same inputs again, set the annotation \
                 helm.sdk.operatorframework.io/retry-now to a new value"
            }
            Reason::UnsupportedKubernetes => "use a chart that supports this version of Kubernetes",
            Reason::ChartUnavailable
            | Reason::ChartUnverified
            | Reason::DependencyForbidden
            | Reason::Forbidden
            | Reason::GroupNotReady
            | Reason::ImpersonationForbidden
            | Reason::InstallError
            | Reason::InternalError
            | Reason::OtherOperator
            | Reason::PostRenderFailed
            | Reason::ReconcileError
            | Reason::RecordTooLarge
            | Reason::RecordsForbidden
            | Reason::ReleaseInFlight
            | Reason::ServiceAccountMissing
            | Reason::Unanswered
            | Reason::UninstallError
            | Reason::UpgradeError
            | Reason::ValueMappingFailed
            | Reason::ValuesSourceForbidden
            | Reason::ValuesSourceMissing
            | Reason::Own(_) => return None,
        })
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Compares with the reason of a condition.
impl PartialEq<Reason> for str {
    fn eq(&self, reason: &Reason) -> bool {
        self == reason.as_str()
    }
}

#[cfg(test)]
mod tests {
    use strum::IntoEnumIterator as _;

    use super::*;

    #[test]
    fn a_name_that_a_renderer_gives_is_the_reason_of_that_name() {
        for reason in Reason::iter() {
            assert_eq!(Reason::named(reason.as_str()), reason);
        }
        assert_eq!(Reason::named("NoSuchTool"), Reason::Own("NoSuchTool"));
        assert!(!Reason::named("NoSuchTool").is_permanent(), "only its author knows");
    }

    #[test]
    fn a_reason_is_permanent_if_only_one_thing_helps() {
        for (reason, permanent) in [
            (Reason::ChartChanged, true),
            (Reason::DeletionRefused, true),
            (Reason::InvalidValues, true),
            (Reason::RenderLimit, true),
            (Reason::UpgradeError, false),
            (Reason::Unanswered, false),
        ] {
            assert_eq!(reason.is_permanent(), permanent, "{reason}");
        }
    }
}
