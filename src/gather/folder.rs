//! The output folder of a must-gather. It gets its final name only when it is complete, and is removed otherwise.

use std::fs::{self, DirEntry, File, OpenOptions};
use std::io::{self, BufWriter, ErrorKind, Write};
#[cfg(unix)]
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::node::payload::sha256_hex;
use crate::report;
use crate::visible::visible;

/// The suffix of an incomplete folder's name.
const PARTIAL: &str = ".partial";
/// Only the user may read logs and objects. On Windows, they inherit the access control list of their folder.
#[cfg(unix)]
const FOLDER_MODE: u32 = 0o700;
#[cfg(unix)]
const FILE_MODE: u32 = 0o600;
/// How often removal is tried: a thread that is being stopped may still create files meanwhile.
const REMOVALS: u32 = 10;

/// Why a folder cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    /// The folder is unsuitable: why, and what else the user can do.
    #[error("{0}; name another folder with --dest, or {1}")]
    Unsuitable(String, &'static str),
    /// The operating system returned an error: the operation, the path, and the error.
    #[error("cannot {0} {1}: {2}")]
    Io(&'static str, String, io::Error),
}

impl FolderError {
    fn io(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self + use<> {
        let path = visible(&path.to_string_lossy());
        move |cause| Self::Io(what, path, cause)
    }
}

/// A folder that is being filled. Removed with its content when dropped, unless [kept](Folder::keep).
#[derive(Debug)]
pub struct Folder {
    /// The temporary folder.
    partial: PathBuf,
    /// The final name.
    name: PathBuf,
    /// Whether the final folder already existed. It then stays, because it may be a mount point.
    is_there: bool,
    /// The parent folders that were created, innermost first.
    made: Vec<PathBuf>,
}

impl Folder {
    /// Creates a folder for this name. The name may already exist if it is an empty folder.
    pub fn create(name: &Path) -> Result<Self, FolderError> {
        let refused = |what: &str, or| {
            let shown = visible(&name.to_string_lossy());
            Err(FolderError::Unsuitable(format!("{shown} is {what}"), or))
        };
        let is_there = match fs::read_dir(name).and_then(Iterator::collect::<io::Result<Vec<_>>>) {
            Ok(entries) if entries.is_empty() => true,
            Ok(entries) => {
                let name = |entry: &DirEntry| visible(&entry.file_name().to_string_lossy());
                let mut found: Vec<String> = entries.iter().map(name).collect();
                found.sort();
                let found = report::names(&found);
                return refused(&format!("there and not empty: it has {found}"), "empty it");
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {
                // Remove a trailing slash, which would follow the link.
                let link = name.with_file_name(name.file_name().unwrap_or_default());
                if fs::symlink_metadata(link).is_ok() {
                    return refused("a link that leads nowhere", "remove it");
                }
                false
            }
            Err(error) if error.kind() == ErrorKind::NotADirectory => {
                return refused("there and no folder", "remove it");
            }
            Err(error) => return Err(FolderError::io("read", name)(error)),
        };
        let own = format!(".{:016x}{PARTIAL}", rand::random::<u64>());
        let partial = if is_there {
            name.join(own)
        } else {
            let mut beside = name.file_name().unwrap_or_default().to_os_string();
            beside.push(own);
            name.with_file_name(beside)
        };
        let outer = name.ancestors().skip(1);
        let outer = outer.take_while(|outer| !outer.as_os_str().is_empty() && !outer.exists());
        // From here on, `Drop` removes what was created.
        let folder = Self {
            partial,
            name: name.to_owned(),
            is_there,
            made: outer.map(Path::to_owned).collect(),
        };
        if let Some(outer) = folder.made.first() {
            fs::create_dir_all(outer).map_err(FolderError::io("make", outer))?;
        }
        make(&folder.partial).map_err(FolderError::io("make", &folder.partial))?;
        Ok(folder)
    }

    /// Returns the folder to write to.
    pub fn path(&self) -> &Path {
        &self.partial
    }

    /// Moves the content to the final name.
    pub fn keep(self) -> Result<PathBuf, FolderError> {
        if self.is_there {
            // Collect all names first: renaming entries while reading the folder may skip some.
            let entries: Vec<_> = fs::read_dir(&self.partial)
                .and_then(Iterator::collect)
                .map_err(FolderError::io("read", &self.partial))?;
            for entry in entries {
                let name = self.name.join(entry.file_name());
                fs::rename(entry.path(), &name).map_err(FolderError::io("name", &name))?;
            }
            // Fails if anything is left in it.
            fs::remove_dir(&self.partial).map_err(FolderError::io("empty", &self.partial))?;
        } else {
            // Fails if the target is by now a folder that is not empty.
            fs::rename(&self.partial, &self.name).map_err(FolderError::io("name", &self.name))?;
        }
        Ok(self.name.clone())
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        for _ in 0..REMOVALS {
            match fs::remove_dir_all(&self.partial) {
                Err(error) if error.kind() != ErrorKind::NotFound => {
                    std::thread::sleep(std::time::Duration::from_millis(50));
                }
                _ => break,
            }
        }
        for outer in &self.made {
            // Fails for a folder that is not empty: it holds the result, or another program's files.
            let _ = fs::remove_dir(outer);
        }
    }
}

fn make(folder: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    builder.mode(FOLDER_MODE);
    builder.create(folder)
}

/// Creates a file, and its parent folder if needed. Of two that a node calls the same, the later one is kept.
pub fn create(root: &Path, path: &str) -> Result<BufWriter<File>, FolderError> {
    let path = root.join(path);
    // Never create the root: it is removed on cancellation and must not reappear.
    let folder = path.parent().filter(|folder| *folder != root);
    if let Some(folder) = folder
        && root.exists()
    {
        make(folder).map_err(FolderError::io("make", folder))?;
    }
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    options.mode(FILE_MODE);
    let file = options.open(&path);
    let file = file.map_err(FolderError::io("make", &path))?;
    Ok(BufWriter::new(file))
}

/// Writes a whole file.
pub fn write(root: &Path, path: &str, content: &[u8]) -> Result<(), FolderError> {
    let mut file = create(root, path)?;
    file.write_all(content)
        .and_then(|()| file.flush())
        .map_err(FolderError::io("write", &root.join(path)))
}

/// Converts an error that occurred while writing a file.
pub fn not_written(root: &Path, path: &str) -> impl FnOnce(io::Error) -> FolderError + use<> {
    FolderError::io("write", &root.join(path))
}

/// Converts a name from a node or cluster to a safe file name. A changed name gets a hash so that it stays unique.
pub fn file_name(name: &str) -> String {
    const LONGEST: usize = 120;
    let is_plain = |char: char| char.is_ascii_alphanumeric() || "._-".contains(char);
    let plain = |char| if is_plain(char) { char } else { '_' };
    let mut safe: String = name.chars().map(plain).take(LONGEST).collect();
    if safe.starts_with('.') || safe.is_empty() {
        safe.insert(0, '_');
    }
    if safe == name {
        safe
    } else {
        format!("{safe}.{}", short_hash(name))
    }
}

/// Converts a log's name to a file name that `check -f` does not read as objects.
pub fn log_name(name: &str) -> String {
    let safe = file_name(name);
    let lower = safe.to_ascii_lowercase();
    let mut ends = [".yaml", ".yml", ".json"].iter();
    if ends.any(|end| lower.ends_with(end)) {
        format!("{safe}.{}.txt", short_hash(name))
    } else {
        safe
    }
}

fn short_hash(name: &str) -> String {
    let mut hash = sha256_hex(name.as_bytes());
    hash.truncate(12);
    hash
}

#[cfg(test)]
mod tests;
