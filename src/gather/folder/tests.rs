//! Tests of the folder on disk: complete under its name, or removed.

use super::*;

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect()
}

fn refused(name: &Path) -> String {
    Folder::create(name).unwrap_err().to_string()
}

#[test]
fn it_has_its_name_when_it_is_kept_and_is_gone_otherwise() {
    let outer = tempfile::tempdir().unwrap();
    let name = outer.path().join("made/too/dest");
    let folder = Folder::create(&name).unwrap();
    write(folder.path(), "a/b.txt", b"x").unwrap();
    assert!(matches!(&names(&name)[..], [only] if only.ends_with(PARTIAL)));
    assert_eq!(folder.keep().unwrap(), name);
    assert_eq!(fs::read(name.join("a/b.txt")).unwrap(), b"x");
    assert_eq!(names(&outer.path().join("made/too")), ["dest"]);

    let other = outer.path().join("other");
    let folder = Folder::create(&other).unwrap();
    write(folder.path(), "a/b.txt", b"x").unwrap();
    let partial = folder.path().to_owned();
    drop(folder);
    assert!(!partial.exists() && !other.exists());
    assert!(
        write(&partial, "a/b.txt", b"x").is_err(),
        "what comes late brings it back"
    );
    assert_eq!(names(outer.path()), ["made"]);
}

#[test]
fn an_empty_folder_is_filled_in_its_place_and_another_is_refused() {
    let mounted = tempfile::tempdir().unwrap();
    let folder = Folder::create(mounted.path()).unwrap();
    write(folder.path(), "a/b.txt", b"x").unwrap();
    write(folder.path(), "c.txt", b"x").unwrap();
    drop(folder);
    assert!(names(mounted.path()).is_empty());
    let folder = Folder::create(mounted.path()).unwrap();
    write(folder.path(), "a/b.txt", b"x").unwrap();
    write(folder.path(), "c.txt", b"x").unwrap();
    folder.keep().unwrap();
    let mut there = names(mounted.path());
    there.sort();
    assert_eq!(there, ["a", "c.txt"]);
    assert!(refused(mounted.path()).contains("is there and not empty"));
    assert!(refused(&mounted.path().join("c.txt")).contains("Not a directory"));
    assert_eq!(names(mounted.path()).len(), 2);
}

#[test]
fn folders_that_were_made_for_it_go_with_it() {
    let outer = tempfile::tempdir().unwrap();
    let name = outer.path().join("a/b/c");
    drop(Folder::create(&name).unwrap());
    assert!(names(outer.path()).is_empty());
    // Files that another program created meanwhile are kept.
    let folder = Folder::create(&name).unwrap();
    fs::write(outer.path().join("a/x"), b"x").unwrap();
    drop(folder);
    assert_eq!(names(&outer.path().join("a")), ["x"]);
    // Parent folders are removed even if the folder itself cannot be created.
    let long = format!("new/{}/c", "x".repeat(300));
    let error = Folder::create(&outer.path().join(long)).unwrap_err();
    assert!(matches!(error, FolderError::Io(..)), "{error}");
    assert_eq!(names(outer.path()), ["a"]);
}

#[test]
fn a_link_to_nothing_is_refused_before_anything_is_gathered() {
    let outer = tempfile::tempdir().unwrap();
    let link = outer.path().join("link");
    std::os::unix::fs::symlink("nothing", &link).unwrap();
    for name in [link.clone(), link.join("")] {
        assert!(refused(&name).starts_with("cannot make"));
    }
    assert_eq!(names(outer.path()), ["link"]);
    // A link to a folder works like the folder.
    fs::create_dir(outer.path().join("nothing")).unwrap();
    Folder::create(&link).unwrap().keep().unwrap();
}

#[test]
fn only_its_owner_may_look_into_it() {
    use std::os::unix::fs::PermissionsExt;
    let outer = tempfile::tempdir().unwrap();
    let folder = Folder::create(&outer.path().join("dest")).unwrap();
    write(folder.path(), "a/b.txt", b"x").unwrap();
    for (path, mode) in [("", 0o700), ("a", 0o700), ("a/b.txt", 0o600)] {
        let found = fs::metadata(folder.path().join(path)).unwrap();
        assert_eq!(found.permissions().mode() & 0o777, mode, "{path}");
    }
}

#[test]
fn names_from_elsewhere_stay_within() {
    for name in ["csi-proxy.exe.WIN-1.log.INFO.2026", "agent.log"] {
        assert_eq!([file_name(name), log_name(name)], [name, name]);
    }
    for (name, safe) in [
        ("../../etc/passwd", "_.._.._etc_passwd."),
        ("a\u{1b}[2J b", "a__2J_b."),
        ("", "_."),
    ] {
        let hash = file_name(name).strip_prefix(safe).map(str::len);
        assert_eq!(hash, Some(12), "{name:?}");
    }
    assert_eq!(file_name(&"x".repeat(500)).len(), 133);
    let trap = log_name("trap.YAML");
    assert_eq!(trap.rsplit('.').next(), Some("txt"), "{trap}");
}

#[test]
fn two_names_never_become_one() {
    let long = "x".repeat(120);
    let (one, other) = (format!("{long}1"), format!("{long}2"));
    for pair in [
        ["a b.log", "a_b.log"],
        ["trap.yaml", "trap.yaml.txt"],
        ["\u{436}.log", "\u{434}.log"],
        [&one, &other],
        [".a", "_.a"],
        ["a b.json", "a_b.json"],
    ] {
        let names = pair.map(log_name);
        assert_ne!(names[0], names[1]);
        assert_eq!(names, pair.map(log_name), "not the same twice");
        for name in names {
            let end = name.rsplit('.').next().unwrap();
            assert!(!["yaml", "json"].contains(&end), "{name}");
        }
    }
}

#[test]
fn of_two_files_with_one_name_the_later_one_is_kept() {
    let outer = tempfile::tempdir().unwrap();
    for content in [&b"long"[..], b"x"] {
        write(outer.path(), "a/b", content).unwrap();
    }
    assert_eq!(fs::read(outer.path().join("a/b")).unwrap(), b"x");
}

#[test]
fn what_is_put_in_its_place_is_all_of_it() {
    let mounted = tempfile::tempdir().unwrap();
    let folder = Folder::create(mounted.path()).unwrap();
    for number in 0..2_000 {
        write(folder.path(), &format!("{number}.txt"), b"x").unwrap();
    }
    folder.keep().unwrap();
    assert_eq!(names(mounted.path()).len(), 2_000);
}

#[test]
fn what_is_there_is_named() {
    let mounted = tempfile::tempdir().unwrap();
    for name in ["d", "c", "b\n", "a"] {
        fs::write(mounted.path().join(name), b"x").unwrap();
    }
    assert!(refused(mounted.path()).contains("it has a, b\\u{a}, c, d;"));
}
