//! Rotates a log of bounded size: two files, of which the older one is replaced.
//!
//! A link in the log's place is set aside like a full file, so that its target is not written to.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

/// A log file that is renamed to `NAME.1` when it reaches its limit.
#[derive(Debug)]
pub struct Rotating {
    path: PathBuf,
    /// In bytes; a file exceeds it by at most one line.
    limit: u64,
    open: Option<(File, u64)>,
}

impl Rotating {
    /// Creates a log at `path`, which is opened on the first write.
    pub const fn new(path: PathBuf, limit: u64) -> Self {
        Self {
            path,
            limit,
            open: None,
        }
    }

    /// Appends a line that includes its line end. A write error is ignored: it must not stop the agent's work.
    pub fn append(&mut self, line: &str) {
        let is_full = |(_, size): &mut (File, u64)| *size >= self.limit;
        if self.open.as_mut().is_none_or(is_full) {
            self.open = None;
            self.open = self.reopen();
        }
        if let Some((file, size)) = self.open.as_mut()
            && file.write_all(line.as_bytes()).is_ok()
        {
            *size += line.len() as u64;
        }
    }

    /// Closes the file; the next line opens it again.
    pub fn close(&mut self) {
        self.open = None;
    }

    fn reopen(&self) -> Option<(File, u64)> {
        let there = fs::symlink_metadata(&self.path).ok();
        let is_link = there.as_ref().is_some_and(fs::Metadata::is_symlink);
        if is_link || there.is_some_and(|there| there.len() >= self.limit) {
            let mut aside = self.path.clone().into_os_string();
            aside.push(".1");
            // If another process keeps the old file open, the current one is truncated: the size limit matters more than its
            // content.
            if fs::rename(&self.path, aside).is_err() && !is_link {
                open_itself(&self.path)?.set_len(0).ok()?;
            }
        }
        let file = open_itself(&self.path)?;
        let size = file.metadata().ok()?.len();
        Some((file, size))
    }
}

/// Opens a file to append to it, but not the target of a link.
fn open_itself(path: &Path) -> Option<File> {
    let mut options = OpenOptions::new();
    options.append(true).create(true);
    #[cfg(windows)]
    {
        use std::os::windows::fs::OpenOptionsExt;
        /// `FILE_FLAG_OPEN_REPARSE_POINT`: the link itself.
        const ITSELF: u32 = 0x20_0000;
        options.custom_flags(ITSELF);
    }
    // Checks the opened file itself, which cannot be replaced meanwhile.
    let is_link = |file: &File| file.metadata().is_ok_and(|there| there.is_symlink());
    options.open(path).ok().filter(|file| !is_link(file))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: u64 = 100;

    /// A folder that is removed with the test.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("{name}-{}", std::process::id()));
            fs::create_dir_all(&path).unwrap();
            Self(path)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn sizes(folder: &Folder) -> Vec<u64> {
        let mut sizes: Vec<u64> = fs::read_dir(&folder.0)
            .unwrap()
            .map(|entry| entry.unwrap().metadata().unwrap().len())
            .collect();
        sizes.sort_unstable();
        sizes
    }

    #[test]
    fn two_files_of_bounded_size_with_the_latest_lines() {
        let folder = Folder::new("rotation");
        let path = folder.0.join("agent.log");
        for run in 0..3 {
            // Each start of the agent continues the existing file.
            let mut log = Rotating::new(path.clone(), LIMIT);
            for line in 0..50 {
                log.append(&format!("run {run} line {line:02}\n"));
                let sizes = sizes(&folder);
                assert!(sizes.len() <= 2, "{sizes:?}");
                assert!(sizes.iter().all(|size| *size < LIMIT + 20), "{sizes:?}");
            }
        }
        let aside = fs::read_to_string(folder.0.join("agent.log.1")).unwrap();
        let latest = aside + &fs::read_to_string(&path).unwrap();
        assert!(
            latest.ends_with("run 2 line 48\nrun 2 line 49\n"),
            "{latest}"
        );
        assert!(latest.len() as u64 > LIMIT, "{latest}");
    }

    #[test]
    fn a_file_that_cannot_be_set_aside_is_emptied() {
        let folder = Folder::new("rotation-stuck");
        let path = folder.0.join("agent.log");
        // Nothing can be renamed over a folder that is not empty.
        fs::create_dir_all(folder.0.join("agent.log.1/x")).unwrap();
        let mut log = Rotating::new(path.clone(), LIMIT);
        for line in 0..50 {
            log.append(&format!("line {line:02}\n"));
        }
        let text = fs::read_to_string(path).unwrap();
        assert!(
            text.ends_with("line 49\n") && (text.len() as u64) < LIMIT + 20,
            "{text}"
        );
    }

    #[cfg(unix)]
    #[test]
    fn a_link_is_set_aside_and_what_it_leads_to_stays_as_it_is() {
        let folder = Folder::new("rotation-link");
        let (path, elsewhere) = (folder.0.join("agent.log"), folder.0.join("elsewhere"));
        fs::write(&elsewhere, "important").unwrap();
        std::os::unix::fs::symlink(&elsewhere, &path).unwrap();
        Rotating::new(path.clone(), LIMIT).append("line\n");
        assert_eq!(fs::read_to_string(&elsewhere).unwrap(), "important");
        assert_eq!(fs::read_to_string(&path).unwrap(), "line\n");
        assert!(!fs::symlink_metadata(path).unwrap().is_symlink());
    }
}
