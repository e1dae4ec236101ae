//! The disk of a simulated host: files and folders by path, in any case and with either slash, as on Windows.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};

use super::file::File;
use super::profile::Profile;
use super::sharing::Access;

const PACKED: &str = ".zst";

/// Why the disk refuses, by Windows' error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// 2 and 3: there is no such file or folder. 123: there can be none.
    NotFound,
    /// 5: the account may not, or the file is in use.
    Denied,
    /// 32: a process has the file open and does not share it.
    Shared,
    /// 80 and 183: it is there already.
    Exists,
    /// 112: no space is left.
    Full,
    /// The request makes no sense.
    Nonsense,
}

#[derive(Clone, Debug)]
enum Entry {
    Folder,
    File(File),
}

/// Drive C: of a host.
#[derive(Clone, Debug)]
pub struct Disk {
    entries: BTreeMap<String, Entry>,
    /// Bytes that can still be written; no limit where absent.
    pub free: Option<u64>,
    /// Who has what open: the path, and how.
    opened: BTreeMap<u64, (String, Access)>,
    locked: BTreeSet<String>,
    /// Folders in which the account may make no file, with a slash at the end.
    denied: BTreeSet<String>,
    /// Each content, by its hash, that these files have ever had; none where the file was not there.
    noted: BTreeMap<String, BTreeSet<Option<String>>>,
}

impl Default for Disk {
    fn default() -> Self {
        let folders = ["c:", "c:/windows", "c:/programdata"];
        Self {
            entries: folders.map(|path| (path.to_owned(), Entry::Folder)).into(),
            free: None,
            opened: BTreeMap::new(),
            locked: BTreeSet::new(),
            denied: BTreeSet::new(),
            noted: BTreeMap::new(),
        }
    }
}

/// One spelling for all that name the same: `C:\k\A.exe`, `/C:/k/a.exe`.
fn canonical(path: &str) -> String {
    path.replace('\\', "/").trim_matches('/').to_lowercase()
}

impl Disk {
    /// The file of that path.
    #[must_use]
    pub fn file(&self, path: &str) -> Option<&File> {
        match self.entries.get(&canonical(path)) {
            Some(Entry::File(file)) => Some(file),
            _ => None,
        }
    }

    /// Whether there is such a folder.
    #[must_use]
    pub fn is_folder(&self, path: &str) -> bool {
        matches!(self.entries.get(&canonical(path)), Some(Entry::Folder))
    }

    /// The names of the files and folders in a folder; `None` where it is none.
    #[must_use]
    pub fn names(&self, folder: &str) -> Option<Vec<String>> {
        if !self.is_folder(folder) {
            return None;
        }
        let prefix = canonical(folder) + "/";
        let below = self
            .entries
            .keys()
            .filter_map(|path| path.strip_prefix(&*prefix));
        let names = below.filter(|name| !name.contains('/'));
        Some(names.map(str::to_owned).collect())
    }

    /// The file, for a program on the host that reads it.
    pub fn read_locally(&self, path: &str) -> Result<&File, Refusal> {
        self.share(&canonical(path), Access::LOCAL_READ)?;
        self.file(path).ok_or(Refusal::NotFound)
    }

    /// Opens a file, from the start where it is to be written. What comes back is to be closed.
    pub fn open(&mut self, path: &str, access: Access) -> Result<u64, Refusal> {
        /// Never given twice, so that nobody closes what is another's.
        static LAST: AtomicU64 = AtomicU64::new(0);
        let path = canonical(path);
        self.parent(&path)?;
        self.share(&path, access)?;
        match self.entries.get(&path) {
            Some(Entry::Folder) => return Err(Refusal::Nonsense),
            None if !access.writes => return Err(Refusal::NotFound),
            _ => {}
        }
        if access.writes {
            self.create(&path)?;
        }
        let opened = LAST.fetch_add(1, Ordering::Relaxed);
        self.opened.insert(opened, (path, access));
        Ok(opened)
    }

