//! The only module that accesses the disk: reads projects, charts and the library's sources, and writes changes.
//!
//! Folders may come from others, and files that are read end up in the project, in git and in an image. Therefore no
//! link may leave its folder, when reading or writing.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, fchown};
use std::path::{Component, Path};

use helm::chart::{Chart, MAX_CHART_BYTES};
use helm::disk::{Bounds, CHART_BOUNDS, Odd, ReadError, read_folder};

use crate::chart::ChartFiles;
use crate::library::{Checkout, Library, Sources};
use crate::{Change, Error, Project};

/// Folders at a project's root that are never part of it.
const BUILT: [&str; 3] = ["bin", "dist", "target"];

/// Folders that are part of neither a project nor a chart, and files of these names. Git runs the programs that the
/// configuration of any repository names, so a chart must not bring one along.
const FOREIGN: [&str; 2] = [".git", "node_modules"];

/// The limits of a project. Broken links and sockets, such as editors leave behind, are not part of it.
const PROJECT_BOUNDS: Bounds = Bounds { what: "project", bytes: 256 << 20, entries: 100_000, odd: Odd::Skipped };

/// Reads a project's files. A folder that does not exist is an empty project.
///
/// # Errors
/// Fails if a file or folder cannot be read, a link leaves the folder, or it exceeds a limit.
pub fn read(folder: &Path) -> Result<Project, Error> {
    if !folder.exists() {
        return Ok(Project::default());
    }
    let skips = |name: &str, about: &fs::Metadata| match about.is_dir() {
        _ if is_foreign(name) => true,
        true => BUILT.contains(&name),
        // No chart or manifest is that large.
        false => about.len() > MAX_CHART_BYTES,
    };
    let files = read_folder(folder, PROJECT_BOUNDS, &skips).map_err(|cause| refused(folder, cause))?;
    Ok(Project::from_files(files.into_iter().map(|file| (file.name, file.data.to_vec()))))
}

/// Adds the files of a folder that is not part of the project, because a command builds it.
///
/// # Errors
/// As [`read`].
pub fn read_built(folder: &Path, built: &str, project: &mut Project) -> Result<(), Error> {
    let below = folder.join(built);
    if below.exists() {
        let files = read_folder(&below, PROJECT_BOUNDS, &|_, _| false).map_err(|cause| refused(&below, cause))?;
        files.into_iter().for_each(|file| project.lend(format!("{built}/{}", file.name), file.data.to_vec()));
    }
    Ok(())
}

/// Writes the changed files, and deletes the removed ones.
///
/// # Errors
/// Fails, without writing anything, if a file would be written through a link that leaves the folder or among the files
/// of another tool, or is no longer what was read. Fails if a file or folder cannot be written; earlier files have been
/// written then.
pub fn write(folder: &Path, project: &Project) -> Result<(), Error> {
    for (name, _) in project.changes() {
        check(folder, name, project.before(name))?;
    }
    for (name, change) in project.changes() {
        let path = folder.join(name);
        let failed = |source| Error::Disk { what: "write", path: path.display().to_string(), source };
        if change == Change::Removed {
            fs::remove_file(&path).map_err(failed)?;
            continue;
        }
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).map_err(failed)?;
        }
        let model = project.copied_from.as_ref().and_then(|folder| fs::metadata(folder.join(name)).ok());
        replace(&path, project.bytes(name).unwrap_or_default(), model.as_ref()).map_err(failed)?;
    }
    Ok(())
}

/// Checks that a file is what the project read, so that no change of an editor or of another command is lost. `None`: it
/// must not exist; it may have been left out when the project was read.
fn check(folder: &Path, name: &str, before: Option<&[u8]>) -> Result<(), Error> {
    if let Some(link) = leaving(folder, name) {
        return Err(Error::Leaves { link, folder: folder.display().to_string() });
    }
    // The name of a chart is the name of its folder.
    if name.split('/').any(is_foreign) {
        return Err(Error::Foreign(name.to_owned()));
    }
    let path = folder.join(name);
    let now = match fs::read(&path) {
        Ok(now) => Some(now),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(source) => return Err(Error::Disk { what: "read", path: path.display().to_string(), source }),
    };
    if now.as_deref() == before { Ok(()) } else { Err(Error::NotAsRead(path.display().to_string())) }
}

