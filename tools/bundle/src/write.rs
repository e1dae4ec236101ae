//! Puts generated files where they belong.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::sources::BundleError;

/// The folder in which nothing but generated files may be.
const GENERATED_ONLY: &str = "bundle";

/// What would have to change in `root` for the files to be as given, sorted: a path with its text, or with None where a
/// file has to go.
///
/// # Errors
/// Where a file is there and cannot be read.
pub fn differences<'a>(
    root: &Path,
    files: &'a BTreeMap<PathBuf, String>,
) -> Result<Vec<(PathBuf, Option<&'a str>)>, BundleError> {
    let mut differences = Vec::new();
    for (path, text) in files {
        let present = match std::fs::read(root.join(path)) {
            Ok(present) => Some(present),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
            Err(source) => {
                return Err(BundleError::Read {
                    path: path.clone(),
                    source,
                });
            }
        };
        if present.as_deref() != Some(text.as_bytes()) {
            differences.push((path.clone(), Some(text.as_str())));
        }
    }
    let mut present = Vec::new();
    files_below(root, Path::new(GENERATED_ONLY), &mut present)?;
    differences.extend(
        present
            .into_iter()
            .filter(|path| !files.contains_key(path))
            .map(|path| (path, None)),
    );
    differences.sort();
    Ok(differences)
}

/// Makes the files in `root` as given, and says which were not.
///
/// # Errors
/// Where a file cannot be read, written or removed.
pub fn write(root: &Path, files: &BTreeMap<PathBuf, String>) -> Result<Vec<PathBuf>, BundleError> {
    let differences = differences(root, files)?;
    for (path, text) in &differences {
        let file = root.join(path);
        let result = match text {
            Some(text) => file
                .parent()
                .map_or(Ok(()), std::fs::create_dir_all)
                .and_then(|()| std::fs::write(&file, text)),
            None => std::fs::remove_file(&file),
        };
        result.map_err(|source| BundleError::Write {
            path: path.clone(),
            source,
        })?;
    }
    Ok(differences.into_iter().map(|(path, _)| path).collect())
}

fn files_below(root: &Path, folder: &Path, files: &mut Vec<PathBuf>) -> Result<(), BundleError> {
    let read_error = |source| BundleError::Read {
        path: folder.into(),
        source,
    };
    let entries = match std::fs::read_dir(root.join(folder)) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(source) => return Err(read_error(source)),
    };
    for entry in entries {
        let entry = entry.map_err(read_error)?;
        let path = folder.join(entry.file_name());
        if entry.file_type().map_err(read_error)?.is_dir() {
            files_below(root, &path, files)?;
        } else {
            files.push(path);
        }
    }
    Ok(())
}
