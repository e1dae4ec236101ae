//! Resolves the paths that the user gives to files.

use std::collections::HashSet;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use walkdir::WalkDir;

use super::error::Problem;
use super::names::{STANDARD_INPUT, format_of};
use super::{Outcome, archive};

/// An input that the user names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// Standard input.
    StandardInput,
    /// A file or a directory.
    Path(PathBuf),
}

impl From<PathBuf> for Source {
    fn from(path: PathBuf) -> Self {
        if path.as_os_str() == "-" {
            Self::StandardInput
        } else {
            Self::Path(path)
        }
    }
}

/// Returns all files to read, each once, in a stable order.
pub(super) fn find(sources: &[Source], outcome: &mut Outcome) -> Vec<Source> {
    let mut search = Search {
        found: Vec::new(),
        seen: HashSet::new(),
        outcome,
    };
    for source in sources {
        match source {
            Source::StandardInput if search.found.contains(source) => {
                let problem = Problem::StandardInputTwice;
                let absent = &mut search.outcome.absent;
                absent.in_file(Path::new(STANDARD_INPUT), problem);
            }
            Source::StandardInput => search.found.push(Source::StandardInput),
            Source::Path(path) => search.walk(path),
        }
    }
    search.found
}

struct Search<'a> {
    found: Vec<Source>,
    /// The canonical paths of files and directories seen so far.
    seen: HashSet<PathBuf>,
    outcome: &'a mut Outcome,
}