    /// Closes what was opened; false where it was not, or is closed.
    pub fn close(&mut self, opened: u64) -> bool {
        self.opened.remove(&opened).is_some()
    }

    /// As it is after a boot: nobody has anything open.
    pub fn close_all(&mut self) {
        self.opened.clear();
    }

    /// Whether one more process may open it beside those that have it open.
    fn share(&self, path: &str, access: Access) -> Result<(), Refusal> {
        let locked = self.locked.contains(path).then_some(Access::LOCKED);
        let mut others = self.opened_as(path).chain(locked);
        if others.all(|other| other.fits(access)) {
            Ok(())
        } else {
            Err(Refusal::Shared)
        }
    }

    /// Whether a process has it open without sharing it for deletion.
    fn is_in_use(&self, path: &str) -> bool {
        self.locked.contains(path) || self.opened_as(path).any(|access| !access.lets_remove())
    }

    fn opened_as(&self, path: &str) -> impl Iterator<Item = Access> {
        let opened = self.opened.values();
        opened.filter_map(move |(opened, access)| (opened == path).then_some(*access))
    }

    /// All files, as `c:/k/a.exe`.
    #[must_use]
    pub fn files(&self) -> Vec<String> {
        let files = self.entries.iter();
        files
            .filter(|(_, entry)| matches!(entry, Entry::File(_)))
            .map(|(path, _)| path.clone())
            .collect()
    }

    /// Makes programs hold the file open, so that nobody can read, write, rename or remove it; or lets go.
    pub fn lock(&mut self, path: &str, locked: bool) {
        if locked {
            self.locked.insert(canonical(path));
        } else {
            self.locked.remove(&canonical(path));
        }
    }

    /// Lets the account make no file in a folder; or lets it again.
    pub fn deny(&mut self, folder: &str, denied: bool) {
        let folder = canonical(folder) + "/";
        if denied {
            self.denied.insert(folder);
        } else {
            self.denied.remove(&folder);
        }
    }

    /// From now on notes each content that this file has, after every single change.
    pub fn note(&mut self, path: &str) {
        let path = canonical(path);
        self.noted.insert(path.clone(), BTreeSet::new());
        self.changed(&path);
    }

    /// The hash of each content that a file of which note is taken has had, and whether it has ever been missing.
    #[must_use]
    pub fn noted(&self, path: &str) -> BTreeSet<Option<String>> {
        let noted = self.noted.get(&canonical(path));
        noted.cloned().unwrap_or_default()
    }

    fn changed(&mut self, path: &str) {
        if self.noted.contains_key(path) {
            let content = self.file(path).map(File::sha256);
            let noted = self.noted.entry(path.to_owned());
            noted.or_default().insert(content);
        }
    }

    /// Makes a folder and those above it.
    pub fn make_folders(&mut self, path: &str) {
        let path = canonical(path);
        for (end, _) in path.match_indices('/').chain([(path.len(), "")]) {
            let folder = path[..end].to_owned();
            self.entries.entry(folder).or_insert(Entry::Folder);
        }
    }

    /// Makes one folder.
    pub fn make_folder(&mut self, path: &str) -> Result<(), Refusal> {
        let path = canonical(path);
        if self.entries.contains_key(&path) {
            return Err(Refusal::Exists);
        }
        self.parent(&path)?;
        self.entries.insert(path, Entry::Folder);
        Ok(())
    }

    /// Removes a folder in which nothing is.
    pub fn remove_folder(&mut self, path: &str) -> Result<(), Refusal> {
        let names = self.names(path).ok_or(Refusal::NotFound)?;
        if !names.is_empty() {
            return Err(Refusal::Nonsense);
        }
        self.entries.remove(&canonical(path));
        Ok(())
    }

    /// Puts a file in place, whatever was there.
    pub fn put(&mut self, path: &str, file: File) {
        let path = canonical(path);
        self.entries.insert(path.clone(), Entry::File(file));
        self.changed(&path);
    }

