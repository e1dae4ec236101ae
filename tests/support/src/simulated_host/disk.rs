//! The disk of a simulated host: files and folders by path, in any case and with either slash, as on Windows.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::io::{self, Write};

use sha2::{Digest, Sha256};

/// Larger files are known by size and hash alone, so that a fleet fits into memory.
const KEPT: u64 = 256 * 1024;
/// Packed files are kept until they are unpacked.
const KEPT_PACKED: u64 = 64 * 1024 * 1024;
const PACKED: &str = ".zst";

/// Why the disk refuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// There is no such file or folder.
    NotFound,
    /// Another program holds the file open, or the account may not.
    Denied,
    /// No space is left, or the request makes no sense: servers have one word for all of that.
    Failure,
}

/// A file.
#[derive(Clone, Debug, Default)]
pub struct File {
    size: u64,
    hash: Sha256,
    content: Vec<u8>,
    packed: bool,
    /// It has numbered lines of [`LINE`] bytes, which nobody has to keep.
    of_lines: bool,
    modified: u32,
}

/// The length of the lines of [`File::of_lines`], in bytes.
pub const LINE: u64 = 16;

impl File {
    /// When it was last written to, in seconds since 1970.
    #[must_use]
    pub fn time(&self) -> u32 {
        self.modified
    }

    /// A file with that content.
    #[must_use]
    pub fn new(content: &[u8]) -> Self {
        let mut file = Self::default();
        file.append(content);
        file
    }

    /// A log of so many bytes, however many: `line 0000000000` and on.
    #[must_use]
    pub fn of_lines(size: u64) -> Self {
        Self {
            size,
            of_lines: true,
            ..Self::default()
        }
    }

    /// The same, last written to then, in seconds since 1970.
    #[must_use]
    pub fn modified(self, modified: u32) -> Self {
        Self { modified, ..self }
    }

    /// What is there from that byte on, at most so much.
    #[must_use]
    pub fn read(&self, offset: u64, most: u32) -> Vec<u8> {
        let end = self.size.min(offset.saturating_add(most.into()));
        if !self.of_lines {
            let place = |byte| usize::try_from(byte).unwrap_or(usize::MAX);
            let part = self.content.get(place(offset.min(end))..place(end));
            return part.unwrap_or_default().to_vec();
        }
        let mut part = Vec::new();
        let mut at = offset;
        while at < end {
            let line = format!("line {:010}\n", at / LINE);
            let from = usize::try_from(at % LINE).unwrap_or_default();
            part.extend_from_slice(&line.as_bytes()[from..]);
            at += LINE - at % LINE;
        }
        part.truncate(usize::try_from(end.saturating_sub(offset)).unwrap_or_default());
        part
    }

    fn append(&mut self, data: &[u8]) {
        self.hash.update(data);
        self.size += data.len() as u64;
        if self.size <= (if self.packed { KEPT_PACKED } else { KEPT }) {
            self.content.extend_from_slice(data);
        } else {
            self.content = Vec::new();
        }
    }

    /// Its size in bytes.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Its SHA-256 in lower-case hexadecimal.
    #[must_use]
    pub fn sha256(&self) -> String {
        let hash = self.hash.clone().finalize();
        hash.iter().fold(String::new(), |mut text, byte| {
            // Writing to a String does not fail.
            let _ = write!(text, "{byte:02x}");
            text
        })
    }

    /// Its content; empty where the file is larger than 256 KiB, and not packed.
    #[must_use]
    pub fn content(&self) -> &[u8] {
        &self.content
    }
}

#[derive(Clone, Debug)]
enum Entry {
    Folder,
    File(File),
}