impl Search<'_> {
    /// Adds a file with any name, or the files of a directory that have a supported extension. Names its archives.
    fn walk(&mut self, root: &Path) {
        let mut has_some = false;
        let mut walk = WalkDir::new(root)
            .follow_links(true)
            .sort_by_file_name()
            .into_iter();
        while let Some(entry) = walk.next() {
            match entry {
                // A symbolic link to a parent directory. Its content is found on the regular path.
                Err(error) if error.loop_ancestor().is_some() => {}
                Err(error) => {
                    has_some = true;
                    let path = error.path().unwrap_or(root).to_owned();
                    let cause = error.into_io_error();
                    let cause = cause.unwrap_or_else(|| ErrorKind::Other.into());
                    self.outcome.absent.in_file(&path, Problem::Read(cause));
                }
                Ok(entry) if entry.file_type().is_dir() => {
                    if !self.note(entry.path()) {
                        has_some = true;
                        walk.skip_current_dir();
                    }
                }
                Ok(entry) => {
                    let is_file = entry.file_type().is_file();
                    let is_named = entry.depth() == 0;
                    if is_named || is_file && format_of(entry.path()).is_some() {
                        has_some = true;
                        // A pipe from the shell has no canonical path and cannot be given twice.
                        if !is_file || self.note(entry.path()) {
                            self.found.push(Source::Path(entry.into_path()));
                        }
                    } else if is_file && let Some(problem) = archive::in_folder(root, entry.path())
                    {
                        has_some = true;
                        if self.note(entry.path()) {
                            self.outcome.unread.in_file(entry.path(), problem);
                        }
                    }
                }
            }
        }
        if !has_some {
            self.outcome
                .absent
                .in_file(root, Problem::NothingInDirectory);
        }
    }

    /// Records a path. Returns whether it is new. True also if it cannot be resolved: reading it gives a better error.
    fn note(&mut self, path: &Path) -> bool {
        std::fs::canonicalize(path).map_or(true, |real| self.seen.insert(real))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    /// Returns the names found, relative to the folder, and the errors.
    fn names(folder: &Path, sources: &[&str]) -> (Vec<String>, Vec<String>) {
        let sources: Vec<_> = sources
            .iter()
            .map(|name| match *name {
                "-" => Source::StandardInput,
                name => Source::Path(folder.join(name)),
            })
            .collect();
        let mut outcome = Outcome::default();
        let prefix = format!("{}/", folder.display());
        let found = find(&sources, &mut outcome)
            .into_iter()
            .map(|source| match source {
                Source::StandardInput => "-".to_owned(),
                Source::Path(path) => path.display().to_string().replace(&prefix, ""),
            })
            .collect();
        let errors = outcome.absent.and(outcome.unread).to_string();
        let errors = errors.replace(&prefix, "");
        let errors = errors.lines().map(str::to_owned).collect();
        (found, errors)
    }

    fn folder(files: &[&str]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for file in files {
            let path = folder.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        folder
    }

    /// Files, links as `target > path`, what is given, what is found, and how the errors begin.
    const CASES: &[[&str; 5]] = &[
        // In a stable order, of files with the right names; one that is given itself has any name, and is read once.
        [
            "d/b.yaml d/a/x.JSON d/a/y.Yml d/c.txt d/z.yaml.bak",
            "",
            "d",
            "d/a/x.JSON d/a/y.Yml d/b.yaml",
            "",
        ],
        [
            "d/b.yaml c.txt",
            "",
            "c.txt d/b.yaml d c.txt d",
            "c.txt d/b.yaml",
            "",
        ],
        [
            "a.yaml",
            "",
            "- a.yaml -",
            "- a.yaml",
            "standard input: given twice; give `-f -` once",
        ],
        // What is missing is an error.
        [
            "d/c.txt",
            "gone>d/link.yaml",
            "absent.yaml d",
            "",
            "absent.yaml: cannot be read: |d/link.yaml: cannot be read: ",
        ],
        [
            "d/c.txt",
            "",
            "d",
            "",
            "d: no *.yaml, *.yml or *.json in it",
        ],
        // Links are followed, and loops end.
        [
            "d/sub/a.yaml real.yaml other/o.yaml",
            "../real.yaml>d/file.yaml ..>d/sub/up sub>d/also ../other>d/there self>d/self",
            "d",
            "d/also/a.yaml d/file.yaml d/there/o.yaml",
            "d/self: ",
        ],
        // Archives that may hold objects are named, unless they are unpacked beside themselves. Logs are none.
        [
            "d/b.zip d/a.tgz d/c.JSON.gz d/x.yaml.xz d/e.tar.bz2 d/.gz d/node.log.gz d/0.log.20260101-1.gz d/kubelet.gz d/gz",
            "",
            "d",
            "",
            "d/a.tgz: this is an archive, |d/b.zip: this is an archive, |d/c.JSON.gz: this is |d/e.tar.bz2: this is |d/x.yaml.xz: this is ",
        ],
        [
            "d/b.zip d/b/pods.yaml d/c.json.gz d/c.json",
            "",
            "d",
            "d/b/pods.yaml d/c.json",
            "",
        ],
        // In a must-gather, what is beside the folders with objects is of no interest.
        [
            "mg/image/namespaces/a/pods.yaml mg/image/insights-data/i.tar.gz mg/image/nodes/n/sysinfo.tgz mg/image/network_logs/db.tar.gz",
            "",
            "mg mg/image",
            "mg/image/namespaces/a/pods.yaml",
            "",
        ],
        [
            "mg/image/namespaces/a/b.tar.gz mg/image/cluster-scoped-resources/core.json.gz mg/image/all.zip mg/more/i.tar.gz",
            "",
            "mg",
            "",
            "mg/image/all.zip: |mg/image/cluster-scoped-resources/core.json.gz: |mg/image/namespaces/a/b.tar.gz: |mg/more/i.tar.gz: ",
        ],
        [
            "mg/namespaces/a/pods.yaml mg/insights-data/i.tar.gz",
            "",
            "mg/insights-data",
            "",
            "mg/insights-data/i.tar.gz: ",
        ],
        // Special files are skipped.
        ["d/a.yaml", "/dev/zero>d/zero.yaml", "d", "d/a.yaml", ""],
    ];

    #[test]
    fn each_source_is_found_once_and_what_is_missing_is_an_error() {
        for [files, links, given, expected, begin] in CASES {
            let words = |text: &'static str| text.split_whitespace().collect::<Vec<_>>();
            let folder = folder(&words(files));
            for link in words(links) {
                let (target, path) = link.split_once('>').unwrap();
                symlink(target, folder.path().join(path)).unwrap();
            }
            let (found, errors) = names(folder.path(), &words(given));
            assert_eq!(found, words(expected), "{given}");
            let begin: Vec<_> = begin.split('|').filter(|it| !it.is_empty()).collect();
            assert_eq!(errors.len(), begin.len(), "{errors:?}");
            for (error, begin) in errors.iter().zip(begin) {
                assert!(error.starts_with(begin), "{error}");
            }
        }
        assert_eq!(Source::from(PathBuf::from("-")), Source::StandardInput);
    }

    #[test]
    fn an_unreadable_directory_is_an_error() {
        let folder = folder(&["d/sub/a.yaml", "d/b.yaml"]);
        let sub = folder.path().join("d/sub");
        fs::set_permissions(&sub, fs::Permissions::from_mode(0o000)).unwrap();
        // The superuser can read it anyway.
        if fs::read_dir(&sub).is_err() {
            let (found, errors) = names(folder.path(), &["d"]);
            assert_eq!(found, ["d/b.yaml"]);
            assert!(
                errors[0].starts_with("d/sub: cannot be read: "),
                "{errors:?}"
            );
        }
        fs::set_permissions(&sub, fs::Permissions::from_mode(0o700)).unwrap();
    }
}
