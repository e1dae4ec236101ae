//! The program that reports how a user's Windows behaves where the agent relies on it: its report about Wine is known, and
//! it leaves nothing behind.

use std::path::Path;
use std::time::Duration;
use std::{env, fs};

use protocol::paths::AGENT_LOG_DIR;
use serde_json::Value;
use testbed::windows_host::Fleet;

use crate::programs::program;

/// More than the program's own limit, which is two minutes on Windows.
const LIMIT: Duration = Duration::from_secs(180);
/// The expected report about Wine; `UPDATE_CONFORMANCE=1` rewrites it.
const BASELINE: &str = "../docs/conformance/wine.json";

#[test]
fn it_says_of_wine_what_is_known_and_leaves_nothing_behind() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let program = program("windows-storage-verify.exe");
    let fleet = Fleet::new().unwrap();
    let host = fleet.add_host("win-1").unwrap();
    let drive = host.drive_c();
    fs::copy(program, drive.join("verify.exe")).unwrap();
    let output = host.run_within(r"C:\verify.exe", LIMIT).unwrap();
    let printed = String::from_utf8(output.stdout).unwrap();
    assert!(printed.is_ascii());
    let mut lines = printed
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    let described = lines.next().unwrap();
    for key in ["build", "codePages", "locale", "defaultShell", "privileges"] {
        assert!(described.get(key).is_some(), "{described}");
    }
    // The duration differs each time.
    let lines = lines.map(|mut line| {
        let took = line.as_object_mut().unwrap().remove("milliseconds");
        assert!(took.is_some_and(|took| took.is_u64()), "{line}");
        line
    });
    let lines = lines.map(|line| line.to_string() + "\n");
    let seen: String = lines.collect();
    let baseline = root.join(BASELINE);
    if env::var_os("UPDATE_CONFORMANCE").is_some() {
        fs::write(&baseline, &seen).unwrap();
    }
    let known = fs::read_to_string(baseline).unwrap_or_default();
    assert_eq!(seen, known, "{}", String::from_utf8_lossy(&output.stderr));
    let fits = !known.contains("\"fits\":false");
    assert_eq!(output.status.success(), fits);

    assert!(!drive.join("windows/windows-storage-verify").exists());
    let logs = AGENT_LOG_DIR.trim_start_matches(r"C:\").replace('\\', "/");
    assert!(!drive.join(logs).exists());
    let services = host
        .run(r"reg query HKLM\SYSTEM\CurrentControlSet\Services")
        .unwrap();
    let services = String::from_utf8_lossy(&services.stdout).into_owned();
    assert!(services.contains("Services") && !services.contains("windows-storage-verify"));
}
