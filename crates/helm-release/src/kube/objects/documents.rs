//! Removes documents from a stored manifest.

use go_encoding::yaml;

use super::object::{Object, ObjectError, ObjectFault, objects_of};

/// Returns a stored manifest without the documents of these objects; `None` if one of them is in a list with others.
///
/// # Errors
/// The first document that is not an object.
pub(crate) fn without_objects(
    manifest: &str,
    is_removed: impl Fn(&Object) -> bool,
) -> Result<Option<String>, ObjectError> {
    let unreadable = |e: yaml::Error| ObjectError { template: "".into(), fault: ObjectFault::Yaml(e.to_string()) };
    let mut kept = String::new();
    for document in yaml::split(manifest.as_bytes()).map_err(unreadable)? {
        let document = String::from_utf8_lossy(&document);
        let objects = objects_of(&document)?;
        let removed = objects.iter().filter(|object| is_removed(object)).count();
        if removed > 0 && removed < objects.len() {
            return Ok(None);
        }
        if removed == 0 {
            // The first document of a stream starts with its dashes.
            kept.push_str(if document.starts_with("---") { "" } else { "---\n" });
            kept.push_str(&document);
        }
    }
    Ok(Some(kept))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the manifest without the objects named `x`.
    fn without_x(manifest: &str) -> Option<String> {
        without_objects(manifest, |object| object.name == "x").unwrap()
    }

    fn map(name: &str) -> String {
        format!("# Source: c/{name}.yaml\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\n")
    }

    #[test]
    fn the_documents_of_removed_objects_go_and_the_others_stay_as_they_are() {
        let (a, b, x) = (map("a"), map("b"), map("x"));
        let both = format!("---\n{a}---\n{b}");
        for manifest in [
            format!("---\n{a}---\n{x}---\n{b}"),
            format!("---\n{x}---\n{a}---\n{b}"),
            format!("{a}---\n{b}---\n{x}"),
            format!("---\n{a}---\n{x}---\n{x}---\n{b}"),
        ] {
            assert_eq!(without_x(&manifest).unwrap(), both, "{manifest}");
        }
        assert_eq!(without_x(&x).unwrap(), "");
    }

    #[test]
    fn a_list_goes_only_as_a_whole() {
        let item = |name: &str| format!("{{apiVersion: v1, kind: ConfigMap, metadata: {{name: {name}}}}}");
        let list = |names: &[&str]| {
            let items: Vec<String> = names.iter().map(|name| item(name)).collect();
            format!("---\napiVersion: v1\nkind: List\nitems: [{}]\n", items.join(", "))
        };
        assert_eq!(without_x(&list(&["x", "x"])).unwrap(), "");
        assert_eq!(without_x(&list(&["a", "b"])).unwrap(), list(&["a", "b"]));
        assert_eq!(without_x(&list(&["a", "x"])), None);
    }
}
