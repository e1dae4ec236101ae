//! Writes generated files into the tree.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// Folders that contain only generated files.
const GENERATED_ONLY: [&str; 2] = ["bundle", "charts"];

/// Returns what has to change in `root` to match the given files, sorted: a path with its text, or with `None` for a
/// file to remove.
///
/// # Errors
/// Fails if an existing file cannot be read.
pub fn differences<'a>(
    root: &Path,
    files: &'a BTreeMap<PathBuf, String>,
) -> Result<Vec<(PathBuf, Option<&'a str>)>> {
    let mut differences = Vec::new();
    for (path, text) in files {
        let file = root.join(path);
        let present = file.exists().then(|| fs::read(&file)).transpose();
        let present = present.with_context(|| path.display().to_string())?;
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

/// Makes the files in `root` match the given ones, and returns those that were changed.
///
/// # Errors
/// Fails if a file cannot be read, written or removed.
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
