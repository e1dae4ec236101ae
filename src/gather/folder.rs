//! The output folder of a must-gather. Its content gets its place only when it is complete, and is removed otherwise.

use std::fs::{self, DirEntry, File, OpenOptions};
use std::io::{self, BufWriter, ErrorKind, Write};
#[cfg(unix)]
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::node::payload::sha256_hex;
use crate::report;
use crate::visible::visible;

/// How the name ends of where the content is until it is complete. Others, who may write beside it, must not guess it.
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
    /// The folder has something in it.
    #[error("{0} is there and not empty: it has {1}; name another folder with --dest, or empty it")]
    NotEmpty(String, String),
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

/// A folder that is being filled. What was made of it goes when this is dropped, unless it was [kept](Folder::keep).
#[derive(Debug)]
pub struct Folder {
    name: PathBuf,
    /// Where the content is until it is complete.
    partial: PathBuf,
    /// The folders that were created, innermost first.
    made: Vec<PathBuf>,
}

impl Folder {
    /// Creates a folder of this name. It may be there already if it is empty, such as a mount point.
    pub fn create(name: &Path) -> Result<Self, FolderError> {
        match fs::read_dir(name).and_then(Iterator::collect::<io::Result<Vec<_>>>) {
            Ok(entries) if entries.is_empty() => {}
            Ok(entries) => {
                let name_of = |entry: &DirEntry| visible(&entry.file_name().to_string_lossy());
                let mut found: Vec<String> = entries.iter().map(name_of).collect();
                found.sort();
                let shown = visible(&name.to_string_lossy());
                return Err(FolderError::NotEmpty(shown, report::names(&found)));
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(FolderError::io("read", name)(error)),
        }
        let absent = name.ancestors();
        let absent = absent.take_while(|it| !it.as_os_str().is_empty() && !it.exists());
        // From here on, `Drop` removes what was created.
        let folder = Self {
            name: name.to_owned(),
            partial: name.join(format!(".{:016x}{PARTIAL}", rand::random::<u64>())),
            made: absent.map(Path::to_owned).collect(),
        };
        make(&folder.partial).map_err(FolderError::io("make", name))?;
        Ok(folder)
    }

    /// Returns the folder to write to.
    pub fn path(&self) -> &Path {
        &self.partial
    }

    /// Moves the content to its place.
    pub fn keep(self) -> Result<PathBuf, FolderError> {
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
        for made in &self.made {
            // Fails for a folder that is not empty: it holds the result, or another program's files.
            let _ = fs::remove_dir(made);
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
