//! Writes generated files into the tree.

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// The folders in which nothing but generated files may be.
const GENERATED_ONLY: [&str; 2] = ["bundle", "charts"];

/// What would have to change in `root` for the files to be as given, sorted: a path with its text, or with None where a
/// file has to go.
///
/// # Errors
/// Where a file is there and cannot be read.
pub fn differences<'a>(
    root: &Path,
    files: &'a BTreeMap<PathBuf, String>,
) -> Result<Vec<(PathBuf, Option<&'a str>)>> {
    let mut differences = Vec::new();
    for (path, text) in files {
        let present = match fs::read(root.join(path)) {
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            read => Some(read.with_context(|| path.display().to_string())?),
        };
        if present.as_deref() != Some(text.as_bytes()) {
            differences.push((path.clone(), Some(text.as_str())));
        }
    }
    for folder in GENERATED_ONLY.map(|folder| root.join(folder)) {
        if !folder.exists() {
            continue;
        }
        for entry in walkdir::WalkDir::new(folder) {
            let entry = entry?;
            let path = entry.path().strip_prefix(root)?;
            if !entry.file_type().is_dir() && !files.contains_key(path) {
                differences.push((path.to_owned(), None));
            }
        }
    }
    differences.sort();
    Ok(differences)
}

/// Makes the files in `root` as given, and says which were not.
///
/// # Errors
/// Where a file cannot be read, written or removed.
pub fn write(root: &Path, files: &BTreeMap<PathBuf, String>) -> Result<Vec<PathBuf>> {
    let differences = differences(root, files)?;
    for (path, text) in &differences {
        let file = root.join(path);
        let result = match text {
            Some(text) => file
                .parent()
                .map_or(Ok(()), fs::create_dir_all)
                .and_then(|()| fs::write(&file, text)),
            None => fs::remove_file(&file),
        };
        result.with_context(|| format!("writing {}", path.display()))?;
    }
    Ok(differences.into_iter().map(|(path, _)| path).collect())
}
