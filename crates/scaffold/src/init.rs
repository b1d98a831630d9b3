//! `init`: creates a project without APIs.

use crate::gvk::{check_domain, check_project};
use crate::hybrid::{Words, add_rust};
use crate::library::Library;
use crate::project_file::{self, Layout, ProjectFile};
use crate::templates::{CHARTS, HYBRID, PROJECT};
use crate::{Error, Project, chart};

/// The project to create.
#[derive(Clone, Debug)]
pub struct Init {
    /// The project's name: the prefix of its objects, and the name of its program.
    pub name: String,
    /// The suffix of its APIs' groups.
    pub domain: String,
    /// Where its sources are published: `example.com/cache-operator`.
    pub repo: Option<String>,
    /// The library for a project with Rust code; `None` for a project of charts.
    pub hybrid: Option<Library>,
}

/// The settings of a folder's project.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The project's name.
    pub name: String,
    /// The domain of its APIs.
    pub domain: String,
    /// Whether Rust may serve kinds.
    pub is_hybrid: bool,
}

impl Settings {
    /// Returns the settings of a project; `None` for a folder without one.
    ///
    /// # Errors
    /// Fails if `PROJECT` cannot be read.
    pub fn of(project: &Project) -> Result<Option<Settings>, Error> {
        let file = project.text(project_file::PATH).map(ProjectFile::parse).transpose()?;
        Ok(file.map(|file| Settings {
            name: file.name().to_owned(),
            domain: file.domain().to_owned(),
            is_hybrid: file.is_hybrid(),
        }))
    }
}

/// Creates the missing files; returns notes for the user. A project of charts becomes hybrid if `options` ask for that.
/// In a hybrid project, the copy of the library is replaced by the one in `options`.
///
/// # Errors
/// Fails if a name is invalid, the folder has a project with other settings, or the copy's folder is no copy.
pub fn init(project: &mut Project, options: &Init) -> Result<Vec<String>, Error> {
    check_project(&options.name)?;
    check_domain(&options.domain)?;
    let Some(text) = project.text(project_file::PATH) else {
        return start(project, options).map(|()| Vec::new());
    };
    let file = ProjectFile::parse(text)?;
    check_same(&file, options)?;
    match &options.hybrid {
        Some(library) if file.is_charts() => add_rust(project, library),
        library => {
            complete(project, &file, library.as_ref())?;
            Ok(ways_on(&file))
        }
    }
}

/// Creates a project in an empty folder.
fn start(project: &mut Project, options: &Init) -> Result<(), Error> {
    let repo = options.repo.as_deref();
    let layout = if options.hybrid.is_some() { Layout::Hybrid } else { Layout::Charts };
    let file = ProjectFile::new(&options.name, &options.domain, repo, layout);
    project.create(project_file::PATH, file.print());
    complete(project, &file, options.hybrid.as_ref())
}

/// Writes the missing files of a project that this program made. A project of another tool has another layout.
fn complete(project: &mut Project, file: &ProjectFile, library: Option<&Library>) -> Result<(), Error> {
    if !file.is_ours() {
        return Ok(());
    }
    let words = Words::new(file, library);
    let specific = if file.is_hybrid() { HYBRID } else { CHARTS };
    // Without a library, the line in Cargo.toml that names it would be empty.
    let is_known = |path: &str| library.is_some() || path != "Cargo.toml";
    for (path, text) in PROJECT.iter().chain(specific).filter(|(path, _)| is_known(path)) {
        project.create(*path, words.fill(text));
    }
    // The image's build copies this folder even if no API has been added.
    if project.below(chart::FOLDER).next().is_none() {
        project.create(format!("{}/.gitkeep", chart::FOLDER), "");
    }
    library.map_or(Ok(()), |library| library.write(project))
}

