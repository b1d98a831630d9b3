//! Recognizes images of upstream's operator.

/// Returns whether the image is upstream's operator or a build of it, from any registry, with any tag or digest.
///
/// An image without a registry or organization is not upstream's: our own image has that name where it is built.
pub(super) fn is_upstream(image: &str) -> bool {
    let Some((_, name)) = without_tag(image).rsplit_once('/') else { return false };
    match name {
        "helm-operator" | "origin-helm-operator" | "ose-helm-operator" => true,
        _ => is_openshift(name),
    }
}

/// Returns whether the name is OpenShift's, such as `ose-helm-rhel9-operator`.
fn is_openshift(name: &str) -> bool {
    let version = name.strip_prefix("ose-helm-rhel").and_then(|rest| rest.strip_suffix("-operator"));
    version.is_some_and(|version| !version.is_empty() && version.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Returns the image without tag and digest. A colon before a slash precedes the registry's port.
fn without_tag(image: &str) -> &str {
    let image = image.split_once('@').map_or(image, |(image, _)| image);
    match image.rsplit_once(':') {
        Some((name, tag)) if !tag.contains('/') => name,
        _ => image,
    }
}