/// Writes a file atomically: if that fails or the process ends, the old content stays. Owner and mode stay, too. A new
/// file gets the mode of its model.
fn replace(path: &Path, content: &[u8], model: Option<&fs::Metadata>) -> io::Result<()> {
    // A link within the project stays a link.
    let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let old = match OpenOptions::new().write(true).open(&path) {
        Ok(file) => Some(file.metadata()?),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(error),
    };
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let part = path.with_file_name(format!(".{name}.{}.part", std::process::id()));
    let written = write_new(&part, content, old.as_ref(), model).and_then(|()| fs::rename(&part, &path));
    written.inspect_err(|_| _ = fs::remove_file(&part))
}

/// Creates a file that takes the place of an old one, or is copied from a model.
fn write_new(path: &Path, content: &[u8], old: Option<&fs::Metadata>, model: Option<&fs::Metadata>) -> io::Result<()> {
    let mut file = File::create_new(path)?;
    if let Some(old) = old {
        // Not everyone may give a file to its owner.
        _ = fchown(&file, Some(old.uid()), Some(old.gid()));
        file.set_permissions(old.permissions())?;
    } else if let Some(model) = model {
        // Later commands write the copy, even if the model must not be written.
        file.set_permissions(fs::Permissions::from_mode((model.mode() & 0o777) | 0o200))?;
    }
    file.write_all(content)?;
    // Only an old file has something to lose.
    if old.is_some() { file.sync_all() } else { Ok(()) }
}

/// Reads a chart from a folder, with the files that `.helmignore` excludes, or from a `.tgz` archive.
///
/// # Errors
/// Fails if the path cannot be read, is not a chart, exceeds a limit, or has links that leave it.
pub fn read_chart(path: &str) -> Result<ChartFiles, Error> {
    if !Path::new(path).exists() && is_remote(path) {
        return Err(Error::Remote(path.to_owned()));
    }
    let files = if Path::new(path).is_dir() { files_below(Path::new(path))? } else { archive(path)? };
    ChartFiles::new(path, files)
}

/// Reads the files of a project's copy of the library. Returns `None` if the folder is not, or no longer, a checkout of
/// the library.
///
/// # Errors
/// Fails if a file or folder cannot be read.
pub fn read_sources(checkout: &Path) -> Result<Option<Sources>, Error> {
    let below = |folder: &str| match checkout.join(folder) {
        folder if folder.is_dir() => files_below(&folder),
        _ => Ok(Vec::new()),
    };
    Sources::of(|name| fs::read(checkout.join(name)).ok(), below)
}

/// Finds the library in place: `path` is a checkout, or the folder of the crate in one.
///
/// # Errors
/// Fails if the folder has no such crate.
pub fn find_checkout(path: &str) -> Result<Library, Error> {
    let is_crate = |folder: &Path| folder.join("src").is_dir() && folder.join("Cargo.toml").is_file();
    let given = Path::new(path);
    let inner = given.join("crates/helm-operator");
    let folder = match (is_crate(&inner), given.ends_with("helm-operator") && is_crate(given)) {
        (true, _) => inner,
        (_, true) => given.to_owned(),
        _ => return Err(Error::NoLibrary(path.to_owned())),
    };
    let lock = fs::read(folder.join("../../Cargo.lock")).ok();
    Ok(Library::Checkout(Checkout { folder: folder.display().to_string(), lock }))
}

/// Returns whether a chart is a URL or a `repository/chart` name.
fn is_remote(path: &str) -> bool {
    let is_name = !path.starts_with(['.', '/']) && !path.ends_with(".tgz");
    path.contains("://") || (is_name && path.split('/').count() == 2)
}

/// Reads the files of a folder from elsewhere, with the limits of a chart.
fn files_below(folder: &Path) -> Result<Vec<(String, Vec<u8>)>, Error> {
    let files =
        read_folder(folder, CHART_BOUNDS, &|name, _| is_foreign(name)).map_err(|cause| refused(folder, cause))?;
    Ok(files.into_iter().map(|file| (file.name, file.data.to_vec())).collect())
}

/// Returns whether the last part of the path belongs to other tools. On some disks, the case of letters does not matter.
fn is_foreign(name: &str) -> bool {
    name.rsplit('/').next().is_some_and(|last| FOREIGN.iter().any(|foreign| last.eq_ignore_ascii_case(foreign)))
}

