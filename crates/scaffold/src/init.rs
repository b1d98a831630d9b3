//! `init`: a project without APIs.

use crate::gvk::{check_domain, check_project};
use crate::project_file::{self, ProjectFile};
use crate::templates::{CHARTS, HYBRID, PROJECT, fill};
use crate::{Error, Project, chart};

/// What kind of project to make.
#[derive(Clone, Debug)]
pub struct Init {
    /// The project's name: the prefix of its objects, and the name of its program.
    pub name: String,
    /// What the groups of its APIs end with.
    pub domain: String,
    /// Where its sources are: `example.com/cache-operator`.
    pub repo: Option<String>,
    /// The library for a project with Rust code; `None` for one of charts alone.
    pub hybrid: Option<Library>,
}

/// Where a hybrid project gets `helm-operator` from.
#[derive(Clone, Debug)]
pub enum Library {
    /// The registry, in this version.
    Version(String),
    /// A folder with its sources.
    Path(String),
}

/// Creates what is missing. In a project with the same settings it changes nothing.
///
/// # Errors
/// A name is invalid, or the folder has a project with other settings.
pub fn init(project: &mut Project, options: &Init) -> Result<(), Error> {
    check_project(&options.name)?;
    check_domain(&options.domain)?;
    match project.text(project_file::PATH) {
        Some(text) => check_same(&ProjectFile::parse(text)?, options)?,
        None => {
            let repo = options.repo.as_deref();
            let file = ProjectFile::new(&options.name, &options.domain, repo, options.hybrid.is_some());
            project.create(project_file::PATH, file.print());
        }
    }
    let specific = if options.hybrid.is_some() { HYBRID } else { CHARTS };
    let (repository, library) = (repository(options), library(options));
    let words =
        [("project", options.name.as_str()), ("repository", repository.as_str()), ("library", library.as_str())];
    for (path, text) in PROJECT.iter().chain(specific) {
        project.create(*path, fill(text, &words));
    }
    // The image's build copies this folder even if no API has been added.
    if project.below(chart::FOLDER).next().is_none() {
        project.create(format!("{}/.gitkeep", chart::FOLDER), "");
    }
    Ok(())
}

fn check_same(file: &ProjectFile, options: &Init) -> Result<(), Error> {
    let layout = |hybrid: bool| if hybrid { "hybrid" } else { "charts only" };
    let fields = [
        ("domain", file.domain(), options.domain.as_str()),
        ("projectName", file.name(), &options.name),
        ("layout", layout(file.is_hybrid()), layout(options.hybrid.is_some())),
    ];
    match fields.into_iter().find(|(_, found, wanted)| found != wanted) {
        Some((field, found, wanted)) => {
            Err(Error::OtherProject { field, found: found.to_owned(), wanted: wanted.to_owned() })
        }
        None => Ok(()),
    }
}

/// The line of `Cargo.toml` that names the sources; a comment without `--repo`.
fn repository(options: &Init) -> String {
    match options.repo.as_deref() {
        Some(repo) if repo.contains("://") => format!("repository = {repo:?}"),
        Some(repo) => format!("repository = {:?}", format!("https://{repo}")),
        None => "# repository = \"https://…\"".to_owned(),
    }
}

/// The library's entry in `Cargo.toml`.
fn library(options: &Init) -> String {
    match &options.hybrid {
        Some(Library::Path(path)) => format!("{{ path = {path:?} }}"),
        Some(Library::Version(version)) => format!("{version:?}"),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(hybrid: bool) -> Init {
        let hybrid = hybrid.then(|| Library::Version("0.1.0".into()));
        Init { name: "cache-operator".into(), domain: "my.domain".into(), repo: None, hybrid }
    }

    #[test]
    fn a_second_init_changes_nothing() {
        for hybrid in [false, true] {
            let mut project = Project::default();
            init(&mut project, &options(hybrid)).unwrap();
            assert_eq!(project.contains("Cargo.toml"), hybrid);
            let mut again = Project::from_files(project.files());
            init(&mut again, &options(hybrid)).unwrap();
            assert_eq!(again.changes().collect::<Vec<_>>(), []);
        }
    }

    #[test]
    fn no_placeholder_is_left_and_all_yaml_parses() {
        for hybrid in [false, true] {
            let mut project = Project::default();
            init(&mut project, &options(hybrid)).unwrap();
            for (path, _) in project.changes() {
                let text = project.text(path).unwrap();
                assert!(!text.contains("__"), "{path}: {text}");
                if path.ends_with(".yaml") {
                    go_encoding::yaml::parse_documents(text.as_bytes()).map(drop).unwrap_or_else(|error| {
                        assert!(path == "watches.yaml", "{path}: {error}");
                    });
                }
            }
        }
    }

    #[test]
    fn existing_files_are_kept_and_other_settings_refused() {
        let mut project = Project::from_files([("Makefile", "mine")]);
        init(&mut project, &options(false)).unwrap();
        assert_eq!(project.text("Makefile"), Some("mine"));
        let error = init(&mut project, &Init { domain: "other.domain".into(), ..options(false) }).unwrap_err();
        assert_eq!(error.to_string(), r#"this project exists already with domain "my.domain", not "other.domain""#);
        assert!(init(&mut project, &options(true)).is_err());
        assert!(init(&mut Project::default(), &Init { name: "Cache".into(), ..options(false) }).is_err());
    }
}
