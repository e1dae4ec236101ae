//! Archives, given alone, beside other files and in folders.

use std::fs;
use std::path::Path;

use crate::run::{Ended, WINDOWS_NODE, check_in, check_stdin};

const GZIP: &[u8] = b"\x1f\x8b\x08\0\0\0\0\0\0\x03";

/// Runs `check -o json` on this path in a folder with these files; those that end in `gz` are archives.
fn check(files: &[&str], path: &str) -> Ended {
    let folder = tempfile::tempdir().unwrap();
    for file in files {
        let path = folder.path().join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let is_archive = Path::new(file).extension().is_some_and(|it| it == "gz");
        let content = if is_archive {
            GZIP
        } else {
            WINDOWS_NODE.as_bytes()
        };
        fs::write(path, content).unwrap();
    }
    check_in(folder.path(), &["-o", "json", "-f", path])
}

#[test]
fn an_archive_is_no_input_and_is_to_be_unpacked() {
    let says = "this is an archive, which is not read; unpack it, and give what was in it\n";
    for (file, given) in [("mg.tar.gz", "mg.tar.gz"), ("bundle/mg.tar.gz", "bundle")] {
        let ended = check(&[file], given);
        ended.assert_refused(file);
        assert_eq!(ended.stderr, format!("error: {file}: {says}"));
    }
    let ended = check_stdin(GZIP);
    ended.assert_refused("standard input");
    assert!(ended.stderr.contains(says), "{ended:?}");
}

#[test]
fn an_archive_in_a_folder_is_missed_unless_it_holds_no_objects() {
    let missed = "mg/more/shop.tar.gz";
    let ended = check(&["mg/nodes.yaml", missed], "mg");
    ended.assert_unknown(missed);
    let message = ended.json()["verdict"]["message"].to_string();
    let says = format!("{missed}: this is an archive");
    assert!(message.contains(&says), "{message}");
    let log = "mg/namespaces/shop/pods/web-0/web/web/logs/rotated/0.log.20260101-010203.gz";
    let ended = check(&["mg/nodes.yaml", log], "mg");
    ended.assert_status(0);
    assert!(!ended.stderr.contains("archive"), "{ended:?}");
}

#[test]
fn an_archive_beside_an_empty_folder_of_its_name_is_missed() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("nodes.yaml"), WINDOWS_NODE).unwrap();
    fs::write(folder.path().join("mg.tar.gz"), GZIP).unwrap();
    fs::create_dir(folder.path().join("mg")).unwrap();
    let ended = check_in(folder.path(), &["-o", "json", "-f", "."]);
    ended.assert_unknown("mg.tar.gz");
    fs::write(folder.path().join("mg/more.yaml"), WINDOWS_NODE).unwrap();
    let ended = check_in(folder.path(), &["-o", "json", "-f", "."]);
    ended.assert_status(0);
}