fn check_same(file: &ProjectFile, options: &Init) -> Result<(), Error> {
    let fields =
        [("domain", file.domain(), options.domain.as_str()), ("projectName", file.name(), options.name.as_str())];
    if !file.is_charts() && !file.is_hybrid() {
        return Err(Error::OtherLayout(file.layouts().join(", ")));
    }
    match fields.into_iter().find(|(_, found, wanted)| found != wanted) {
        Some((field, found, wanted)) => {
            Err(Error::OtherProject { field, found: found.to_owned(), wanted: wanted.to_owned() })
        }
        None => Ok(()),
    }
}

/// Returns hints on the next commands for an existing project.
fn ways_on(file: &ProjectFile) -> Vec<String> {
    let kind = if file.is_hybrid() { "a hybrid project" } else { "a project of charts" };
    let is_foreign = !file.is_ours() && file.is_charts();
    let all = [
        (true, format!("this folder is {kind} already: {} in the domain {}", file.name(), file.domain())),
        (true, "'create api --group G --version V --kind K' adds a kind that a chart serves, with --native one that Rust serves".to_owned()),
        (!file.is_hybrid(), "'init --hybrid' adds Rust to it".to_owned()),
        (is_foreign, "'init --from-operator-sdk .' takes over what operator-sdk made".to_owned()),
    ];
    all.into_iter().filter(|(applies, _)| *applies).map(|(_, text)| text).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(hybrid: bool) -> Init {
        let hybrid = hybrid.then(|| Library::Version("0.1.0".into()));
        Init { name: "cache-operator".into(), domain: "my.domain".into(), repo: None, hybrid }
    }

    fn started(hybrid: bool) -> Project {
        let mut project = Project::default();
        assert_eq!(init(&mut project, &options(hybrid)).unwrap(), Vec::<String>::new());
        Project::from_files(project.files())
    }

    #[test]
    fn a_second_init_changes_nothing_and_says_what_can_be_done() {
        for hybrid in [false, true] {
            let mut again = started(hybrid);
            assert_eq!(again.contains("Cargo.toml"), hybrid);
            let notes = init(&mut again, &options(hybrid)).unwrap();
            assert_eq!(again.changes().collect::<Vec<_>>(), []);
            assert!(notes[0].ends_with("already: cache-operator in the domain my.domain"), "{notes:?}");
            assert!(notes[1].contains("create api"), "{notes:?}");
            assert_eq!(notes.iter().any(|note| note.contains("init --hybrid")), !hybrid, "{notes:?}");
        }
    }

    #[test]
    fn a_project_of_charts_becomes_hybrid_and_a_hybrid_one_stays_so() {
        let mut project = started(false);
        init(&mut project, &options(true)).unwrap();
        assert!(project.contains("src/main.rs"));
        assert!(Settings::of(&project).unwrap().unwrap().is_hybrid);
        let mut again = Project::from_files(project.files());
        init(&mut again, &options(false)).unwrap();
        assert_eq!(again.changes().count(), 0);
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
        let expected = r#"this folder is a project already, with domain "my.domain" and not "other.domain""#;
        assert!(error.to_string().starts_with(expected), "{error}");
        assert!(init(&mut Project::default(), &Init { name: "Cache".into(), ..options(false) }).is_err());
    }

    #[test]
    fn a_project_of_operator_sdk_gets_no_files_and_hears_how_it_is_taken_over() {
        let text = |layout: &str| {
            format!("domain: my.domain\nlayout:\n- {layout}\nprojectName: cache-operator\nversion: \"3\"\n")
        };
        let mut helm = Project::from_files([("PROJECT", text("helm.sdk.operatorframework.io/v1"))]);
        let notes = init(&mut helm, &options(false)).unwrap();
        assert_eq!(helm.changes().count(), 0);
        assert!(notes.iter().any(|note| note.contains("--from-operator-sdk .")), "{notes:?}");
        let mut go = Project::from_files([("PROJECT", text("go.kubebuilder.io/v4"))]);
        for hybrid in [false, true] {
            let error = init(&mut go, &options(hybrid)).unwrap_err().to_string();
            assert!(error.contains("go.kubebuilder.io/v4") && error.contains("empty folder"), "{error}");
        }
    }
}
