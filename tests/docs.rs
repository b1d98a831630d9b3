//! Checks that the book is complete: each page is in its summary, each link leads somewhere, and each reason that the
//! operator reports is explained.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

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

/// The repository in addresses; pages of the book link to files outside of `docs` by them.
const REPOSITORY: &str = "https://github.com/hybrid-helm-operator/hybrid-helm-operator";

/// What a Markdown page links to, and what others can link to.
#[derive(Default)]
struct Page {
    /// Targets as they are written, of links and pictures, those in HTML included.
    links: Vec<String>,
    anchors: BTreeSet<String>,
}

impl Page {
    fn read(path: &Path) -> Page {
        let text = fs::read_to_string(path).unwrap();
        let (mut page, mut heading) = (Page::default(), None);
        for event in Parser::new_ext(&text, Options::ENABLE_TABLES) {
            match event {
                Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                    page.links.push(dest_url.into_string());
                }
                Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
                Event::End(TagEnd::Heading(_)) => page.add_anchor(&heading.take().unwrap_or_default()),
                Event::Text(text) | Event::Code(text) => heading.iter_mut().for_each(|heading| heading.push_str(&text)),
                Event::Html(html) | Event::InlineHtml(html) => page.read_html(&html),
                _ => {}
            }
        }
        page
    }

    /// Adds the anchor of a heading, as GitHub and mdbook make it.
    fn add_anchor(&mut self, heading: &str) {
        let kept = |c: &char| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_');
        let slug: String =
            heading.to_lowercase().chars().filter(kept).map(|c| if c == ' ' { '-' } else { c }).collect();
        let taken = |slug: &String| self.anchors.contains(slug);
        let numbered = (1..).map(|number| format!("{slug}-{number}"));
        let free = std::iter::once(slug.clone()).chain(numbered).find(|slug| !taken(slug));
        self.anchors.extend(free);
    }

    fn read_html(&mut self, html: &str) {
        let values = |name: &str| -> Vec<String> {
            let start = format!(" {name}=\"");
            let starts = html.split(start.as_str()).skip(1);
            starts.filter_map(|rest| rest.split('"').next()).map(str::to_owned).collect()
        };
        ["href", "src", "srcset"].iter().for_each(|name| self.links.extend(values(name)));
        ["id", "name"].iter().for_each(|name| self.anchors.extend(values(name)));
    }
}

/// Returns the place in the repository that a link leads to, and its anchor; `None` for links to elsewhere.
fn target(from: &Path, link: &str) -> Option<(PathBuf, Option<String>)> {
    let (path, anchor) = link.split_once('#').map_or((link, None), |(path, anchor)| (path, Some(anchor.to_owned())));
    let path = match path.strip_prefix(REPOSITORY) {
        Some("") => root().join("README.md"),
        Some(path) => {
            let path = path.strip_prefix("/blob/main/").or_else(|| path.strip_prefix("/tree/main/"))?;
            root().join(path)
        }
        None if path.contains(':') => return None,
        None if path.is_empty() => from.to_owned(),
        None => from.parent().unwrap().join(path),
    };
    Some((path, anchor))
}

/// Returns why a link leads nowhere.
fn dead(from: &Path, link: &str) -> Option<String> {
    let (path, anchor) = target(from, link)?;
    // A folder is shown with its README.
    let file = if path.is_dir() { path.join("README.md") } else { path.clone() };
    let has_anchor = |anchor: &String| file.exists() && Page::read(&file).anchors.contains(anchor);
    match anchor {
        _ if !path.exists() => Some(format!("{}: {link} leads nowhere", from.display())),
        Some(anchor) if !has_anchor(&anchor) => {
            Some(format!("{}: no heading has the anchor of {link}", from.display()))
        }
        _ => None,
    }
}

/// Returns all pages that people read: the book, the pages at the root, and those beside crates, examples, charts and
/// manifests.
fn pages() -> Vec<PathBuf> {
    let beside = ["docs", "examples", "config", "charts"].iter().flat_map(|folder| files(&root().join(folder), "md"));
    let of_crates = fs::read_dir(root().join("crates")).unwrap();
    let of_crates = of_crates.map(|entry| entry.unwrap().path().join("README.md")).filter(|page| page.exists());
    let at_root = fs::read_dir(root()).unwrap().map(|entry| entry.unwrap().path());
    let at_root = at_root.filter(|path| path.extension().is_some_and(|extension| extension == "md"));
    beside.chain(of_crates).chain(at_root).collect()
}

#[test]
fn every_page_is_in_the_summary_once() {
    let docs = root().join("docs");
    let mut listed = Page::read(&docs.join("SUMMARY.md")).links;
    let pages = files(&docs, "md").into_iter();
    let pages = pages.map(|page| page.strip_prefix(&docs).unwrap().to_string_lossy().into_owned());
    // The book has only the listed pages: links to other pages break in it. mdbook refuses a page that is listed twice.
    let mut pages: Vec<String> = pages.filter(|name| name != "SUMMARY.md").collect();
    listed.sort();
    pages.sort();
    assert_eq!(pages, listed);
}

#[test]
fn every_link_leads_to_a_file_and_a_heading_of_the_repository() {
    let dead: Vec<String> = pages()
        .iter()
        .flat_map(|page| Page::read(page).links.into_iter().filter_map(|link| dead(page, &link)).collect::<Vec<_>>())
        .collect();
    assert!(dead.is_empty(), "{}", dead.join("\n"));
}

