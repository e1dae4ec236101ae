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
fn an_archive_is_no_input_and_what_unpacks_it_is_said() {
    for (file, given) in [("mg.tar.gz", "mg.tar.gz"), ("bundle/mg.tar.gz", "bundle")] {
        let ended = check(&[file], given);
        ended.assert_refused(file);
        let problem = format!(
            "error: {file}: this is an archive, which is not read; unpack it with tar -xf, and give what was in it\n"
        );
        assert_eq!(ended.stderr, problem);
    }
    let ended = check_stdin(GZIP);
    ended.assert_refused("standard input");
    assert!(ended.stderr.contains("unpack it with gunzip"), "{ended:?}");
}

#[test]
fn an_archive_in_a_folder_is_missed_unless_it_holds_no_objects_or_is_unpacked() {
    const LOGS: &str =
        "mg/namespaces/shop/pods/web-0/web/web/logs/rotated/0.log.20260101-010203.gz";
    for (archive, is_missed) in [
        ("mg/pods.json.gz", true),
        ("mg/more/shop.tar.gz", true),
        ("mg/namespaces/shop/core.yaml.gz", true),
        (LOGS, false),
        ("mg/nodes.yaml.gz", false),
        ("mg/network_logs/ovnk_database_store.tar.gz", false),
    ] {
        // The folder has objects, one of them unpacked beside its archive.
        let mut files = vec!["mg/nodes.yaml", archive];
        if !is_missed {
            files.push("mg/cluster-scoped-resources/core/nodes.yaml");
        }
        let ended = check(&files, "mg");
        if is_missed {
            ended.assert_unknown(archive);
            let message = ended.json()["verdict"]["message"].to_string();
            assert!(
                message.contains(&format!("{archive}: this is an archive")),
                "{message}"
            );
        } else {
            ended.assert_status(0);
            assert!(!ended.stderr.contains("archive"), "{ended:?}");
        }
    }
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
