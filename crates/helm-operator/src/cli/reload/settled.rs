//! Decides whether saved files are complete. Half of a checkout may be a valid chart, which would remove objects.
//!
//! A git command removes files long before it writes the last one, but holds the lock of its index all the while. Other
//! programs have no lock: their files are complete once nothing changes for a while.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// The modification time and length of each file.
pub(super) type Fingerprint = BTreeMap<PathBuf, (Option<SystemTime>, u64)>;

/// What is on disk at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Look {
    files: Fingerprint,
    /// The lock of a git command that may be changing the files.
    lock: Option<PathBuf>,
}

impl Look {
    /// Looks at these files and folders.
    pub(super) fn at(paths: &[PathBuf]) -> Look {
        Look { files: fingerprint(paths), lock: paths.iter().find_map(|path| lock(path)) }
    }

    /// Returns whether a git command may be changing the files.
    pub(super) fn is_locked(&self) -> bool {
        self.lock.is_some()
    }

    /// Returns whether what was read between this look and the next is complete.
    fn is_complete(&self, next: &Look) -> bool {
        self == next && !next.is_locked()
    }
}

/// Reads what was saved, once it has stayed the same for a quiet time, and if it still is the same afterwards. Returns
/// `None` as soon as `quiet`, which waits for a quiet time, returns that watching has ended.
pub(super) fn settled<T>(
    mut look: impl FnMut() -> Look,
    mut quiet: impl FnMut() -> bool,
    mut read: impl FnMut() -> T,
) -> Option<T> {
    let mut before = look();
    let mut reported: Option<PathBuf> = None;
    while quiet() {
        let now = look();
        if let Some(lock) = now.lock.as_ref().filter(|lock| reported.as_ref() != Some(*lock)) {
            let file = lock.display();
            tracing::info!(%file, "Waiting for the git command that holds this lock; delete the file if none runs");
            reported = Some(lock.clone());
        }
        before = if before.is_complete(&now) {
            let found = read();
            let after = look();
            if now.is_complete(&after) {
                return Some(found);
            }
            after
        } else {
            now
        };
    }
    None
}

/// Returns the state of these files, and of those in these folders. A file that cannot be read counts as missing.
pub(super) fn fingerprint(paths: &[PathBuf]) -> Fingerprint {
    let mut files = Fingerprint::new();
    paths.iter().for_each(|path| add(&real(path), &mut files));
    files
}

fn add(path: &Path, files: &mut Fingerprint) {
    // Links are not followed, because a link to a parent would never end.
    let Ok(metadata) = std::fs::symlink_metadata(path) else { return };
    if metadata.is_dir() {
        let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
        entries.for_each(|entry| add(&entry.path(), files));
    } else {
        files.insert(path.to_owned(), (metadata.modified().ok(), metadata.len()));
    }
}

/// Returns the path without links, as far as it exists.
fn real(path: &Path) -> PathBuf {
    std::fs::canonicalize(path).or_else(|_| std::path::absolute(path)).unwrap_or_else(|_| path.to_owned())
}

/// Returns the lock of git's index, if a command holds it, for the working tree that contains this path.
fn lock(path: &Path) -> Option<PathBuf> {
    let lock = real(path).ancestors().find_map(git_folder)?.join("index.lock");
    lock.exists().then_some(lock)
}

