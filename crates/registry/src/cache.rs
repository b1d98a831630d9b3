//! Keeps fetched charts on disk: archives by their digest, and what was last found for each source.
//!
//! Nothing on disk is believed: only what this user wrote is read, compared with its digest and verified again. Old
//! archives are deleted when they exceed a bound together, but none that is served.

use std::collections::HashMap;
use std::fs::{self, DirBuilder, File, Metadata};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use crate::signature::Signature;
use crate::{Digest, Error, MAX_ARCHIVE_BYTES};

/// The maximum size of an entry, in bytes: a manifest and some signatures.
const MAX_ENTRY_BYTES: u64 = 8 << 20;

/// The mode of the folder: only its user reads and writes it.
const MODE: u32 = 0o700;

/// The cache of a process. Processes may share a folder.
#[derive(Debug)]
pub struct Cache {
    folder: PathBuf,
    limit: u64,
    /// The two archives that each source was last found with: the second may still be rendered.
    served: Mutex<HashMap<String, [Option<Digest>; 2]>>,
}

/// The cached result of a source.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Entry {
    /// The source, so that a file under another name is not taken for its own.
    pub(crate) source: String,
    pub(crate) version: Option<String>,
    /// The manifest's text; `None` for an archive from a web server.
    pub(crate) manifest: Option<String>,
    /// The signatures of the manifest, if they were read.
    #[serde(default)]
    pub(crate) signatures: Vec<Signature>,
    /// The archive's digest.
    pub(crate) archive: String,
}

/// Who can write the folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Writers {
    /// This user alone.
    Own,
    /// This user, who owns it, and a group.
    OwnAndGroup,
    /// Others as well, or others instead.
    Others,
}

impl Writers {
    fn of(about: &Metadata, user: u32) -> Writers {
        match about.mode() & 0o022 {
            _ if !about.is_dir() || about.uid() != user => Writers::Others,
            0 => Writers::Own,
            0o020 => Writers::OwnAndGroup,
            _ => Writers::Others,
        }
    }
}

impl Entry {
    /// Returns the digest that names the chart at its source. `archive` is the archive's.
    pub(crate) fn name(&self, archive: Digest) -> Digest {
        self.manifest.as_deref().map_or(archive, |manifest| Digest::of(manifest.as_bytes()))
    }
}

impl Cache {
    /// Creates a cache in this folder, which holds at most this many bytes of archives besides those that are served.
    /// Touches nothing yet.
    pub fn new(folder: impl Into<PathBuf>, limit: u64) -> Cache {
        Cache { folder: folder.into(), limit, served: Mutex::default() }
    }

    /// Returns the folder, which holds nothing but charts.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Creates the folder, unless it exists.
    ///
    /// # Errors
    /// It cannot be created, or others can write it.
    pub fn open(&self) -> Result<(), Error> {
        self.create().map_err(|source| self.failed(source))
    }

    pub(crate) fn entry(&self, source: &str) -> Option<Entry> {
        let text = self.read(&self.entry_path(source), MAX_ENTRY_BYTES).ok()?;
        serde_json::from_slice(&text).ok().filter(|entry: &Entry| entry.source == source)
    }

    /// Returns the path of an archive whose content is as its digest says, and marks it as used.
    pub(crate) fn archive(&self, digest: &Digest) -> Option<PathBuf> {
        let path = self.archive_path(digest);
        let content = self.read(&path, MAX_ARCHIVE_BYTES).ok()?;
        if Digest::of(&content) != *digest {
            return None;
        }
        // Only the order of deletions depends on it.
        _ = File::options().append(true).open(&path).and_then(|file| file.set_modified(SystemTime::now()));
        Some(path)
    }

    /// Stores an archive, whose digest has been compared; returns its path.
    pub(crate) fn put_archive(&self, digest: &Digest, content: &[u8]) -> Result<PathBuf, Error> {
        let path = self.archive_path(digest);
        self.write(&path, content)?;
        self.tidy(digest);
        Ok(path)
    }

