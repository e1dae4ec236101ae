//! The disk of a simulated host: files and folders by path, case-insensitive and with either slash, as on Windows.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};

use super::file::File;
use super::sharing::Access;

const PACKED: &str = ".zst";

/// Why the disk refuses a request, by Windows error code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// 2 and 3: there is no such file or folder. 123: the name is invalid.
    NotFound,
    /// 5: the account has no permission, or the file is in use.
    Denied,
    /// 32: a process has the file open without sharing it.
    Shared,
    /// 80 and 183: it already exists.
    Exists,
    /// 112: no space is left.
    Full,
    /// The request is invalid.
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
    /// Bytes that can still be written; `None` means no limit.
    pub free: Option<u64>,
    /// Open files by handle: path and access.
    opened: BTreeMap<u64, (String, Access)>,
    locked: BTreeSet<String>,
    /// Folders in which the account may not create files, with a trailing slash.
    denied: BTreeSet<String>,
    /// For each observed file, the hashes of all contents so far; `None` if the file was ever missing.
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

/// Returns one spelling for all names of a path: `C:\k\A.exe`, `/C:/k/a.exe`.
fn canonical(path: &str) -> String {
    path.replace('\\', "/").trim_matches('/').to_lowercase()
}

impl Disk {
    /// Returns the file at this path.
    pub fn file(&self, path: &str) -> Option<&File> {
        match self.entries.get(&canonical(path)) {
            Some(Entry::File(file)) => Some(file),
            _ => None,
        }
    }

    /// Returns whether this folder exists.
    pub fn is_folder(&self, path: &str) -> bool {
        matches!(self.entries.get(&canonical(path)), Some(Entry::Folder))
    }

    /// Returns the names of the files and folders in a folder, or `None` if there is no such folder.
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

    /// Returns the file for a local program that reads it.
    pub fn read_locally(&self, path: &str) -> Result<&File, Refusal> {
        self.share(&canonical(path), Access::LOCAL_READ)?;
        self.file(path).ok_or(Refusal::NotFound)
    }

    /// Opens a file; opening it for writing truncates it. Returns a handle to close.
    pub fn open(&mut self, path: &str, access: Access) -> Result<u64, Refusal> {
        /// Handles are never reused, so that no handle closes another's file.
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

    /// Closes a handle. Returns false if it is not open.
    pub fn close(&mut self, opened: u64) -> bool {
        self.opened.remove(&opened).is_some()
    }

    /// Closes all handles, as a reboot does.
    pub fn close_all(&mut self) {
        self.opened.clear();
    }

    /// Checks that a file may be opened in addition to its open handles.
    fn share(&self, path: &str, access: Access) -> Result<(), Refusal> {
        let locked = self.locked.contains(path).then_some(Access::LOCKED);
        let mut others = self.opened_as(path).chain(locked);
        if others.all(|other| other.fits(access)) {
            Ok(())
        } else {
            Err(Refusal::Shared)
        }
    }

    /// Returns whether a process has the file open without sharing it for deletion.
    fn is_in_use(&self, path: &str) -> bool {
        self.locked.contains(path) || self.opened_as(path).any(|access| !access.lets_remove())
    }

    fn opened_as(&self, path: &str) -> impl Iterator<Item = Access> {
        let opened = self.opened.values();
        opened.filter_map(move |(opened, access)| (opened == path).then_some(*access))
    }

    /// Returns all files, as `c:/k/a.exe`.
    pub fn files(&self) -> Vec<String> {
        let files = self.entries.iter();
        files
            .filter(|(_, entry)| matches!(entry, Entry::File(_)))
            .map(|(path, _)| path.clone())
            .collect()
    }

    /// Locks a file, so that it cannot be read, written, renamed or removed, or unlocks it.
    pub fn lock(&mut self, path: &str, locked: bool) {
        if locked {
            self.locked.insert(canonical(path));
        } else {
            self.locked.remove(&canonical(path));
        }
    }

    /// Denies the account permission to create files in a folder, or allows it again.
    pub fn deny(&mut self, folder: &str, denied: bool) {
        let folder = canonical(folder) + "/";
        if denied {
            self.denied.insert(folder);
        } else {
            self.denied.remove(&folder);
        }
    }

    /// Starts to record each content of this file, after every change.
    pub fn note(&mut self, path: &str) {
        let path = canonical(path);
        self.noted.insert(path.clone(), BTreeSet::new());
        self.changed(&path);
    }

    /// Returns the hashes of all recorded contents of a file, with `None` if it was ever missing.
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

    /// Creates a folder and its parents.
    pub fn make_folders(&mut self, path: &str) {
        let path = canonical(path);
        for (end, _) in path.match_indices('/').chain([(path.len(), "")]) {
            let folder = path[..end].to_owned();
            self.entries.entry(folder).or_insert(Entry::Folder);
        }
    }

    /// Creates one folder.
    pub fn make_folder(&mut self, path: &str) -> Result<(), Refusal> {
        let path = canonical(path);
        if self.entries.contains_key(&path) {
            return Err(Refusal::Exists);
        }
        self.parent(&path)?;
        self.entries.insert(path, Entry::Folder);
        Ok(())
    }

    /// Removes an empty folder.
    pub fn remove_folder(&mut self, path: &str) -> Result<(), Refusal> {
        let names = self.names(path).ok_or(Refusal::NotFound)?;
        if !names.is_empty() {
            return Err(Refusal::Nonsense);
        }
        self.entries.remove(&canonical(path));
        Ok(())
    }

    /// Puts a file at a path and replaces any earlier one.
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

    /// Appends to a file. Other offsets are refused: no client writes a file in another order.
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

    /// Removes a file. The C runtime has one error for files in use (`errno.cpp` of the UCRT maps 19 to 36 to EACCES).
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

    /// Removes a file, or a folder with its content.
    pub fn remove_all(&mut self, path: &str) {
        let path = canonical(path);
        let below = format!("{path}/");
        self.entries
            .retain(|name, _| *name != path && !name.starts_with(&below));
    }

    fn parent(&self, path: &str) -> Result<(), Refusal> {
        let (parent, _) = path.rsplit_once('/').ok_or(Refusal::Nonsense)?;
        match self.entries.get(parent) {
            Some(Entry::Folder) => Ok(()),
            _ => Err(Refusal::NotFound),
        }
    }
}
