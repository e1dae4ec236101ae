//! The process protects its memory, which contains an SSH key, from other processes and from core dumps.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

const BINARY: &str = env!("CARGO_BIN_EXE_windows-storage-operator");
/// `nobody`.
const SOMEBODY: u32 = 65_534;
/// Raises the soft limit for core dumps to the hard limit.
const DUMPS_WANTED: &str = "ulimit -S -c \"$(ulimit -H -c)\"";

/// Returns a command that waits for its standard input, started by a shell that allows core dumps.
fn waiting(binary: &Path, folder: &Path) -> Command {
    let mut command = Command::new("sh");
    command
        .arg("-c")
        .arg(format!("{DUMPS_WANTED}; exec \"$0\" check -f -"))
        .arg(binary)
        .current_dir(folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command
}

/// Waits until the process has set its own limits.
fn begun(child: &Child) {
    let deadline = Instant::now() + Duration::from_secs(60);
    let limits = format!("/proc/{}/limits", child.id());
    loop {
        let text = fs::read_to_string(&limits).unwrap();
        let line = text
            .lines()
            .find(|line| line.starts_with("Max core file size"));
        let limit: Vec<&str> = line.unwrap().split_whitespace().skip(4).take(2).collect();
        if limit == ["0", "0"] {
            return;
        }
        assert!(Instant::now() < deadline, "dumps are allowed: {limit:?}");
        sleep(Duration::from_millis(20));
    }
}

fn aborted(mut child: Child) -> ExitStatus {
    let sent = Command::new("kill")
        .args(["-s", "ABRT", &child.id().to_string()])
        .status();
    assert!(sent.unwrap().success());
    child.wait().unwrap()
}

#[test]
fn a_crash_leaves_no_dump() {
    let folder = tempfile::tempdir().unwrap();
    let files = || fs::read_dir(folder.path()).unwrap().count();
    let before = files();
    let child = waiting(Path::new(BINARY), folder.path()).spawn().unwrap();
    begun(&child);
    let status = aborted(child);
    assert_eq!(status.signal(), Some(6), "{status}");
    assert!(!status.core_dumped(), "{status}");
    assert_eq!(files(), before);
}

#[test]
fn nobody_of_the_same_user_reads_its_memory() {
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let own = fs::metadata("/proc/self").unwrap().uid();
    let user = if own == 0 { SOMEBODY } else { own };
    // The user may not be allowed to enter the folder of the binary.
    let copy = folder.path().join("operator");
    fs::copy(BINARY, &copy).unwrap();
    let mut command = waiting(&copy, folder.path());
    if own == 0 {
        command.uid(user).gid(user);
    }
    let mut child = command.spawn().unwrap();
    begun(&child);
    let process = format!("/proc/{}", child.id());
    let status = fs::read_to_string(format!("{process}/status")).unwrap();
    assert!(status.contains(&format!("Uid:\t{user}\t")), "{status}");
    for file in ["mem", "environ", "maps"] {
        let owner = fs::metadata(format!("{process}/{file}")).unwrap().uid();
        assert_eq!(owner, 0, "{file} is its user's");
    }
    if own != 0 {
        let opened = fs::File::open(format!("{process}/mem"));
        assert_eq!(opened.unwrap_err().kind(), ErrorKind::PermissionDenied);
    }
    child.kill().unwrap();
    child.wait().unwrap();
}
