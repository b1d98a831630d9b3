//! Names loggers as users know them, such as `helm.controller` in operator-sdk, not by the module that logs.

/// Logger names by module, which is the start of a target. The first match counts.
const LOGGERS: [(&str, &str); 22] = [
    ("helm_operator::charts", "helm.controller"),
    ("helm_operator::reconcile", "helm.controller"),
    ("helm_operator::view", "helm.controller"),
    ("helm_operator::rendering", "helm.render"),
    ("helm_operator::manager", "manager"),
    ("controller::runtime::readiness", "manager"),
    ("controller::runtime", "helm.controller"),
    ("controller::reconciler", "controller"),
    ("controller::report", "controller"),
    ("controller::manager", "manager"),
    ("controller::lease", "leader-election"),
    ("controller::server", "server"),
    ("controller::metrics", "metrics"),
    ("controller::events", "events"),
    ("controller::client", "client"),
    ("controller::rights", "rights"),
    ("helm_operator::preflight", "rights"),
    ("helm_operator::cli::reload", "reload"),
    ("helm_operator::cli", "cmd"),
    ("helm_operator::watches", "watches"),
    ("helm_release", "helm.release"),
    ("helm_operator", "helm-operator"),
];

/// The libraries between the program and the API server.
pub(super) const CLIENT: [&str; 9] =
    ["kube", "kube_client", "kube_runtime", "hyper", "hyper_util", "tower", "rustls", "h2", "mio"];

/// Returns the logger for an event's target. The controllers of an operator's author are `controllers.shop`, as in
/// kubebuilder's scaffolds; other modules of theirs use the crate's name.
pub(super) fn name(target: &str) -> String {
    let is_of =
        |module: &str| target.strip_prefix(module).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"));
    if let Some((_, logger)) = LOGGERS.iter().find(|(module, _)| is_of(module)) {
        return (*logger).to_owned();
    }
    if CLIENT.iter().any(|library| is_of(library)) {
        return "client".to_owned();
    }
    let mut parts = target.split("::");
    let (krate, module, controller) = (parts.next().unwrap_or_default(), parts.next(), parts.next());
    let name = match (module, controller) {
        (Some("controllers"), Some(controller)) => format!("controllers.{controller}"),
        _ => krate.to_owned(),
    };
    name.replace('_', "-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loggers_have_the_fields_words() {
        for (target, expected) in [
            ("helm_operator::reconcile::steps", "helm.controller"),
            ("helm_operator::reconcile_of_another_kind", "helm-operator"),
            ("controller::lease::decide", "leader-election"),
            ("helm_operator::cli::reload", "reload"),
            ("helm_operator::cli", "cmd"),
            ("helm_release::kube::hooks", "helm.release"),
            ("kube_runtime::watcher", "client"),
            ("memcached_operator::controllers::memcached_backup::decide", "controllers.memcached-backup"),
            ("memcached_operator::api", "memcached-operator"),
            ("my_logger", "my-logger"),
        ] {
            assert_eq!(name(target), expected, "{target}");
        }
    }
}
