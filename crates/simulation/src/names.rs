//! The names and paths of all objects.

/// The group and version of the custom resources.
pub const API_VERSION: &str = "sim.example.com/v1";

/// The names of resources. The last one has a separate namespace.
pub const NAMES: [&str; 4] = ["a", "b", "c", "o"];

/// The namespace of all resources but the last.
pub const NAMESPACE: &str = "default";

/// The namespace of the last resource.
pub const OTHER: &str = "other";

/// A namespace in which processes may keep the records of all releases.
pub const RECORDS: &str = "records";

/// The objects of every release.
pub const OBJECTS: [&str; 6] = [
    "/api/v1/namespaces/{ns}/configmaps/{}-config",
    "/api/v1/namespaces/{ns}/secrets/{}-random",
    "/api/v1/namespaces/{ns}/secrets/{}-guarded",
    "/api/v1/namespaces/{ns}/persistentvolumeclaims/{}-data",
    "/api/v1/namespaces/{ns}/persistentvolumeclaims/{}-kept",
    "/apis/apps/v1/namespaces/{ns}/deployments/{}-server",
];

/// The objects of only some values or charts: a Service, and a ConfigMap of later charts.
pub const SOME: [&str; 2] = ["/api/v1/namespaces/{ns}/services/{}-cache", "/api/v1/namespaces/{ns}/configmaps/{}-more"];

/// The Jobs: one with a time to live, a hook, and the pre-delete hook of a release that a person made.
pub const JOBS: [&str; 3] = [
    "/apis/batch/v1/namespaces/{ns}/jobs/{}-task",
    "/apis/batch/v1/namespaces/{ns}/jobs/{}-hook",
    "/apis/batch/v1/namespaces/{ns}/jobs/{}-farewell",
];

/// The Secret with values for the resources of a namespace.
pub const SHARED: &str = "/api/v1/namespaces/{ns}/secrets/shared";

const RESOURCES: &str = "/apis/sim.example.com/v1/namespaces/{ns}/webs/{}";

/// The path of a resource of another kind that claims the same release.
const CLAIMS: &str = "/apis/sim.example.com/v1/namespaces/{ns}/sites/{}";

/// Returns the namespace of the resource with this name.
pub fn namespace(name: &str) -> &'static str {
    if name == "o" { OTHER } else { NAMESPACE }
}

/// Returns the path of a resource's object.
pub fn path(pattern: &str, name: &str) -> String {
    pattern.replace("{ns}", namespace(name)).replace("{}", name)
}

/// Returns the path of a resource.
pub fn resource(name: &str) -> String {
    path(RESOURCES, name)
}

/// Returns the path of the resource of another kind that claims the same release.
pub fn claim(name: &str) -> String {
    path(CLAIMS, name)
}

/// Returns the path of an object given as `configmaps/a-config`.
pub fn object(short: &str) -> String {
    let (plural, name) = short.split_once('/').unwrap_or((short, ""));
    let root = match plural {
        "deployments" => "/apis/apps/v1",
        "jobs" => "/apis/batch/v1",
        _ => "/api/v1",
    };
    format!("{root}/namespaces/{}/{plural}/{name}", namespace(name.split('-').next().unwrap_or_default()))
}

/// Returns the name of the resource that the object, which may be a Job, belongs to.
pub fn owner(path_of_object: &str) -> Option<&'static str> {
    let last = path_of_object.rsplit('/').next()?;
    let name = NAMES.into_iter().find(|name| last.strip_prefix(name).is_some_and(|rest| rest.starts_with('-')))?;
    let all = OBJECTS.iter().chain(&SOME).chain(&JOBS);
    all.into_iter().any(|pattern| path(pattern, name) == path_of_object).then_some(name)
}

/// Returns whether this is an object of the release other than a Job.
pub fn is_of(path: &str, name: &str) -> bool {
    owner(path) == Some(name) && !path.contains("/jobs/")
}

/// Returns whether this is the Job of a hook.
pub fn is_hook(path: &str) -> bool {
    path.contains("/jobs/") && (path.ends_with("-hook") || path.ends_with("-farewell"))
}

/// Returns the release and the revision of a record's path.
pub fn record(path_of_object: &str) -> Option<(&str, &str)> {
    let (recorded, revision) = recorded(path_of_object)?;
    Some((recorded.split_once('.').map_or(recorded, |(_, name)| name), revision))
}

/// Returns the namespace of a record that is not beside its release.
pub fn place(path_of_object: &str) -> Option<&str> {
    recorded(path_of_object).filter(|(recorded, _)| recorded.contains('.'))?;
    path_of_object.split_once("/namespaces/")?.1.split('/').next()
}

/// Returns the name that a record has in the store of its namespace, and its revision.
fn recorded(path_of_object: &str) -> Option<(&str, &str)> {
    path_of_object.rsplit_once("/sh.helm.release.v1.")?.1.rsplit_once(".v")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_of_a_record_tells_its_release_and_where_it_is() {
        let path = |namespace: &str, name: &str| format!("/api/v1/namespaces/{namespace}/secrets/{name}");
        for (behaviour, path, release, there) in [
            ("beside its release", path("default", "sh.helm.release.v1.a.v3"), Some(("a", "3")), None),
            ("elsewhere", path("records", "sh.helm.release.v1.other.o.v12"), Some(("o", "12")), Some("records")),
            ("another Secret", path("records", "a-random"), None, None),
        ] {
            assert_eq!((record(&path), place(&path)), (release, there), "{behaviour}");
        }
    }
}
