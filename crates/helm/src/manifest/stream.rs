//! One stream of documents for post-renderers, hooks included, and back.
//!
//! Counterpart: `annotateAndMerge` and `splitAndDeannotate` of Helm's `pkg/action/action.go`, since Helm 4.2. Helm
//! notes each document's template in an annotation; here it is the comment that `helm template` prints.

use std::collections::BTreeMap;

use super::{Hook, Manifest, SortError, recorded, sort_files, split};

const SOURCE: &str = "# Source: ";

/// The path of documents that a post-renderer adds.
const ADDED: &str = "generated-by-postrender.yaml";

/// Joins a release's manifest and the texts of its hooks, each with the path of its template, into one stream.
pub fn join<'a>(manifest: &str, hooks: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
    let hooks = hooks.into_iter().map(|(path, text)| format!("---\n{SOURCE}{path}\n{}\n", text.trim_end()));
    std::iter::once(manifest.to_owned()).chain(hooks).collect()
}

/// Separates the hooks from a stream; returns the manifest, as a record contains it, and the hooks. Both are in install
/// order. A document without the comment `# Source: <path>` is one that was added.
///
/// # Errors
/// Fails for the first document that is not a valid manifest.
pub fn separate(stream: &str) -> Result<(String, Vec<Hook>), SortError> {
    let (manifests, hooks) = documents(stream)?;
    Ok((recorded(&manifests), hooks))
}

/// Separates the hooks from a stream as [`separate`] does; returns the other documents one by one.
///
/// # Errors
/// Fails for the first document that is not a valid manifest.
pub fn documents(stream: &str) -> Result<(Vec<Manifest>, Vec<Hook>), SortError> {
    let mut files: BTreeMap<&str, String> = BTreeMap::new();
    for document in split(stream) {
        let (path, text) = source(document).unwrap_or((ADDED, document));
        let file = files.entry(path).or_default();
        file.push_str("---\n");
        file.push_str(text);
        file.push('\n');
    }
    let sorted = sort_files(files.iter().map(|(path, text)| (*path, text.as_str())))?;
    Ok((sorted.manifests, sorted.hooks))
}

/// Returns the path in a document's first line, and the rest of the document.
fn source(document: &str) -> Option<(&str, &str)> {
    let (path, text) = document.strip_prefix(SOURCE)?.split_once('\n')?;
    Some((path.trim_end(), text))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MANIFEST: &str =
        "---\n# Source: c/templates/a.yaml\nkind: ConfigMap\n---\n# Source: c/templates/b.yaml\nkind: Service\n";
    const HOOK: &str = "kind: Job\nmetadata:\n  name: job\n  annotations:\n    helm.sh/hook: pre-install,pre-upgrade\n    helm.sh/hook-weight: \"3\"";

    #[test]
    fn a_stream_that_nobody_changed_is_separated_into_what_was_joined() {
        let stream = join(MANIFEST, [("c/templates/job.yaml", HOOK)]);
        let (manifest, hooks) = separate(&stream).unwrap();
        assert_eq!(manifest, MANIFEST);
        let [hook] = &hooks[..] else { panic!("{hooks:?}") };
        assert_eq!((&*hook.path, hook.manifest.trim_end()), ("c/templates/job.yaml", HOOK));
        assert_eq!((&*hook.events, hook.weight), (&["pre-install", "pre-upgrade"][..], 3));
        assert_eq!(separate(&join(MANIFEST, [])).unwrap(), (MANIFEST.to_owned(), vec![]));
    }

    #[test]
    fn documents_are_hooks_because_of_their_annotation_whoever_wrote_it() {
        let turned =
            "kind: Secret\nmetadata: {name: s, annotations: {helm.sh/hook: post-delete}}\n---\nkind: Namespace\n";
        let (manifest, hooks) = separate(&format!("{turned}{MANIFEST}")).unwrap();
        assert_eq!(hooks.iter().map(|hook| (&*hook.name, &*hook.path)).collect::<Vec<_>>(), [("s", ADDED)]);
        assert_eq!(manifest, format!("---\n{SOURCE}{ADDED}\nkind: Namespace\n{MANIFEST}"));
        let error = separate("# Source: c/templates/x.yaml\na: [").unwrap_err();
        assert_eq!(error.path, "c/templates/x.yaml");
    }
}
