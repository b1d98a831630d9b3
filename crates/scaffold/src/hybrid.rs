//! Adds Rust to a project that has only charts.
//!
//! Replaces files that `init` wrote and the user did not edit. Keeps edited files, and writes the missing parts into
//! new files next to them.

use crate::library::Library;
use crate::project_file::{self, ProjectFile};
use crate::templates::{CHARTS, HYBRID, Template, fill};
use crate::{Error, Project};

/// Cargo's build folder.
const TARGET: &str = "/target/";

/// Makes the project hybrid; returns notes for the user. Leaves a hybrid project unchanged.
///
/// # Errors
/// Fails if the folder is not a project, or has an unknown layout, or if the folder of the library's copy is no copy.
pub fn add_rust(project: &mut Project, library: &Library) -> Result<Vec<String>, Error> {
    let mut file = ProjectFile::parse(project.text(project_file::PATH).ok_or(Error::NoProject)?)?;
    if file.is_hybrid() {
        return Ok(Vec::new());
    }
    file.make_hybrid()?;
    let words = Words::new(&file, Some(library));
    let mut notes = vec![
        "the project is hybrid now: watches.yaml names the kinds that charts serve, src/main.rs those that Rust serves"
            .to_owned(),
    ];
    for template in HYBRID {
        notes.extend(replace(project, template, &words));
    }
    library.write(project)?;
    ignore_builds(project)?;
    project.write(project_file::PATH, file.print());
    Ok(notes)
}

/// The words that fill the templates of projects.
pub(crate) struct Words {
    project: String,
    repository: String,
    dependency: String,
    harness: String,
}

impl Words {
    pub(crate) fn new(file: &ProjectFile, library: Option<&Library>) -> Words {
        let dependency = library.map(Library::dependency).unwrap_or_default();
        let harness = library.map(Library::harness).unwrap_or_default();
        Words { project: file.name().to_owned(), repository: repository(file.text("repo")), dependency, harness }
    }

    pub(crate) fn fill(&self, text: &str) -> String {
        let Words { project, repository, dependency, harness } = self;
        let words = [("project", project), ("repository", repository), ("library", dependency), ("harness", harness)];
        fill(text, &words.map(|(name, word)| (name, word.as_str())))
    }
}

/// Returns the line of `Cargo.toml` that names the repository; a comment if `--repo` is missing.
fn repository(repo: &str) -> String {
    match repo {
        "" => "# repository = \"https://…\"".to_owned(),
        url if url.contains("://") => format!("repository = {url:?}"),
        host => format!("repository = {:?}", format!("https://{host}")),
    }
}

/// Writes a file of a hybrid project. Keeps the user's file, unless it is the unedited one of a project of charts.
fn replace(project: &mut Project, (path, text): &Template, words: &Words) -> Option<String> {
    let wanted = words.fill(text);
    let unedited = CHARTS.iter().find(|(name, _)| name == path).map(|(_, text)| words.fill(text));
    match project.text(path) {
        None if project.contains(path) => Some(format!("{path} is not text, and stays")),
        None => {
            project.create(*path, wanted);
            None
        }
        Some(text) if Some(text) == unedited.as_deref() => {
            project.write(*path, wanted);
            None
        }
        Some(text) if text == wanted => None,
        Some(_) => beside(project, path, wanted),
    }
}

/// Writes a file next to the user's, for the user to merge.
fn beside(project: &mut Project, path: &str, wanted: String) -> Option<String> {
    let what = match path {
        "Makefile" => "its targets build and run this program instead of helm-operator",
        "Dockerfile" => "it compiles this program instead of standing on helm-operator's image",
        "Cargo.toml" => "it names the library and its companions",
        _ => return Some(format!("{path} was edited, and stays")),
    };
    let new = format!("{path}.hybrid");
    project.create(&*new, wanted);
    Some(format!("{path} was edited, and stays: take over what {new} has ({what}), then delete {new}"))
}

/// Adds cargo's build folder to `.gitignore`.
fn ignore_builds(project: &mut Project) -> Result<(), Error> {
    let is_target = |line: &str| line.trim().trim_matches('/') == TARGET.trim_matches('/');
    match project.text(".gitignore") {
        Some(text) if !text.lines().any(is_target) => {
            project.edit(".gitignore", |text| Ok(format!("{}\n# What cargo builds.\n{TARGET}\n", text.trim_end())))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::library::tests::sources;
    use crate::{Change, Init, init};

    fn charts() -> Project {
        let mut project = Project::default();
        let repo = Some("example.com/cache".to_owned());
        init(&mut project, &Init { name: "cache-operator".into(), domain: "my.domain".into(), repo, hybrid: None })
            .unwrap();
        Project::from_files(project.files())
    }

    fn library() -> Library {
        Library::Copy(sources(&[("Cargo.toml", ""), ("src/lib.rs", "")]))
    }

    fn changed(project: &Project, what: Change) -> Vec<&str> {
        let is_copied = |path: &str| path.starts_with("vendor/");
        project.changes().filter(|(path, change)| *change == what && !is_copied(path)).map(|(path, _)| path).collect()
    }

    #[test]
    fn a_project_of_charts_becomes_what_a_hybrid_one_is_from_its_first_day() {
        let mut project = charts();
        let notes = add_rust(&mut project, &library()).unwrap();
        assert_eq!(notes.len(), 1, "{notes:?}");
        assert_eq!(changed(&project, Change::Changed), ["Dockerfile", "Makefile", "PROJECT", "README.md"]);
        assert_eq!(changed(&project, Change::Removed), [""; 0]);
        let mut hybrid = Project::default();
        let (repo, library) = (Some("example.com/cache".to_owned()), Some(library()));
        let options = Init { name: "cache-operator".into(), domain: "my.domain".into(), repo, hybrid: library };
        init(&mut hybrid, &options).unwrap();
        assert_eq!(project.files().collect::<Vec<_>>(), hybrid.files().collect::<Vec<_>>());
    }

    #[test]
    fn what_the_user_edited_stays_and_the_rest_is_written_beside_it() {
        let mut project = charts();
        project.write("Makefile", "mine");
        project.write("README.md", "mine");
        project.write(".gitignore", "*.swp");
        let notes = add_rust(&mut project, &library()).unwrap();
        assert_eq!((project.text("Makefile"), project.text("README.md")), (Some("mine"), Some("mine")));
        assert!(project.text("Makefile.hybrid").unwrap().contains("cargo run"));
        assert!(project.text("Dockerfile").unwrap().contains("cargo build"));
        assert_eq!(project.text(".gitignore"), Some("*.swp\n# What cargo builds.\n/target/\n"));
        let about = |name: &str| notes.iter().filter(|note| note.starts_with(name)).count();
        assert_eq!(
            (about("Makefile was edited"), about("README.md was edited"), about("Dockerfile")),
            (1, 1, 0),
            "{notes:?}"
        );
    }

    #[test]
    fn a_hybrid_project_and_a_folder_without_one_are_left_alone() {
        let mut project = charts();
        add_rust(&mut project, &library()).unwrap();
        let mut again = Project::from_files(project.files());
        assert_eq!(add_rust(&mut again, &library()).unwrap(), Vec::<String>::new());
        assert_eq!(again.changes().count(), 0);
        assert!(add_rust(&mut Project::default(), &library()).is_err());
    }
}
