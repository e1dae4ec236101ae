//! Shifts the clocks of a process. libfaketime shifts those of the C library; the boot clock is read from the kernel
//! directly and is not affected.

use std::fs;
use std::path::PathBuf;

use crate::cluster::harness::Harness;

/// The clocks of one process.
pub struct Clock {
    file: PathBuf,
}

impl Clock {
    pub fn new(harness: &Harness, name: &str) -> Self {
        let file = harness.control_plane().dir().join(name);
        let clock = Self { file };
        clock.shift("+0");
        clock
    }

    /// Returns the environment variables that make a process use this wall clock and, with `is_all`, also shift its
    /// monotonic clock.
    pub fn variables(&self, is_all: bool) -> Vec<(&str, &str)> {
        let file = self.file.to_str().unwrap();
        let mut variables = vec![
            ("LD_PRELOAD", library()),
            ("FAKETIME_TIMESTAMP_FILE", file),
            ("FAKETIME_NO_CACHE", "1"),
        ];
        if !is_all {
            variables.push(("FAKETIME_DONT_FAKE_MONOTONIC", "1"));
        }
        variables
    }

    pub fn shift(&self, by: &str) {
        let new = self.file.with_extension("new");
        fs::write(&new, by).unwrap();
        fs::rename(&new, &self.file).unwrap();
    }
}

fn library() -> &'static str {
    const LIBRARIES: [&str; 3] = [
        "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1",
        "/usr/lib/aarch64-linux-gnu/faketime/libfaketimeMT.so.1",
        "/usr/lib/faketime/libfaketimeMT.so.1",
    ];
    let found = LIBRARIES.into_iter().find(|path| fs::exists(path).unwrap());
    assert!(found.is_some(), "libfaketime is not there: tools/setup");
    found.unwrap()
}