impl Write for File {
    /// Writes at its end.
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        self.append(data);
        Ok(data.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Drive C: of a host.
#[derive(Clone, Debug)]
pub struct Disk {
    entries: BTreeMap<String, Entry>,
    /// Bytes that can still be written; no limit where absent.
    pub free: Option<u64>,
    locked: BTreeSet<String>,
    /// Each content, by its hash, that these files have ever had; none where the file was not there.
    noted: BTreeMap<String, BTreeSet<Option<String>>>,
}

impl Default for Disk {
    fn default() -> Self {
        let folders = ["c:", "c:/windows", "c:/programdata"];
        Self {
            entries: folders.map(|path| (path.to_owned(), Entry::Folder)).into(),
            free: None,
            locked: BTreeSet::new(),
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

    /// Opens a file to read it.
    pub fn open(&self, path: &str) -> Result<(), Refusal> {
        match self.entries.get(&canonical(path)) {
            Some(Entry::File(_)) if self.locked.contains(&canonical(path)) => Err(Refusal::Denied),
            Some(Entry::File(_)) => Ok(()),
            Some(Entry::Folder) => Err(Refusal::Failure),
            None => Err(Refusal::NotFound),
        }
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

    /// Makes programs hold the file open, so that nobody can write, rename or remove it; or lets go.
    pub fn lock(&mut self, path: &str, locked: bool) {
        if locked {
            self.locked.insert(canonical(path));
        } else {
            self.locked.remove(&canonical(path));
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
            return Err(Refusal::Failure);
        }
        self.parent(&path)?;
        self.entries.insert(path, Entry::Folder);
        Ok(())
    }

    /// Puts a file in place, whatever was there.
    pub fn put(&mut self, path: &str, file: File) {
        let path = canonical(path);
        self.entries.insert(path.clone(), Entry::File(file));
        self.changed(&path);
    }

    /// Opens a file to write it from the start.
    pub fn create(&mut self, path: &str) -> Result<(), Refusal> {
        let path = canonical(path);
        self.parent(&path)?;
        if self.locked.contains(&path) {
            return Err(Refusal::Denied);
        }
        if let Some(Entry::Folder) = self.entries.get(&path) {
            return Err(Refusal::Failure);
        }
        let file = File {
            packed: path.ends_with(PACKED),
            ..File::default()
        };
        self.entries.insert(path.clone(), Entry::File(file));
        self.changed(&path);
        Ok(())
    }

    /// Writes at the file's end. Elsewhere is refused: nobody who brings files does that.
    pub fn write(&mut self, path: &str, offset: u64, data: &[u8]) -> Result<(), Refusal> {
        let Some(Entry::File(file)) = self.entries.get_mut(&canonical(path)) else {
            return Err(Refusal::NotFound);
        };
        if offset != file.size {
            return Err(Refusal::Failure);
        }
        if let Some(free) = &mut self.free {
            *free = free
                .checked_sub(data.len() as u64)
                .ok_or(Refusal::Failure)?;
        }
        file.append(data);
        self.changed(&canonical(path));
        Ok(())
    }

    /// Removes a file.
    pub fn remove(&mut self, path: &str) -> Result<(), Refusal> {
        let path = canonical(path);
        match self.entries.get(&path) {
            None => Err(Refusal::NotFound),
            Some(Entry::Folder) => Err(Refusal::Failure),
            Some(Entry::File(_)) if self.locked.contains(&path) => Err(Refusal::Denied),
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

    /// Renames a file; over another one only where `replace` says so.
    pub fn rename(&mut self, from: &str, to: &str, replace: bool) -> Result<(), Refusal> {
        let (from, to) = (canonical(from), canonical(to));
        self.parent(&to)?;
        if self.locked.contains(&from) || self.locked.contains(&to) {
            return Err(Refusal::Denied);
        }
        let file = match self.entries.get(&from) {
            Some(Entry::File(file)) => file.clone(),
            Some(Entry::Folder) => return Err(Refusal::Failure),
            None => return Err(Refusal::NotFound),
        };
        match self.entries.get(&to) {
            Some(Entry::File(_)) if replace => {}
            Some(_) => return Err(Refusal::Failure),
            None => {}
        }
        self.entries.remove(&from);
        self.entries.insert(to.clone(), Entry::File(file));
        self.changed(&from);
        self.changed(&to);
        Ok(())
    }

    fn parent(&self, path: &str) -> Result<(), Refusal> {
        let (parent, _) = path.rsplit_once('/').ok_or(Refusal::Failure)?;
        match self.entries.get(parent) {
            Some(Entry::Folder) => Ok(()),
            _ => Err(Refusal::NotFound),
        }
    }
}
