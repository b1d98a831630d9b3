//! Checks that the book is complete: each page is in its summary, each link leads somewhere, and each reason that the
//! operator reports is explained.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Returns the files below a folder with this extension.
fn files(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path, extension));
        } else if path.extension().is_some_and(|e| e == extension) {
            found.push(path);
        }
    }
    found
}

/// Returns the targets of a page's Markdown links to files, without anchors.
fn links(text: &str) -> Vec<String> {
    let targets = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    let files = targets.map(|target| target.split('#').next().unwrap_or_default());
    files.filter(|target| !target.is_empty() && !target.contains(':')).map(str::to_owned).collect()
}

#[test]
fn every_page_is_in_the_summary() {
    let docs = root().join("docs");
    let listed: BTreeSet<String> = links(&fs::read_to_string(docs.join("SUMMARY.md")).unwrap()).into_iter().collect();
    let pages = files(&docs, "md").into_iter();
    let pages = pages.map(|page| page.strip_prefix(&docs).unwrap().to_string_lossy().into_owned());
    // The book has only the listed pages: links to other pages break in it.
    let pages: BTreeSet<String> = pages.filter(|name| name != "SUMMARY.md").collect();
    assert_eq!(pages, listed);
}

#[test]
fn every_link_between_files_leads_somewhere() {
    let mut pages = files(&root().join("docs"), "md");
    pages.extend(files(&root().join("examples"), "md"));
    pages.extend(
        ["README.md", "ARCHITECTURE.md", "COMPATIBILITY.md", "CONTRIBUTING.md", "SECURITY.md"]
            .map(|page| root().join(page)),
    );
    for page in pages {
        for link in links(&fs::read_to_string(&page).unwrap()) {
            let target = page.parent().unwrap().join(&link);
            assert!(target.exists(), "{}: {link} leads nowhere", page.display());
        }
    }
}

/// Returns the names of tests on the page about security: words in backticks with three or more underscores.
fn tests_of(page: &str) -> BTreeSet<&str> {
    let is_name = |word: &&str| {
        word.matches('_').count() >= 3
            && word.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
    };
    page.split('`').skip(1).step_by(2).filter(is_name).collect()
}

#[test]
fn every_test_that_the_page_about_security_names_exists() {
    let page = fs::read_to_string(root().join("docs/security.md")).unwrap();
    let mut missing = tests_of(&page);
    assert!(missing.len() > 30, "only {} tests are named", missing.len());
    for folder in ["crates", "tests"] {
        for file in files(&root().join(folder), "rs") {
            let code = fs::read_to_string(file).unwrap();
            missing.retain(|test| !code.contains(&format!("fn {test}()")));
        }
    }
    assert!(missing.is_empty(), "docs/security.md names tests that do not exist: {missing:?}");
}

/// Returns the reasons in the code: variants of `Reason`, and upper camel case words that are passed to a fault, an outcome
/// or a condition.
fn reasons(code: &str) -> BTreeSet<String> {
    let code = code.split("#[cfg(test)]").next().unwrap_or_default();
    let starts = ["fault(\"", "reason: \"", "normal(\"", "warning(\"", "=> \"", "Some((\""];
    let after = starts.iter().flat_map(|start| code.split(start).skip(1));
    let variants = code.split("Reason::").skip(1).filter_map(|rest| rest.split(|c: char| !c.is_alphanumeric()).next());
    let words = after.filter_map(|rest| rest.split('"').next()).chain(variants);
    let is_reason = |word: &&str| {
        let humps = word.chars().filter(char::is_ascii_uppercase).count();
        humps > 1
            && word.starts_with(|c: char| c.is_ascii_uppercase())
            && word.chars().all(char::is_alphanumeric)
            && word.chars().any(|c| c.is_ascii_lowercase())
    };
    words.filter(is_reason).map(str::to_owned).collect()
}

#[test]
fn every_reason_is_explained() {
    let page = fs::read_to_string(root().join("docs/conditions.md")).unwrap();
    let code = root().join("crates");
    let mut checked = 0;
    let of_charts =
        ["charts", "reconcile", "rendering", "view", "status", "web"].map(|room| format!("helm-operator/src/{room}"));
    for folder in of_charts.iter().map(String::as_str).chain(["controller/src/reconciler"]) {
        let path = code.join(folder);
        let all = if path.is_dir() { files(&path, "rs") } else { vec![path] };
        for file in all.iter().filter(|file| !file.to_string_lossy().contains("tests")) {
            for reason in reasons(&fs::read_to_string(file).unwrap()) {
                // Kinds and versions of objects are written alike.
                if [
                    "ConfigMap",
                    "DaemonSet",
                    "StatefulSet",
                    "ReplicaSet",
                    "APIService",
                    "ReplicationController",
                    "HelmRelease",
                ]
                .contains(&reason.as_str())
                {
                    continue;
                }
                checked += 1;
                assert!(
                    page.contains(&format!("`{reason}`")),
                    "docs/conditions.md lacks {reason} ({})",
                    file.display()
                );
            }
        }
    }
    assert!(checked > 20, "only {checked} reasons found: does the search still fit the code?");
}
