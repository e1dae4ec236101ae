use super::*;

const A: &str = "C:/windows/a";
const B: &str = r"C:\WINDOWS\b";

fn disk() -> Disk {
    let mut disk = Disk::default();
    disk.put(A, File::new(b"a"));
    disk.put(B, File::new(b"b"));
    disk
}

fn content(disk: &Disk, path: &str) -> Option<Vec<u8>> {
    disk.file(path).map(|file| file.content().to_vec())
}

#[test]
fn all_spellings_name_the_same_file() {
    for path in [A, "/C:/windows/a", r"C:\Windows\A", r"\c:\windows\a"] {
        assert!(disk().file(path).is_some(), "{path}");
    }
}

#[test]
fn an_upload_is_read_removed_and_run_by_nobody_before_it_is_closed() {
    for profile in Profile::ALL {
        let mut disk = disk();
        let upload = disk.open(A, Access::sftp_write(profile)).unwrap();
        assert_eq!(disk.open(A, Access::SFTP_READ), Err(Refusal::Shared));
        assert_eq!(disk.read_locally(A).err(), Some(Refusal::Shared));
        assert_eq!(disk.remove(A), Err(Refusal::Denied));
        let second = disk.open(A, Access::sftp_write(profile));
        assert_eq!(second.is_ok(), profile != Profile::V7_7);
        assert!(disk.close(upload) && !disk.close(upload));
        if let Ok(second) = second {
            disk.close(second);
        }
        assert!(disk.read_locally(A).is_ok());
        assert_eq!(disk.remove(A), Ok(()));
    }
}

#[test]
fn replacing_loses_the_target_before_8_6_where_the_source_is_in_use() {
    for profile in Profile::ALL {
        let mut disk = disk();
        disk.replace(A, B, profile).unwrap();
        assert_eq!(content(&disk, B), Some(b"a".to_vec()));
        assert_eq!(content(&disk, A), None);

        let mut disk = self::disk();
        disk.open(A, Access::SFTP_READ).unwrap();
        assert_eq!(disk.replace(A, B, profile), Err(Refusal::Shared));
        let expected = profile.replaces.then(|| b"b".to_vec());
        assert_eq!(content(&disk, B), expected, "{}", profile.version);

        let mut disk = self::disk();
        disk.open(B, Access::SFTP_READ).unwrap();
        let refused = disk.replace(A, B, profile).unwrap_err();
        let denied = refused == Refusal::Denied;
        assert!(denied || refused == Refusal::Exists);
        assert_eq!(denied, profile.replaces);
        assert_eq!(content(&disk, B), Some(b"b".to_vec()));
    }
}

#[test]
fn a_plain_rename_replaces_nothing_and_leaves_both_names_of_what_is_in_use() {
    let mut disk = disk();
    assert_eq!(disk.rename(A, B), Err(Refusal::Exists));
    disk.open(A, Access::SFTP_READ).unwrap();
    assert_eq!(disk.rename(A, "C:/windows/c"), Err(Refusal::Denied));
    assert!(disk.file(A).is_some() && disk.file("C:/windows/c").is_some());
}
