//! The files that commands write, from `templates/`. Placeholders such as `__project__` are replaced.

/// A file to write: its path in the project, and its text with placeholders.
pub(crate) type Template = (&'static str, &'static str);

/// Lists files of `templates/` with their paths in a project.
macro_rules! templates {
    ($($path:literal: $file:literal),+ $(,)?) => {
        &[$(($path, include_str!(concat!("../templates/", $file)))),+]
    };
}

pub(crate) const PROJECT: &[Template] = templates! {
    ".dockerignore": "project/dockerignore",
    ".gitignore": "project/gitignore",
    "watches.yaml": "project/watches.yaml",
    "config/default/kustomization.yaml": "project/config/default/kustomization.yaml",
    "config/default/metrics_service.yaml": "project/config/default/metrics_service.yaml",
    "config/manager/kustomization.yaml": "project/config/manager/kustomization.yaml",
    "config/manager/manager.yaml": "project/config/manager/manager.yaml",
    "config/prometheus/kustomization.yaml": "project/config/prometheus/kustomization.yaml",
    "config/prometheus/monitor.yaml": "project/config/prometheus/monitor.yaml",
    "config/prometheus/rules.yaml": "project/config/prometheus/rules.yaml",
    "config/web/kustomization.yaml": "project/config/web/kustomization.yaml",
    "config/web/reviewer_role_binding.yaml": "project/config/web/reviewer_role_binding.yaml",
    "config/web/service.yaml": "project/config/web/service.yaml",
    "config/rbac/kustomization.yaml": "project/config/rbac/kustomization.yaml",
    "config/rbac/leader_election_role.yaml": "project/config/rbac/leader_election_role.yaml",
    "config/rbac/metrics_reader_role.yaml": "project/config/rbac/metrics_reader_role.yaml",
    "config/rbac/role.yaml": "project/config/rbac/role.yaml",
    "config/rbac/role_binding.yaml": "project/config/rbac/role_binding.yaml",
    "config/rbac/service_account.yaml": "project/config/rbac/service_account.yaml",
};

/// The additional files of a project without code.
pub(crate) const CHARTS: &[Template] = templates! {
    "Dockerfile": "charts/Dockerfile",
    "Makefile": "charts/Makefile",
    "README.md": "charts/README.md",
};

/// The additional files of a hybrid project.
pub(crate) const HYBRID: &[Template] = templates! {
    // Cargo leaves out a folder with a Cargo.toml when it packages this crate, so the file has another name here.
    "Cargo.toml": "hybrid/manifest.toml",
    "Dockerfile": "hybrid/Dockerfile",
    "Makefile": "hybrid/Makefile",
    "README.md": "hybrid/README.md",
    "src/main.rs": "hybrid/src/main.rs",
    "src/api/mod.rs": "hybrid/src/api/mod.rs",
    "src/controllers/mod.rs": "hybrid/src/controllers/mod.rs",
    "tests/cluster.rs": "hybrid/tests/cluster.rs",
};

/// The starter chart; paths are relative to its folder.
pub(crate) const STARTER_CHART: &[Template] = templates! {
    ".helmignore": "chart/helmignore",
    "Chart.yaml": "chart/Chart.yaml",
    "values.yaml": "chart/values.yaml",
    "templates/NOTES.txt": "chart/templates/NOTES.txt",
    "templates/_helpers.tpl": "chart/templates/_helpers.tpl",
    "templates/deployment.yaml": "chart/templates/deployment.yaml",
    "templates/hpa.yaml": "chart/templates/hpa.yaml",
    "templates/ingress.yaml": "chart/templates/ingress.yaml",
    "templates/service.yaml": "chart/templates/service.yaml",
    "templates/serviceaccount.yaml": "chart/templates/serviceaccount.yaml",
    "templates/tests/test-connection.yaml": "chart/templates/tests/test-connection.yaml",
};

/// Roles for users of an API.
pub(crate) const EDITOR_ROLE: &str = include_str!("../templates/api/editor_role.yaml");
pub(crate) const VIEWER_ROLE: &str = include_str!("../templates/api/viewer_role.yaml");

pub(crate) const BUNDLE_BASE: &str = include_str!("../templates/bundle/base.yaml");
pub(crate) const BUNDLE_ICON: &str = include_str!("../templates/bundle/icon.svg");

/// Kustomizations that the first API starts.
pub(crate) const CRD_KUSTOMIZATION: &str = include_str!("../templates/api/crd-kustomization.yaml");
pub(crate) const SAMPLES_KUSTOMIZATION: &str = include_str!("../templates/api/samples-kustomization.yaml");

/// The parts of a native kind.
pub(crate) const NATIVE_API: &str = include_str!("../templates/native/api.rs");
pub(crate) const NATIVE_CONTROLLER: &str = include_str!("../templates/native/controller.rs");
pub(crate) const NATIVE_SAMPLE: &str = include_str!("../templates/native/sample.yaml");

/// The files that webhooks need.
pub(crate) const WEBHOOK_KUSTOMIZATION: &str = include_str!("../templates/webhook/kustomization.yaml");
pub(crate) const WEBHOOK_SERVICE: &str = include_str!("../templates/webhook/service.yaml");
pub(crate) const WEBHOOK_CONFIGURATIONS: &str = include_str!("../templates/webhook/configurations.yaml");
pub(crate) const WEBHOOK_ROLE: &str = include_str!("../templates/webhook/role.yaml");

/// Replaces `__name__` by its value, for each pair.
pub(crate) fn fill(template: &str, words: &[(&str, &str)]) -> String {
    words.iter().fold(template.to_owned(), |text, (name, value)| text.replace(&format!("__{name}__"), value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_replaced_everywhere_and_case_counts() {
        assert_eq!(fill("__kind__ __Kind__-__kind__", &[("kind", "a"), ("Kind", "A")]), "a A-a");
    }
}
