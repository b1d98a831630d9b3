//! `.Capabilities`: the cluster's version and APIs.
//!
//! Counterpart: Helm's `pkg/chart/common/capabilities.go`.

use std::sync::Arc;

use go_template::{Field, FuncError, Kind, List, Object, Param, Scope, Str, Value};

use super::KubeVersion;
use super::calls::Render;

/// The Kubernetes version assumed without a cluster.
const DEFAULT_KUBE_VERSION: &str = "v1.37.0";

/// The Helm release whose behaviour charts get: `.Capabilities.HelmVersion.Version`. `crates/test-cluster/tools/build` builds it for comparison.
const HELM_VERSION: &str = "v4.3.1";

/// The Go release that builds Helm v4.3.1.
const GO_VERSION: &str = "go1.26.8";

/// The API versions assumed without a cluster: those that the client library of Helm v4.3.1 knows.
pub const DEFAULT_API_VERSIONS: &[&str] = &[
    "v1",
    "admissionregistration.k8s.io/v1",
    "admissionregistration.k8s.io/v1alpha1",
    "admissionregistration.k8s.io/v1beta1",
    "internal.apiserver.k8s.io/v1alpha1",
    "apps/v1",
    "apps/v1beta1",
    "apps/v1beta2",
    "authentication.k8s.io/v1",
    "authentication.k8s.io/v1alpha1",
    "authentication.k8s.io/v1beta1",
    "authorization.k8s.io/v1",
    "authorization.k8s.io/v1beta1",
    "autoscaling/v1",
    "autoscaling/v2",
    "batch/v1",
    "batch/v1beta1",
    "certificates.k8s.io/v1",
    "certificates.k8s.io/v1beta1",
    "certificates.k8s.io/v1alpha1",
    "coordination.k8s.io/v1alpha2",
    "coordination.k8s.io/v1beta1",
    "coordination.k8s.io/v1",
    "discovery.k8s.io/v1",
    "discovery.k8s.io/v1beta1",
    "events.k8s.io/v1",
    "events.k8s.io/v1beta1",
    "extensions/v1beta1",
    "flowcontrol.apiserver.k8s.io/v1",
    "flowcontrol.apiserver.k8s.io/v1beta1",
    "flowcontrol.apiserver.k8s.io/v1beta2",
    "flowcontrol.apiserver.k8s.io/v1beta3",
    "lifecycle.k8s.io/v1alpha1",
    "networking.k8s.io/v1",
    "networking.k8s.io/v1beta1",
    "node.k8s.io/v1",
    "node.k8s.io/v1alpha1",
    "node.k8s.io/v1beta1",
    "policy/v1",
    "policy/v1beta1",
    "rbac.authorization.k8s.io/v1",
    "rbac.authorization.k8s.io/v1beta1",
    "rbac.authorization.k8s.io/v1alpha1",
    "resource.k8s.io/v1",
    "resource.k8s.io/v1beta2",
    "resource.k8s.io/v1beta1",
    "resource.k8s.io/v1alpha3",
    "scheduling.k8s.io/v1alpha3",
    "scheduling.k8s.io/v1beta1",
    "scheduling.k8s.io/v1",
    "storage.k8s.io/v1beta1",
    "storage.k8s.io/v1",
    "storage.k8s.io/v1alpha1",
    "storagemigration.k8s.io/v1",
    "storagemigration.k8s.io/v1beta1",
    "apiextensions.k8s.io/v1beta1",
    "apiextensions.k8s.io/v1",
];

/// The cluster's version and APIs, which charts see as `.Capabilities`.
#[derive(Clone, Debug)]
pub struct Capabilities {
    /// The cluster's version.
    pub kube_version: KubeVersion,
    /// `group/version` and `group/version/Kind` entries.
    pub api_versions: Arc<Vec<Str>>,
    /// The version in `HelmVersion`. Default: that of the Helm release whose behaviour charts get.
    pub helm_version: Str,
    /// The group versions of API servers that do not answer, so that it is unknown which kinds they serve. A template that asks for such a kind fails.
    pub silent: Arc<Vec<Str>>,
}

impl Capabilities {
    /// Returns the capabilities of a cluster with this version and these API versions.
    pub fn new(kube_version: KubeVersion, api_versions: impl IntoIterator<Item = impl Into<Str>>) -> Capabilities {
        let api_versions = Arc::new(api_versions.into_iter().map(Into::into).collect());
        Capabilities { kube_version, api_versions, helm_version: HELM_VERSION.into(), silent: Arc::default() }
    }

    /// Returns whether it is unknown if a kind is served, given as `group/version/Kind`, because its API server does not answer.
    pub fn hides(&self, kind: &Str) -> bool {
        silent_about(&self.silent, kind).is_some()
    }

    /// Returns the value that templates see.
    pub fn to_value(&self) -> Value {
        Value::Object(Arc::new(self.clone()))
    }
}