/// Returns git's folder for the working tree with this root.
fn git_folder(root: &Path) -> Option<PathBuf> {
    let git = root.join(".git");
    if git.is_dir() {
        return Some(git);
    }
    // In a linked working tree and in a submodule, this is a file that names the folder.
    let text = std::fs::read_to_string(git).ok()?;
    Some(root.join(text.strip_prefix("gitdir:")?.trim()))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    fn look(files: &[&str]) -> Look {
        Look { files: files.iter().map(|file| (file.into(), (None, 1))).collect(), lock: None }
    }

    fn locked(files: &[&str]) -> Look {
        Look { lock: Some(".git/index.lock".into()), ..look(files) }
    }

    /// Returns how often it waits and reads until the files count as complete.
    fn waits_and_reads(looks: &[Look]) -> (u32, u32) {
        let (mut looks, mut waits, mut reads) = (looks.iter(), 0, 0);
        let next = || looks.next().unwrap().clone();
        let quiet = || {
            waits += 1;
            true
        };
        let read = || {
            reads += 1;
            reads
        };
        let found = settled(next, quiet, read);
        assert_eq!(looks.next(), None, "every look counts");
        (waits, found.unwrap())
    }

    #[test]
    fn what_was_saved_is_read_once_nothing_changes_any_more() {
        let (whole, half) = (look(&["a", "b"]), look(&["a"]));
        let [whole, half] = [&whole, &half];
        for (name, looks, expected) in [
            ("a save", &[whole, whole, whole][..], (1, 1)),
            ("more is still being written", &[half, whole, whole, whole], (2, 1)),
            ("a file vanishes while it is read", &[whole, whole, half, whole, whole, whole], (3, 2)),
        ] {
            let looks: Vec<Look> = looks.iter().map(|look| (*look).clone()).collect();
            assert_eq!(waits_and_reads(&looks), expected, "{name}");
        }
    }

    #[test]
    fn half_of_a_checkout_is_not_read_however_long_it_takes() {
        let (whole, half, slow) = (look(&["a", "b"]), look(&["a"]), locked(&["a"]));
        let looks = [&half, &slow, &slow, &slow, &whole, &whole, &whole].map(Look::clone);
        assert_eq!(waits_and_reads(&looks), (5, 1));
        let begins = [&whole, &whole, &locked(&["a", "b"]), &whole, &whole, &whole].map(Look::clone);
        assert_eq!(waits_and_reads(&begins), (3, 2), "it begins while the chart is read");
    }

    #[test]
    fn nothing_is_read_after_watching_has_ended() {
        let mut reads = 0;
        assert_eq!(settled(|| look(&["a"]), || false, || reads += 1), None);
        assert_eq!(reads, 0);
    }

    #[test]
    fn the_lock_is_that_of_the_working_tree_around_a_chart() {
        let folder = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(folder.path()).unwrap();
        let at = |name: &str| root.join(name);
        for path in ["main/.git/worktrees/tree", "main/charts/web", "tree/charts/web", "other/.git", "other/charts"] {
            fs::create_dir_all(at(path)).unwrap();
        }
        fs::write(at("tree/.git"), "gitdir: ../main/.git/worktrees/tree\n").unwrap();
        symlink(at("main/charts/web"), at("other/charts/linked")).unwrap();
        let is_locked = |path: &str| Look::at(&[at(path)]).is_locked();
        let all =
            ["main/charts/web", "main/charts/removed/a", "other/charts/linked", "tree/charts/web", "other/charts"];
        let main = at("main/.git/index.lock");
        fs::write(&main, "").unwrap();
        assert_eq!(all.map(is_locked), [true, true, true, false, false]);
        fs::remove_file(main).unwrap();
        fs::write(at("main/.git/worktrees/tree/index.lock"), "").unwrap();
        assert_eq!(all.map(is_locked), [false, false, false, true, false]);
    }

    #[test]
    fn a_look_shows_every_changed_new_and_missing_file() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::create_dir(at("templates")).unwrap();
        fs::write(at("Chart.yaml"), "name: a\n").unwrap();
        let paths = [folder.path().to_owned()];
        let mut before = Look::at(&paths);
        assert_eq!(Look::at(&paths), before);
        let changes: [&dyn Fn(); 3] = [
            &|| fs::write(at("Chart.yaml"), "name: longer\n").unwrap(),
            &|| fs::write(at("templates/new.yaml"), "").unwrap(),
            &|| fs::remove_file(at("templates/new.yaml")).unwrap(),
        ];
        for change in changes {
            change();
            let now = Look::at(&paths);
            assert_ne!(now, before);
            before = now;
        }
    }
}
