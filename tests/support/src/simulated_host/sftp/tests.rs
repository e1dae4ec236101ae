use super::super::file::File;
use super::*;

const A: &str = "C:/windows/a";
const WRITE_FLAGS: u32 = 2 | 8 | 16;

/// Returns a server's answer to a request: its kind and, for a status, the code.
fn ask(sftp: &mut Sftp, disk: &mut Disk, kind: u8, parts: &[&[u8]], number: Option<u32>) -> Answer {
    let mut packet = vec![kind, 0, 0, 0, 7];
    for part in parts {
        put_text(&mut packet, part);
    }
    packet.extend(number.unwrap_or_default().to_be_bytes());
    let answer = sftp.carry_out(disk, &Packet(packet));
    let (kind, rest) = (answer[4], &answer[9..]);
    match kind {
        STATUS => Answer::Status(number_of(rest)),
        _ => Answer::Other(kind, rest.to_vec()),
    }
}

fn number_of(mut rest: &[u8]) -> u32 {
    number(&mut rest).unwrap()
}

#[derive(Debug, PartialEq, Eq)]
enum Answer {
    Status(u32),
    Other(u8, Vec<u8>),
}

#[test]
fn refusals_have_the_codes_of_windows() {
    for profile in Profile::ALL {
        let mut disk = Disk::default();
        disk.put(A, File::new(b"x"));
        disk.put("C:/windows/b", File::new(b"x"));
        disk.deny("C:/programdata", true);
        let mut server = Sftp::new(profile);
        let mut status = |kind, parts: &[&str], number| {
            let parts: Vec<&[u8]> = parts.iter().map(|part| part.as_bytes()).collect();
            ask(&mut server, &mut disk, kind, &parts, number)
        };
        let open = status(OPEN, &[A], Some(WRITE_FLAGS));
        assert!(matches!(open, Answer::Other(HANDLE, _)), "{open:?}");
        let long = format!("C:/windows/{}", "x".repeat(260));
        let is_long = if profile == Profile::V7_7 {
            BAD_MESSAGE
        } else {
            NO_SUCH_FILE
        };
        for (kind, parts, number, expected) in [
            // A sharing violation is a failure, except for a removal.
            (OPEN, &[A][..], Some(1), FAILURE),
            (REMOVE, &[A], None, PERMISSION_DENIED),
            (STAT, &["C:/nothing"], None, NO_SUCH_FILE),
            (OPEN, &["C:/windows/a?"], Some(WRITE_FLAGS), NO_SUCH_FILE),
            (OPEN, &["C:/no/such"], Some(WRITE_FLAGS), NO_SUCH_FILE),
            (
                OPEN,
                &["C:/programdata/x"],
                Some(WRITE_FLAGS),
                PERMISSION_DENIED,
            ),
            (MKDIR, &["C:/windows"], None, FAILURE),
            (RMDIR, &["C:/windows"], None, FAILURE),
            (RENAME, &["C:/windows/b", A], None, FAILURE),
            (STAT, &[&long], None, is_long),
        ] {
            let found = status(kind, parts, number);
            let place = format!("{} {kind} {parts:?}", profile.version);
            assert_eq!(found, Answer::Status(expected), "{place}");
        }
        let found = status(EXTENDED, &[POSIX_RENAME, "C:/windows/b", A], None);
        let in_use = if profile.replaces {
            PERMISSION_DENIED
        } else {
            FAILURE
        };
        assert_eq!(found, Answer::Status(in_use), "{}", profile.version);
    }
}

#[test]
fn a_full_disk_shows_at_the_write_and_not_at_the_close() {
    let mut disk = Disk::default();
    let mut server = Sftp::new(Profile::V9_8);
    disk.free = Some(0);
    let open = ask(
        &mut server,
        &mut disk,
        OPEN,
        &[A.as_bytes()],
        Some(WRITE_FLAGS),
    );
    assert!(matches!(open, Answer::Other(HANDLE, _)), "{open:?}");
    let handle = 1_u32.to_be_bytes();
    let mut write = vec![WRITE, 0, 0, 0, 7];
    put_text(&mut write, &handle);
    write.extend(0_u64.to_be_bytes());
    put_text(&mut write, b"x");
    let answer = server.carry_out(&mut disk, &Packet(write));
    assert_eq!((answer[4], number_of(&answer[9..])), (STATUS, FAILURE));
    let closed = ask(&mut server, &mut disk, CLOSE, &[&handle], None);
    assert_eq!(closed, Answer::Status(OK));
}

#[test]
fn a_read_gives_100_kib_though_255_are_promised_since_8_6() {
    for profile in Profile::ALL {
        let mut disk = Disk::default();
        disk.put(A, File::of_lines(300 << 10));
        let mut server = Sftp::new(profile);
        let limits = ask(&mut server, &mut disk, EXTENDED, &[LIMITS.as_bytes()], None);
        assert_eq!(
            limits == Answer::Status(UNSUPPORTED),
            !profile.tells_limits,
            "{limits:?}"
        );
        ask(&mut server, &mut disk, OPEN, &[A.as_bytes()], Some(1));
        let mut read = vec![READ, 0, 0, 0, 7];
        put_text(&mut read, &1_u32.to_be_bytes());
        read.extend(0_u64.to_be_bytes());
        read.extend((255_u32 << 10).to_be_bytes());
        let answer = server.carry_out(&mut disk, &Packet(read));
        assert_eq!((answer[4], number_of(&answer[9..])), (DATA, 100 << 10));
    }
}