impl Default for Capabilities {
    fn default() -> Self {
        let kube_version = KubeVersion::parse(DEFAULT_KUBE_VERSION)
            .unwrap_or_else(|_| KubeVersion::bare(DEFAULT_KUBE_VERSION, "1", "37"));
        Capabilities::new(kube_version, DEFAULT_API_VERSIONS.iter().copied())
    }
}

impl Object for Capabilities {
    fn type_name(&self) -> &str {
        "*common.Capabilities"
    }

    fn kind(&self) -> Kind {
        Kind::Ptr
    }

    fn field(&self, name: &str) -> Option<Value> {
        match name {
            "KubeVersion" => Some(Value::Object(Arc::new(self.kube_version.clone()))),
            "APIVersions" => {
                let (known, silent) = (Arc::clone(&self.api_versions), Arc::clone(&self.silent));
                Some(Value::Object(Arc::new(VersionSet { known, silent })))
            }
            "HelmVersion" => Some(Value::Object(Arc::new(BuildInfo(self.helm_version.clone())))),
            _ => None,
        }
    }

    fn fields(&self) -> Vec<Field> {
        let field = |name| Field::new(name, self.field(name).unwrap_or_default());
        vec![field("KubeVersion"), field("APIVersions"), field("HelmVersion")]
    }

    fn signature(&self, method: &str) -> Option<(&[Param], Option<Param>)> {
        (method == "Copy").then_some((&[], None))
    }

    fn call(&self, _: &mut Scope<'_>, method: &str, _: &[Value]) -> Option<Result<Value, FuncError>> {
        (method == "Copy").then(|| Ok(self.to_value()))
    }
}

/// Returns the silent group version of this kind.
fn silent_about<'a>(silent: &'a [Str], kind: &Str) -> Option<&'a Str> {
    silent.iter().find(|version| kind.strip_prefix(&***version).is_some_and(|rest| rest.first() == Some(&b'/')))
}

/// `.Capabilities.APIVersions`.
#[derive(Debug)]
struct VersionSet {
    known: Arc<Vec<Str>>,
    silent: Arc<Vec<Str>>,
}

impl VersionSet {
    /// Returns whether an API version or kind is served.
    ///
    /// # Errors
    /// The API server that would serve it does not answer.
    fn has(&self, scope: &mut Scope<'_>, wanted: &Str) -> Result<bool, FuncError> {
        if self.known.contains(wanted) {
            return Ok(true);
        }
        let Some(silent) = silent_about(&self.silent, wanted) else { return Ok(false) };
        if let Some(render) = scope.host::<Render>() {
            render.is_unanswered = true;
        }
        let silent = silent.to_text();
        let (group, version) = silent.split_once('/').unwrap_or(("", &silent));
        let service = format!("{version}.{group}");
        Err(FuncError::new(format!(
            "cannot find out whether {wanted:?} is served: the API server behind APIService {service:?} does not answer; repair that server, or delete \
             the APIService if it was removed permanently"
        )))
    }
}

impl Object for VersionSet {
    fn type_name(&self) -> &str {
        "common.VersionSet"
    }

    fn kind(&self) -> Kind {
        Kind::Slice
    }

    fn signature(&self, method: &str) -> Option<(&[Param], Option<Param>)> {
        (method == "Has").then_some((&[Param::String], None))
    }

    fn call(&self, scope: &mut Scope<'_>, method: &str, args: &[Value]) -> Option<Result<Value, FuncError>> {
        if method != "Has" {
            return None;
        }
        let wanted = args.first().and_then(Value::as_str);
        Some(wanted.map_or(Ok(false), |wanted| self.has(scope, wanted)).map(Value::Bool))
    }

    fn data(&self) -> Value {
        Value::List(List::strings(self.known.iter().cloned()))
    }

    fn is_true(&self) -> bool {
        !self.known.is_empty()
    }
}

/// `.Capabilities.HelmVersion`.
#[derive(Debug)]
struct BuildInfo(Str);

impl Object for BuildInfo {
    fn type_name(&self) -> &str {
        "version.BuildInfo"
    }

    fn kind(&self) -> Kind {
        Kind::Struct
    }

    fn fields(&self) -> Vec<Field> {
        let field = |name, json_name, value: &str| Field { json_name, omit_empty: true, ..Field::new(name, value) };
        vec![
            Field { json_name: "version", omit_empty: true, ..Field::new("Version", self.0.clone()) },
            field("GitCommit", "git_commit", ""),
            field("GitTreeState", "git_tree_state", ""),
            field("GoVersion", "go_version", GO_VERSION),
            field("KubeClientVersion", "kube_client_version", "v1.37"),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_helm_version_is_the_release_that_comparisons_build() {
        let build = include_str!("../../../../crates/test-cluster/tools/build");
        assert!(build.contains(&format!("helm_version={HELM_VERSION}\n")));
        let shown = Capabilities::default().field("HelmVersion").unwrap();
        let Value::Object(info) = shown else { panic!("not an object") };
        assert_eq!(info.field("Version").unwrap().as_str().unwrap().to_string(), HELM_VERSION);
    }
}