    fn create(&mut self, path: &str) -> Result<(), Refusal> {
        let name = path.rsplit('/').next().unwrap_or_default();
        if name.contains(['<', '>', ':', '"', '|', '?', '*']) {
            return Err(Refusal::NotFound);
        }
        if self.denied.iter().any(|folder| path.starts_with(folder)) {
            return Err(Refusal::Denied);
        }
        let file = if name.ends_with(PACKED) {
            File::packed()
        } else {
            File::default()
        };
        self.put(path, file);
        Ok(())
    }

    /// Writes at the file's end. Elsewhere is refused: nobody who brings files does that.
    pub fn write(&mut self, path: &str, offset: u64, data: &[u8]) -> Result<(), Refusal> {
        let Some(Entry::File(file)) = self.entries.get_mut(&canonical(path)) else {
            return Err(Refusal::NotFound);
        };
        if offset != file.size() {
            return Err(Refusal::Nonsense);
        }
        if let Some(free) = &mut self.free {
            *free = free.checked_sub(data.len() as u64).ok_or(Refusal::Full)?;
        }
        file.append(data);
        self.changed(&canonical(path));
        Ok(())
    }

    /// Removes a file. The C runtime has one error for all that is in use (`errno.cpp` of the UCRT maps 19 to 36 to EACCES).
    pub fn remove(&mut self, path: &str) -> Result<(), Refusal> {
        let path = canonical(path);
        match self.entries.get(&path) {
            None => Err(Refusal::NotFound),
            Some(Entry::Folder) => Err(Refusal::Nonsense),
            Some(Entry::File(_)) if self.is_in_use(&path) => Err(Refusal::Denied),
            Some(Entry::File(_)) => {
                self.entries.remove(&path);
                self.changed(&path);
                Ok(())
            }
        }
    }

    /// Removes a file, or a folder with all that is in it.
    pub fn remove_all(&mut self, path: &str) {
        let path = canonical(path);
        let below = format!("{path}/");
        self.entries
            .retain(|name, _| *name != path && !name.starts_with(&below));
    }

    /// Renames a file over no other one: a second name, then the first removed (`process_rename` in `sftp-server.c`), so that
    /// one that is in use ends with both.
    pub fn rename(&mut self, from: &str, to: &str) -> Result<(), Refusal> {
        let (from, to) = (canonical(from), canonical(to));
        self.parent(&to)?;
        let file = self.file(&from).ok_or(Refusal::NotFound)?.clone();
        if self.entries.contains_key(&to) {
            return Err(Refusal::Exists);
        }
        self.put(&to, file);
        self.remove(&from)
    }

    /// Renames a file over another one, if there is one (`w32_rename` in Win32-OpenSSH's `misc.c`).
    pub fn replace(&mut self, from: &str, to: &str, profile: Profile) -> Result<(), Refusal> {
        let (from, to) = (canonical(from), canonical(to));
        self.parent(&to)?;
        let file = self.file(&from).ok_or(Refusal::NotFound)?.clone();
        if profile.replaces {
            if self.is_in_use(&to) {
                return Err(Refusal::Denied);
            }
        } else {
            // Whatever comes of it.
            let _ = self.remove(&to);
        }
        if self.is_in_use(&from) {
            return Err(Refusal::Shared);
        }
        if !profile.replaces && self.entries.contains_key(&to) {
            return Err(Refusal::Exists);
        }
        self.entries.remove(&from);
        self.changed(&from);
        self.put(&to, file);
        Ok(())
    }

    fn parent(&self, path: &str) -> Result<(), Refusal> {
        let (parent, _) = path.rsplit_once('/').ok_or(Refusal::Nonsense)?;
        match self.entries.get(parent) {
            Some(Entry::Folder) => Ok(()),
            _ => Err(Refusal::NotFound),
        }
    }
}

#[cfg(test)]
mod tests;