#[test]
fn a_link_without_a_file_or_without_a_heading_is_dead() {
    let readme = root().join("README.md");
    for link in
        ["docs/nowhere.md", "docs/watches.md#nowhere", "#nowhere", &format!("{REPOSITORY}/blob/main/nowhere.md")]
    {
        assert!(dead(&readme, link).is_some(), "{link}");
    }
    let repository = format!("{REPOSITORY}#quick-start");
    for link in ["docs/watches.md#roll-outs", "#quick-start", "examples", "https://example.com/nowhere", &repository] {
        assert_eq!(dead(&readme, link), None);
    }
}

#[test]
fn links_in_the_book_stay_in_the_book() {
    let docs = root().join("docs");
    for page in files(&docs, "md") {
        for link in Page::read(&page).links.iter().filter(|link| !link.contains(':')) {
            let (path, _) = target(&page, link).unwrap();
            let inside = path.canonicalize().is_ok_and(|path| path.starts_with(&docs) && !path.is_dir());
            assert!(inside, "{}: the book does not contain {link}; link to {REPOSITORY}", page.display());
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

/// Returns what is wrong with the list of decisions: a page that the list lacks, a title or an order that differs, or a
/// number that is neither a page nor named as unused.
fn wrong_decisions(index: &str, pages: &[(&str, &str)]) -> Vec<String> {
    let row = |name: &str, text: &str| {
        let number = &name[..4];
        let title = text.lines().next().unwrap_or_default();
        let title = title.strip_prefix(&format!("# {number}: ")).unwrap_or(title);
        format!("| [{number}]({name}) | {title} |")
    };
    let listed: Vec<&str> = index.lines().filter(|line| line.starts_with("| [")).collect();
    let wanted: Vec<String> = pages.iter().map(|(name, text)| row(name, text)).collect();
    let differs = |at: &usize| listed.get(*at).copied() != wanted.get(*at).map(String::as_str);
    let rows = (0..listed.len().max(wanted.len())).filter(differs).map(|at| {
        let or_nothing = |row: Option<&str>| row.unwrap_or("nothing").to_owned();
        format!(
            "listed {}, should be {}",
            or_nothing(listed.get(at).copied()),
            or_nothing(wanted.get(at).map(|w| &**w))
        )
    });
    let used: BTreeSet<&str> = pages.iter().map(|(name, _)| &name[..4]).collect();
    let last: usize = used.last().map_or(0, |number| number.parse().unwrap());
    let unused = (1..=last).map(|number| format!("{number:04}")).filter(|number| !used.contains(number.as_str()));
    let introduction = index.split("| [").next().unwrap_or_default();
    let unnamed = unused.filter(|number| !introduction.contains(number.as_str()));
    rows.chain(unnamed.map(|number| format!("{number} is neither a page nor named as unused"))).collect()
}

#[test]
fn the_list_of_decisions_has_every_page_by_number_and_title() {
    let folder = root().join("docs/decisions");
    let mut pages = files(&folder, "md");
    pages.retain(|page| !page.ends_with("README.md"));
    pages.sort();
    let read =
        |page: &PathBuf| (page.file_name().unwrap().to_str().unwrap().to_owned(), fs::read_to_string(page).unwrap());
    let pages: Vec<(String, String)> = pages.iter().map(read).collect();
    let pages: Vec<(&str, &str)> = pages.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
    let wrong = wrong_decisions(&fs::read_to_string(folder.join("README.md")).unwrap(), &pages);
    assert!(wrong.is_empty(), "docs/decisions/README.md:\n{}", wrong.join("\n"));
    // The book lists them in the same order.
    let summary = Page::read(&root().join("docs/SUMMARY.md")).links;
    let summary: Vec<&str> = summary.iter().filter_map(|link| link.strip_prefix("decisions/0")).collect();
    let names: Vec<&str> = pages.iter().map(|(name, _)| &name[1..]).collect();
    assert_eq!(summary, names, "docs/SUMMARY.md");
}

#[test]
fn a_decision_out_of_order_untitled_listed_twice_or_missing_is_wrong() {
    let (one, three) = (("0001-one.md", "# 0001: One\n"), ("0003-three.md", "# 0003: Three\n"));
    let (row_one, row_three) = ("| [0001](0001-one.md) | One |\n", "| [0003](0003-three.md) | Three |\n");
    let index = |rows: &[&str]| format!("0002 was never used.\n\n| page | decision |\n{}", rows.concat());
    let right = index(&[row_one, row_three]);
    assert_eq!(wrong_decisions(&right, &[one, three]), [""; 0]);
    for rows in [&[row_three, row_one][..], &[row_one, row_three, row_one], &[row_one]] {
        assert!(!wrong_decisions(&index(rows), &[one, three]).is_empty(), "{rows:?}");
    }
    for heading in ["# Three\n", "# 0003 Three\n", "# 0003: Another\n"] {
        assert!(!wrong_decisions(&right, &[one, ("0003-three.md", heading)]).is_empty(), "{heading}");
    }
    let unnamed = right.replace("0002 was", "Some were");
    assert_eq!(wrong_decisions(&unnamed, &[one, three]), ["0002 is neither a page nor named as unused"]);
}
