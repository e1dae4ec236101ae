//! `make run` in a clone where it is already running.

use std::fs::{self, File};
use std::path::Path;
use std::process::Command;

#[test]
fn a_second_run_ends_at_once_and_says_why() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/run");
    fs::create_dir_all(&folder).unwrap();
    let lock = File::create(folder.join("lock")).unwrap();
    // If the user of this clone has it running, that run holds the lock.
    let _ = lock.try_lock();
    let mut second = Command::new(env!("CARGO_BIN_EXE_testbed"));
    let ended = second.arg("run").output().unwrap();
    let said = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(ended.status.code(), Some(1), "{said}");
    let problem = "make run is already running in this clone; end it with Ctrl-C first";
    assert!(said.contains(problem), "{said}");
}
