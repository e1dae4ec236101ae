//! These tests as a Windows program, on a host under Wine: what a user runs on a disposable machine works.

use std::fs;
use std::path::Path;
use std::time::Duration;

use testbed::windows_host::Fleet;

/// More than the tests take on a loaded machine.
const LIMIT: Duration = Duration::from_secs(180);

#[test]
#[ignore = "make test-native builds the program before"]
fn the_tests_run_on_a_windows_machine_and_leave_it_as_it_was() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let fleet = Fleet::new().unwrap();
    let host = fleet.add_host("win-1").unwrap();
    let drive = host.drive_c();
    let there = drive.join("native");
    fs::create_dir(&there).unwrap();
    for file in fs::read_dir(root.join("target/native-tests")).unwrap() {
        let file = file.unwrap();
        fs::copy(file.path(), there.join(file.file_name())).unwrap();
    }
    let run = |tests: &str| {
        let command = format!(r"C:\native\run.cmd {tests} --nocapture");
        let output = host.run_within(&command, LIMIT).unwrap();
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8_lossy(&said).into_owned();
        (output.status.success(), said)
    };

    fs::create_dir_all(drive.join("k")).unwrap();
    let (passed, said) = run("life::a_life");
    assert!(!passed && said.contains("to throw away"), "{said}");

    fs::remove_dir_all(drive.join("k")).unwrap();
    let (passed, said) = run("life:: packed::");
    assert!(
        passed && said.contains("2 passed; 0 failed; 1 ignored"),
        "{said}"
    );
    assert!(!drive.join("k").exists());
    let services = host.run(r"reg query HKLM\SYSTEM\CurrentControlSet\Services");
    let services = String::from_utf8(services.unwrap().stdout).unwrap();
    assert!(services.contains("Services") && !services.contains("csi-proxy"));
    assert!(!services.contains("windows-storage-agent"), "{services}");
}
