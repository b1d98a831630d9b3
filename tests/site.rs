//! The site: the book with pictures, the API documentation and the playground, and the branch on which each version of it
//! is published.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use crate::publishable::published_names;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap()
}

#[test]
fn the_page_of_the_api_lists_each_published_crate() {
    let page = read("docs/api.md");
    let rows = page.lines().filter_map(|line| line.strip_prefix("| [")?.split(']').next());
    assert_eq!(rows.map(str::to_owned).collect::<BTreeSet<_>>(), published_names());
}

#[test]
fn each_picture_of_the_figures_is_on_the_page_of_pictures() {
    let page = read("docs/pictures.md");
    for entry in fs::read_dir(root().join("docs/figures")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let is_picture = name.ends_with(".png") || name.ends_with(".svg");
        assert!(!is_picture || page.contains(&format!("(figures/{name})")), "docs/pictures.md lacks {name}");
    }
}

#[test]
fn the_site_replaces_a_sentence_of_the_page_about_the_playground_by_a_link() {
    let script = read("hack/site");
    let sentence = script.split("'s|^").nth(1).and_then(|rest| rest.split("$|[Open it](playground/index.html)").next());
    let page = read("docs/playground.md");
    assert!(page.lines().any(|line| Some(line) == sentence), "{sentence:?}");
}

/// Runs git, and returns what it prints.
fn git(folder: &Path, arguments: &[&str]) -> String {
    let output = Command::new("git").arg("-C").arg(folder).args(arguments).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn each_version_of_the_site_is_published_beside_the_others() {
    let folder = tempfile::tempdir().unwrap();
    let (remote, site) = (folder.path().join("remote"), folder.path().join("site"));
    git(folder.path(), &["init", "--quiet", "--bare", "remote"]);
    fs::create_dir(&site).unwrap();
    for version in ["0.9.0", "0.10.0", "0.9.1", "0.11.0-rc.1", "0.9.1"] {
        fs::write(site.join("index.html"), version).unwrap();
        let mut publish = Command::new(root().join("hack/publish-site"));
        publish.arg(&remote).env("SITE", &site).env("VERSION", version);
        let output = publish.output().unwrap();
        assert!(output.status.success(), "{version}: {}", String::from_utf8_lossy(&output.stderr));
    }
    let show = |file: &str| git(&remote, &["show", &format!("gh-pages:{file}")]);
    for version in ["0.9.0", "0.10.0", "0.9.1", "0.11.0-rc.1"] {
        assert_eq!(show(&format!("{version}/index.html")), version);
    }
    assert_eq!(show("latest/index.html"), "0.10.0");
    let list = show("versions.html");
    let at = |version: &str| list.find(&format!("\"{version}/\"")).unwrap();
    assert!(
        at("latest") < at("0.11.0-rc.1") && at("0.11.0-rc.1") < at("0.10.0") && at("0.10.0") < at("0.9.1"),
        "{list}"
    );
    assert!(show("index.html").contains("url=latest/"));
    // The last run changed nothing.
    assert_eq!(git(&remote, &["rev-list", "--count", "gh-pages"]).trim(), "4");
}