/// Converts a read error; for a link that leaves the folder the error names the remedy.
fn refused(folder: &Path, cause: ReadError) -> Error {
    let folder = folder.display().to_string();
    match cause {
        ReadError::LinkOutside { name, .. } => Error::Leaves { link: name, folder },
        cause => Error::Folder { folder, cause },
    }
}

fn archive(path: &str) -> Result<Vec<(String, Vec<u8>)>, Error> {
    let failed = |source| Error::Disk { what: "read", path: path.to_owned(), source };
    // Opening a pipe would block until it has a writer, and a device may never end.
    if !fs::metadata(path).map_err(failed)?.is_file() {
        return Err(Error::chart(path, "it is neither a folder nor a file"));
    }
    let mut bytes = Vec::new();
    File::open(path).map_err(failed)?.take(MAX_CHART_BYTES + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > MAX_CHART_BYTES {
        return Err(Error::chart(path, "the archive is too large"));
    }
    let files = Chart::unpack(&bytes).map_err(|error| Error::chart(path, error))?;
    let own = files.into_iter().filter(|file| !file.name.split('/').any(is_foreign));
    Ok(own.map(|file| (file.name, file.data.to_vec())).collect())
}

/// Returns the first link on the path of a project's file that leaves the project, or whose target does not exist.
fn leaving(folder: &Path, name: &str) -> Option<String> {
    let root = fs::canonicalize(folder).ok()?;
    let mut path = root.clone();
    for part in Path::new(name).components() {
        let Component::Normal(part) = part else { return Some(name.to_owned()) };
        path.push(part);
        let is_link = fs::symlink_metadata(&path).is_ok_and(|about| about.is_symlink());
        if is_link && !fs::canonicalize(&path).is_ok_and(|target| target.starts_with(&root)) {
            return Some(path.strip_prefix(&root).unwrap_or(&path).display().to_string());
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_project_is_written_and_read_back_and_builds_are_skipped() {
        let folder = tempfile::tempdir().unwrap();
        let mut project = read(&folder.path().join("missing")).unwrap();
        project.create("a/b/c.yaml", "x: 1\n");
        project.create("target/debug/big", "no");
        write(folder.path(), &project).unwrap();
        let read = read(folder.path()).unwrap();
        assert_eq!(read.text("a/b/c.yaml"), Some("x: 1\n"));
        assert!(!read.contains("target/debug/big"));
        assert_eq!(read.changes().count(), 0);
    }

    #[test]
    fn a_file_is_replaced_as_a_whole_and_keeps_its_mode_and_the_link_to_it() {
        let folder = tempfile::tempdir().unwrap();
        let [file, linked] = ["shared.yaml", "watches.yaml"].map(|name| folder.path().join(name));
        fs::write(&file, "old").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
        link("shared.yaml", &linked);
        let mut reader = File::open(&linked).unwrap();
        let mut project = read(folder.path()).unwrap();
        project.write("watches.yaml", "new");
        write(folder.path(), &project).unwrap();
        let mut seen = String::new();
        reader.read_to_string(&mut seen).unwrap();
        assert_eq!((seen.as_str(), fs::read_to_string(&file).unwrap().as_str()), ("old", "new"));
        assert!(fs::symlink_metadata(&linked).unwrap().is_symlink());
        let about = fs::metadata(&file).unwrap();
        assert_eq!((about.mode() & 0o777, about.uid()), (0o640, reader.metadata().unwrap().uid()));
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 2);
    }

    #[test]
    fn copied_files_have_the_modes_of_their_models() {
        let [from, folder] = [(), ()].map(|()| tempfile::tempdir().unwrap());
        let mut project = Project::default();
        project.take_modes_from(from.path());
        let files = [("run.sh", 0o755, 0o755), ("secret.env", 0o600, 0o600), ("read-only", 0o444, 0o644)];
        for (name, mode, _) in files {
            fs::write(from.path().join(name), "old").unwrap();
            fs::set_permissions(from.path().join(name), fs::Permissions::from_mode(mode)).unwrap();
            project.create(name, "new");
        }
        project.create("PROJECT", "of no model");
        write(folder.path(), &project).unwrap();
        for (name, _, expected) in files {
            let about = fs::metadata(folder.path().join(name)).unwrap();
            assert_eq!(about.mode() & 0o777, expected, "{name}");
        }
        assert!(folder.path().join("PROJECT").exists());
    }

    #[test]
    fn a_file_that_was_saved_since_it_was_read_is_kept_and_nothing_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        for (name, saved) in [("z", Some("mine")), ("z", None), ("new", Some("mine")), ("gone", Some("mine"))] {
            for name in ["a", "z", "gone"] {
                fs::write(at(name), "old").unwrap();
            }
            _ = fs::remove_file(at("new"));
            let mut project = read(folder.path()).unwrap();
            project.write("a", "ours");
            project.write("z", "ours");
            project.write("z", "ours, too");
            project.create("new", "ours");
            project.remove("gone");
            match saved {
                Some(text) => fs::write(at(name), text).unwrap(),
                None => fs::remove_file(at(name)).unwrap(),
            }
            let error = write(folder.path(), &project).unwrap_err().to_string();
            assert!(error.contains(&format!("/{name} ")) && error.contains("run the command again"), "{error}");
            assert_eq!(fs::read_to_string(at(name)).ok().as_deref(), saved);
            assert_eq!(fs::read_to_string(at("a")).unwrap(), "old");
        }
        let mut project = read(folder.path()).unwrap();
        project.remove("gone");
        project.write("gone", "back");
        project.remove("a");
        write(folder.path(), &project).unwrap();
        assert!(!at("a").exists() && fs::read_to_string(at("gone")).unwrap() == "back");
    }

    /// Returns a folder with a chart `app` and, beside it, a file outside the chart.
    fn chart() -> (tempfile::TempDir, std::path::PathBuf) {
        let around = tempfile::tempdir().unwrap();
        let chart = around.path().join("app");
        fs::create_dir_all(chart.join("files")).unwrap();
        fs::write(chart.join("Chart.yaml"), "apiVersion: v2\nname: app\nversion: 1.0.0\n").unwrap();
        fs::write(around.path().join("id_rsa"), "a private key").unwrap();
        (around, chart)
    }

    fn link(target: impl AsRef<Path>, at: &Path) {
        let _ = fs::remove_file(at);
        std::os::unix::fs::symlink(target, at).unwrap();
    }

    /// Returns the errors of reading the folder as a chart and as a project.
    fn errors(folder: &Path) -> [String; 2] {
        [read_chart(folder.to_str().unwrap()).unwrap_err().to_string(), read(folder).unwrap_err().to_string()]
    }

    #[test]
    fn links_that_leave_a_chart_or_a_project_are_refused_by_name() {
        let (around, chart) = chart();
        let at = chart.join("files/key");
        for target in [Path::new("../../id_rsa"), &around.path().join("id_rsa"), Path::new("/"), Path::new("/dev/zero")]
        {
            link(target, &at);
            for error in errors(&chart) {
                assert!(error.starts_with("the link files/key leaves "), "{error}");
            }
        }
        link("../Chart.yaml", &at);
        let read_back = read_chart(chart.to_str().unwrap()).unwrap();
        let content = read_back.files().find(|(name, _)| *name == "files/key").unwrap().1;
        assert!(content.starts_with(b"apiVersion"));
        assert!(read(&chart).unwrap().contains("files/key"));
    }

    #[test]
    fn what_is_built_may_be_elsewhere() {
        let (around, chart) = chart();
        let builds = around.path().join("builds");
        fs::create_dir(&builds).unwrap();
        fs::write(builds.join("huge"), "").unwrap();
        link(&builds, &chart.join("target"));
        let project = read(&chart).unwrap();
        assert!(project.contains("Chart.yaml") && !project.contains("target/huge"));
    }

    #[test]
    fn a_folder_and_an_archive_are_not_read_beyond_their_limits() {
        let (_around, chart) = chart();
        File::create(chart.join("files/large")).unwrap().set_len(MAX_CHART_BYTES).unwrap();
        let error = read_chart(chart.to_str().unwrap()).unwrap_err();
        assert!(all_of(&error).contains("error reading files/large: chart exceeds maximum"), "{error}");
        let archive = chart.join("large.tgz");
        File::create(&archive).unwrap().set_len(MAX_CHART_BYTES + 1).unwrap();
        let error = read_chart(archive.to_str().unwrap()).unwrap_err().to_string();
        assert!(error.ends_with("the archive is too large"), "{error}");
        fs::remove_file(chart.join("files/large")).unwrap();
        // Too large for a file of a project.
        assert!(!read(&chart).unwrap().contains("large.tgz"));
    }

    #[test]
    fn pipes_and_devices_are_never_opened() {
        let (_around, chart) = chart();
        let pipe = chart.join("files/pipe");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let error = read_chart(chart.to_str().unwrap()).unwrap_err();
        assert!(all_of(&error).contains("cannot load irregular file"), "{error}");
        assert!(!read(&chart).unwrap().contains("files/pipe"));
        for path in [pipe.to_str().unwrap(), "/dev/zero"] {
            let error = read_chart(path).unwrap_err().to_string();
            assert!(error.ends_with("it is neither a folder nor a file"), "{error}");
        }
    }

    #[test]
    fn nothing_is_written_through_a_link_that_leaves_the_project() {
        let (around, folder) = chart();
        let outside = around.path().join("new");
        // The target does not exist, so the link is not part of the project that is read.
        link(&outside, &folder.join("role.yaml"));
        let mut project = read(&folder).unwrap();
        project.create("role.yaml", "rules: []\n");
        let error = write(&folder, &project).unwrap_err().to_string();
        assert!(error.starts_with("the link role.yaml leaves ") && !outside.exists(), "{error}");
        let mut project = Project::default();
        project.create("config/role.yaml", "rules: []\n");
        link(around.path(), &folder.join("config"));
        assert!(write(&folder, &project).is_err() && !around.path().join("role.yaml").exists());
        link("files", &folder.join("config"));
        write(&folder, &project).unwrap();
        assert!(folder.join("files/role.yaml").exists());
    }

    #[test]
    fn a_charts_own_folders_keep_their_names() {
        let (_around, chart) = chart();
        for name in ["bin/run.sh", "dist/a.js", ".git/config"] {
            let file = chart.join(name);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, "x").unwrap();
        }
        let files = read_chart(chart.to_str().unwrap()).unwrap();
        let names: Vec<_> = files.files().map(|(name, _)| name.to_owned()).collect();
        assert_eq!(names, ["Chart.yaml", "bin/run.sh", "dist/a.js"]);
    }

    #[test]
    fn the_files_of_other_tools_come_from_no_folder_and_no_archive() {
        let (around, chart) = chart();
        for name in [".git/config", "files/.GIT", "files/node_modules/a.js"] {
            let file = chart.join(name);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, "x").unwrap();
        }
        let archive = around.path().join("app.tgz");
        let packs = ["czf", archive.to_str().unwrap(), "-C", around.path().to_str().unwrap(), "app"];
        assert!(std::process::Command::new("tar").args(packs).status().unwrap().success());
        for path in [&chart, &archive] {
            let files = read_chart(path.to_str().unwrap()).unwrap();
            let names: Vec<_> = files.files().map(|(name, _)| name.to_owned()).collect();
            assert_eq!(names, ["Chart.yaml"], "{}", path.display());
        }
        assert!(!read(&chart).unwrap().contains("files/.GIT"));
    }

    #[test]
    fn nothing_is_written_among_the_files_of_other_tools() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["helm-charts/.git/config", ".git/hooks/pre-commit", "helm-charts/app/.Git"] {
            let mut project = Project::default();
            project.create("a", "x");
            project.create(name, "x");
            let error = write(folder.path(), &project).unwrap_err().to_string();
            assert!(error.starts_with(&format!("{name} is of git ")), "{error}");
            assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
        }
    }

    fn all_of(error: &dyn std::error::Error) -> String {
        std::iter::successors(Some(error), |error| error.source()).map(|error| format!("{error}: ")).collect()
    }

    #[test]
    fn the_library_is_found_in_a_checkout_and_by_its_own_folder() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let sources = read_sources(&root).unwrap();
        assert!(sources.is_some() && read_sources(&root.join("crates")).unwrap().is_none());
        for path in [root.clone(), root.join("crates/helm-operator")] {
            let Library::Checkout(found) = find_checkout(path.to_str().unwrap()).unwrap() else {
                panic!("no checkout")
            };
            assert!(found.folder.ends_with("crates/helm-operator") && found.lock.is_some(), "{found:?}");
        }
        let error = find_checkout(root.join("crates").to_str().unwrap()).unwrap_err().to_string();
        assert!(error.contains("has no sources of the library"), "{error}");
    }

    #[test]
    fn charts_of_repositories_are_refused_with_the_command_that_fetches_them() {
        for path in ["oci://example.com/chart", "https://example.com/a.tgz", "bitnami/redis"] {
            assert!(matches!(read_chart(path), Err(Error::Remote(_))), "{path}");
        }
        assert!(matches!(read_chart("./no/such"), Err(Error::Disk { .. })));
    }
}