    /// Stores what was found for a source.
    pub(crate) fn put_entry(&self, entry: &Entry) -> Result<(), Error> {
        let text = serde_json::to_vec(entry).map_err(|error| self.failed(error.into()))?;
        self.write(&self.entry_path(&entry.source), &text)
    }

    /// Keeps a source's archive from being deleted, and the one before.
    pub(crate) fn serve(&self, source: &str, digest: &Digest) {
        let mut served = self.lock();
        let both = served.entry(source.to_owned()).or_default();
        if both[0] != Some(*digest) {
            *both = [Some(*digest), both[0]];
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, [Option<Digest>; 2]>> {
        self.served.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn archive_path(&self, digest: &Digest) -> PathBuf {
        self.folder.join(format!("{}.tgz", digest.hex()))
    }

    fn entry_path(&self, source: &str) -> PathBuf {
        self.folder.join(format!("{}.json", Digest::of(source.as_bytes()).hex()))
    }

    /// Writes a file atomically: readers find all of it or nothing.
    fn write(&self, path: &Path, content: &[u8]) -> Result<(), Error> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        // The time as well: in a container, the process after a crash has the same number.
        let time = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_nanos();
        let part = self.folder.join(format!("{}-{time}-{number}.part", std::process::id()));
        let written = self.create().and_then(|()| {
            let mut file = File::create_new(&part)?;
            file.write_all(content)?;
            file.sync_all()?;
            fs::rename(&part, path)
        });
        written.map_err(|source| {
            _ = fs::remove_file(&part);
            self.failed(source)
        })
    }

    /// Creates the folder.
    fn create(&self) -> io::Result<()> {
        DirBuilder::new().recursive(true).mode(MODE).create(&self.folder)?;
        // At each mount, the kubelet lets the pod's `fsGroup` write every folder of a volume.
        if self.writers()? == Writers::OwnAndGroup {
            fs::set_permissions(&self.folder, fs::Permissions::from_mode(MODE))?;
        }
        self.check()
    }

    /// Fails unless only this user can write the folder. Another user's would not stay what it is.
    fn check(&self) -> io::Result<()> {
        match self.writers()? {
            Writers::Own => Ok(()),
            _ => Err(io::Error::other("it is not a folder that only this user can write")),
        }
    }

    fn writers(&self) -> io::Result<Writers> {
        Ok(Writers::of(&fs::symlink_metadata(&self.folder)?, user()))
    }

    fn read(&self, path: &Path, limit: u64) -> io::Result<Vec<u8>> {
        self.check()?;
        read(path, limit, user())
    }

    fn failed(&self, source: io::Error) -> Error {
        Error::Cache { folder: self.folder.display().to_string(), source }
    }

    /// Deletes the archives that were not used for the longest time, until the rest is within the bound, and what
    /// interrupted writes left behind. Other files belong to the user who chose the folder.
    fn tidy(&self, new: &Digest) {
        let mut kept: Vec<String> = self.lock().values().flatten().flatten().map(Digest::hex).collect();
        kept.push(new.hex());
        let mut archives = Vec::new();
        for entry in fs::read_dir(&self.folder).into_iter().flatten().flatten() {
            let (path, Ok(about)) = (entry.path(), entry.metadata()) else { continue };
            let used = about.modified().unwrap_or(SystemTime::UNIX_EPOCH);
            match path.file_name().and_then(|name| name.to_str()?.rsplit_once('.')) {
                Some((name, "tgz")) if is_digest(name) => archives.push((used, about.len(), path)),
                // Processes that share the folder may be writing now.
                Some((name, "part")) if is_part(name) && used.elapsed().is_ok_and(|age| age.as_secs() > 3600) => {
                    _ = fs::remove_file(path);
                }
                _ => {}
            }
        }
        archives.sort();
        let mut total: u64 = archives.iter().map(|(_, size, _)| size).sum();
        for (_, size, path) in archives {
            let is_kept = path.file_stem().is_some_and(|stem| kept.iter().any(|kept| stem == &**kept));
            if total > self.limit && !is_kept && fs::remove_file(path).is_ok() {
                total -= size;
            }
        }
    }
}

/// Returns whether this is the name of an archive.
fn is_digest(name: &str) -> bool {
    format!("sha256:{name}").parse::<Digest>().is_ok()
}

/// Returns whether this is the name of a file that is being written: three numbers.
fn is_part(name: &str) -> bool {
    let numbers: Vec<&str> = name.split('-').collect();
    numbers.len() == 3 && numbers.iter().all(|number| number.parse::<u128>().is_ok())
}

/// Returns the user of this process.
fn user() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Reads a regular file of this user, of at most this size.
fn read(path: &Path, limit: u64, user: u32) -> io::Result<Vec<u8>> {
    let about = fs::symlink_metadata(path)?;
    if !about.is_file() || about.uid() != user {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut content = Vec::new();
    File::open(path)?.take(limit + 1).read_to_end(&mut content)?;
    if content.len() as u64 > limit { Err(io::ErrorKind::FileTooLarge.into()) } else { Ok(content) }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn chmod(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    fn cache(limit: u64) -> (tempfile::TempDir, Cache) {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::new(folder.path().join("charts"), limit);
        (folder, cache)
    }

    fn entry(source: &str) -> Entry {
        let (version, manifest) = (Some("1.0.0".into()), Some("{}".into()));
        Entry {
            source: source.into(),
            version,
            manifest,
            signatures: Vec::new(),
            archive: Digest::of(b"a").to_string(),
        }
    }

    #[test]
    fn what_is_on_disk_counts_only_if_it_is_what_its_name_says() {
        let (_folder, cache) = cache(100);
        let digest = Digest::of(b"archive");
        assert_eq!(cache.archive(&digest), None);
        let path = cache.put_archive(&digest, b"archive").unwrap();
        assert_eq!(cache.archive(&digest), Some(path.clone()));
        assert_eq!(fs::metadata(cache.folder()).unwrap().permissions().mode() & 0o777, 0o700);
        fs::write(&path, "another").unwrap();
        assert_eq!(cache.archive(&digest), None);
        cache.put_entry(&entry("oci://a/b 1")).unwrap();
        assert_eq!(cache.entry("oci://a/b 1"), Some(entry("oci://a/b 1")));
        fs::rename(cache.entry_path("oci://a/b 1"), cache.entry_path("oci://a/b 2")).unwrap();
        assert_eq!(cache.entry("oci://a/b 2"), None);
    }

    #[test]
    fn archives_that_are_not_served_go_first_and_only_beyond_the_bound() {
        let (_folder, cache) = cache(20);
        let put = |content: &[u8], age: u64| {
            let digest = Digest::of(content);
            let path = cache.put_archive(&digest, content).unwrap();
            let then = SystemTime::now() - Duration::from_secs(age);
            File::options().append(true).open(path).unwrap().set_modified(then).unwrap();
            digest
        };
        let (oldest, served) = (put(b"oldest-one", 300), put(b"served-one", 400));
        cache.serve("a", &served);
        cache.serve("a", &served);
        assert!(cache.archive_path(&oldest).exists(), "20 bytes fit");
        let third = put(b"third--one", 200);
        let left = |digest: &Digest| cache.archive_path(digest).exists();
        assert!(!left(&oldest) && left(&served) && left(&third));
        cache.serve("a", &third);
        let fourth = put(b"fourth-one", 100);
        assert!(left(&served) && left(&third) && left(&fourth), "the one before is served, too");
        cache.serve("a", &fourth);
        put(b"fifth--one", 50);
        assert!(!left(&served) && left(&third) && left(&fourth));
    }

    #[test]
    fn only_files_of_a_cache_are_deleted_from_its_folder() {
        let (_folder, cache) = cache(1);
        cache.put_archive(&Digest::of(b"old"), b"old").unwrap();
        let hex = Digest::of(b"old").hex();
        let of_the_user =
            ["shop-1.0.0.tgz", "0-1.part", "film.part", &format!("{hex}.tar.tgz"), &format!("{}.tgz", &hex[1..])];
        let files = of_the_user.map(|name| (cache.folder().join(name), true));
        let parts = ["1-23-0.part", "1-45-1.part"].map(|name| cache.folder().join(name));
        let ours = [(cache.archive_path(&Digest::of(b"old")), false), (parts[0].clone(), false)];
        let all: Vec<_> = files.into_iter().chain(ours).collect();
        for (path, _) in &all {
            let file = File::options().append(true).create(true).open(path).unwrap();
            file.set_modified(SystemTime::now() - Duration::from_secs(7200)).unwrap();
        }
        fs::write(&parts[1], "being written").unwrap();
        cache.put_archive(&Digest::of(b"new"), b"new").unwrap();
        for (path, stays) in &all {
            assert_eq!(path.exists(), *stays, "{}", path.display());
        }
        assert!(parts[1].exists());
    }

    #[test]
    fn a_folder_that_others_can_write_is_not_used() {
        let (folder, cache) = cache(100);
        fs::create_dir(folder.path().join("charts")).unwrap();
        chmod(&folder.path().join("charts"), 0o777);
        let error = cache.put_archive(&Digest::of(b"a"), b"a").unwrap_err();
        assert!(error.to_string().starts_with("cannot use the cache of charts in "), "{error}");
        fs::remove_dir(folder.path().join("charts")).unwrap();
        std::os::unix::fs::symlink(folder.path(), folder.path().join("charts")).unwrap();
        assert!(cache.put_archive(&Digest::of(b"a"), b"a").is_err());
    }

    #[test]
    fn nothing_is_read_from_a_folder_that_others_can_write() {
        let (_folder, cache) = cache(100);
        let (digest, expected) = (Digest::of(b"archive"), entry("oci://a/b 1"));
        let path = cache.put_archive(&digest, b"archive").unwrap();
        cache.put_entry(&expected).unwrap();
        for mode in [0o777, 0o702, 0o2770] {
            chmod(cache.folder(), mode);
            assert_eq!((cache.entry(&expected.source), cache.archive(&digest)), (None, None), "{mode:o}");
        }
        chmod(cache.folder(), MODE);
        assert_eq!((cache.entry(&expected.source), cache.archive(&digest)), (Some(expected), Some(path)));
    }

    #[test]
    fn a_folder_that_a_mount_opened_to_a_group_is_closed_and_still_used() {
        let (_folder, cache) = cache(100);
        let [first, second] = [&b"one"[..], b"two"].map(Digest::of);
        let path = cache.put_archive(&first, b"one").unwrap();
        chmod(&path, 0o660);
        chmod(cache.folder(), 0o2770);
        cache.put_archive(&second, b"two").unwrap();
        assert_eq!(fs::metadata(cache.folder()).unwrap().mode() & 0o7777, MODE);
        assert_eq!(cache.archive(&first), Some(path));
    }

    #[test]
    fn what_another_user_made_is_not_used() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        fs::write(&file, "text").unwrap();
        assert_eq!(read(&file, 100, user()).unwrap(), b"text");
        assert!(read(&file, 100, user() + 1).is_err());
        let of = |mode, user| {
            chmod(folder.path(), mode);
            Writers::of(&fs::symlink_metadata(folder.path()).unwrap(), user)
        };
        assert_eq!(of(0o755, user()), Writers::Own);
        assert_eq!(of(0o2770, user()), Writers::OwnAndGroup);
        assert_eq!(of(0o772, user()), Writers::Others);
        assert_eq!((of(0o700, user() + 1), of(0o2770, user() + 1)), (Writers::Others, Writers::Others));
        assert_eq!(Writers::of(&fs::symlink_metadata(&file).unwrap(), user()), Writers::Others);
    }

    #[test]
    fn a_link_or_a_huge_file_is_not_read() {
        let (folder, cache) = cache(100);
        let digest = Digest::of(b"archive");
        let path = cache.put_archive(&digest, b"archive").unwrap();
        fs::rename(&path, folder.path().join("elsewhere")).unwrap();
        std::os::unix::fs::symlink(folder.path().join("elsewhere"), &path).unwrap();
        assert_eq!(cache.archive(&digest), None);
        let huge = folder.path().join("huge");
        File::create(&huge).unwrap().set_len(MAX_ARCHIVE_BYTES + 1).unwrap();
        assert!(read(&huge, MAX_ARCHIVE_BYTES, user()).is_err());
    }
}
