//! Redacts logs, line by line, in bounded memory.

use std::io::{self, Write};

use super::REDACTED;
use super::text::{key_at, redacted};

/// The rest of a longer line is left out.
const LONGEST: usize = 64 * 1024;
/// How the last line of PEM begins.
const PEM_END: &str = "-----END ";

/// Writes lines to `file` without what may be secret. The last line needs [`Lines::finish`].
pub struct Lines<W> {
    file: W,
    line: Vec<u8>,
    /// Whether the rest of the line is left out.
    is_long: bool,
    /// Whether a private key has begun in a line before.
    in_key: bool,
    /// How many bytes of the log are missing before what is written.
    missing: u64,
}

impl<W: Write> Lines<W> {
    /// Redacts what is written to that file.
    pub fn new(file: W) -> Self {
        Self {
            file,
            line: Vec::new(),
            is_long: false,
            in_key: false,
            missing: 0,
        }
    }

    /// Says of a log that begins so many bytes before what is written, and leaves out the line that is there in part alone.
    pub fn begin_after(&mut self, missing: u64) {
        self.missing = missing;
    }

    /// Writes the last line, and flushes.
    pub fn finish(mut self) -> io::Result<()> {
        self.end_line(b"")?;
        self.file.flush()
    }

    fn end_line(&mut self, end: &[u8]) -> io::Result<()> {
        let line = std::mem::take(&mut self.line);
        let is_long = std::mem::take(&mut self.is_long);
        let missing = std::mem::take(&mut self.missing);
        let text = String::from_utf8_lossy(&line);
        let begins_key = key_at(&text).is_some_and(|at| !text[at..].contains(PEM_END));
        if missing > 0 {
            self.in_key = begins_key;
            let what = format!("{missing} bytes of this file, and the rest of that line,");
            return writeln!(self.file, "[must-gather: the first {what} were left out]");
        }
        if self.in_key {
            let is_last = text.contains(PEM_END);
            self.in_key = !is_last && is_of_key(&text);
            if is_last || self.in_key {
                return Ok(());
            }
        }
        self.in_key = begins_key;
        match redacted(&text) {
            Some(redacted) => self.file.write_all(redacted.as_bytes())?,
            None => self.file.write_all(&line)?,
        }
        if is_long {
            self.file.write_all(REDACTED.as_bytes())?;
        }
        self.file.write_all(end)
    }
}

impl<W: Write> Write for Lines<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            let content = piece.strip_suffix(b"\n").unwrap_or(piece);
            let room = LONGEST.saturating_sub(self.line.len());
            self.line
                .extend_from_slice(&content[..content.len().min(room)]);
            self.is_long |= content.len() > room;
            if content.len() < piece.len() {
                self.end_line(b"\n")?;
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// Whether a line can be inside a key as PEM: data, or a header and its value.
fn is_of_key(line: &str) -> bool {
    !line.starts_with('{') && line.split_whitespace().count() <= 2
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Redacts a text that comes in pieces of that size.
    fn through(text: &[u8], size: usize) -> String {
        let mut out = Vec::new();
        let mut lines = Lines::new(&mut out);
        for piece in text.chunks(size) {
            lines.write_all(piece).unwrap();
        }
        lines.finish().unwrap();
        String::from_utf8_lossy(&out).into_owned()
    }

    #[test]
    fn the_end_of_a_log_begins_with_a_whole_line_and_says_what_is_missing() {
        let mut out = Vec::new();
        let mut lines = Lines::new(&mut out);
        lines.begin_after(10);
        let cut =
            b"broken -----BEGIN PRIVATE KEY-----\nMIIEhunter2\n-----END PRIVATE KEY-----\nwhole\n";
        lines.write_all(cut).unwrap();
        lines.finish().unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(text.contains("the first 10 bytes"), "{text}");
        assert!(text.ends_with("left out]\nwhole\n"), "{text}");
    }

    #[test]
    fn from_a_secret_on_the_rest_of_a_line_is_left_out() {
        // The sign ^ stands where the secret begins.
        for marked in [
            "I1126 a.go:7] Request: Map with password=^hunter2 now",
            r#"Request: username:"u" password:^"hunter 2""#,
            "{Username:u Password:^hunter2 Path:x}",
            "--set=auth.password=^hunter2",
            "form[password]=^hunter2",
            "login --password,^hunter2 now",
            "passphrase: ^hunter2",
            "note: the password = ^hunter2",
            "password: ^hunter2, user: bob",
            "{Password: ^Hunter two, Path: x}",
            "Authorization: ^SharedKey account:hunter2=",
            "sent SharedKey ^account:hunter2=",
            "accountKey: ^'hunter 2' # note",
            "Server=s;Pwd = ^hunter2;x",
            r#"run: login --password "^hunter 2" now"#,
            "New-SmbGlobalMapping -Password ^hunter2",
            "cmdkey /password:^hunter2",
            "Authorization: ^Bearer hunter2",
            "sent Bearer ^hunter2",
            "GET https://a.example/b?sv=1&sig=^hunter2%3D HTTP/1.1",
            "https://a.example, then https://^u:hunter2@a.example/b",
            "got ^eyJhbGciOiJ.eyJpc3MiOi.c2lnbmF0dXJl, gone",
            "id ^AKIAIOSFODNN7EXAMPLE used",
            // Beside letters that are not ASCII.
            "令牌^eyJhbGciOiJ.eyJpc3MiOi.c2lnbmF0dXJl",
            "访问^AKIAIOSFODNN7EXAMPLE失败",
            "ssh-secret-host-key: ^hunter2",
            r"key ^-----BEGIN PRIVATE KEY-----\nhunter2\n-----END PRIVATE KEY-----\n",
        ] {
            let (kept, _) = marked.split_once('^').unwrap();
            let text = format!("before\n{}\nafter", marked.replace('^', ""));
            for size in [1, 7, 1000] {
                let expected = format!("before\n{kept}{REDACTED}\nafter");
                assert_eq!(through(text.as_bytes(), size), expected);
            }
        }
    }

    #[test]
    fn of_an_object_in_json_the_secret_fields_are_left_out() {
        for (line, expected) in [
            (
                r#"{"level":"INFO","token":"hunter2"}"#,
                r#"{"level":"INFO","token":"(left out)"}"#,
            ),
            (
                r#"{"fields":{"message":"login --password hunter2"},"n":1}"#,
                r#"{"fields":{"message":"login --password (left out)"},"n":1}"#,
            ),
            (
                r#"{"a":["x",{"apiKey":["hunter2"]}]}"#,
                r#"{"a":["x",{"apiKey":"(left out)"}]}"#,
            ),
        ] {
            assert_eq!(through(line.as_bytes(), 9), expected);
        }
    }

    #[test]
    fn a_line_without_a_secret_stays_byte_for_byte() {
        for line in [
            &b"I1126 20:40:56.000001    1234 main.go:60] Version: v1.3.0\r\n"[..],
            b"Request: PathExists with path=\"C:\\\\var\\\\lib\"\n",
            b"Secret cloud-private-key: it has no key private-key.pem\n",
            b"MountVolume.SetUp failed for volume \"a\" : secret \"b\" not found\n",
            b"token: no such file or directory\n",
            b"host key is pinned: ssh-ed25519 AAAAC3Nz\n",
            b"GET https://a.example:443/b@c?sv=1\n",
            b"{\"z\": 1,  \"key\": \"shop/web\"}\n",
            b"-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n",
            b"\xff\xfe broken\n\n\n",
            b"no end",
        ] {
            assert_eq!(through(line, 5), String::from_utf8_lossy(line));
        }
    }

    #[test]
    fn a_private_key_is_left_out_to_its_end_or_to_what_is_no_key() {
        let begin =
            "key:\n  -----BEGIN RSA PRIVATE KEY-----\r\nProc-Type: 4,ENCRYPTED\n\n  hunter2\n";
        let kept = format!("key:\n  {REDACTED}\n");
        for (rest, after) in [
            ("  -----END RSA PRIVATE KEY-----\nafter\n", "after\n"),
            (
                "I1126 20:40:56 main.go:60] after\n",
                "I1126 20:40:56 main.go:60] after\n",
            ),
            ("{\"message\":\"after\"}\n", "{\"message\":\"after\"}\n"),
            ("hunter2", ""),
        ] {
            let text = format!("{begin}{rest}");
            assert_eq!(through(text.as_bytes(), 11), format!("{kept}{after}"));
        }
    }

    #[test]
    fn of_a_line_too_long_to_keep_the_end_is_left_out() {
        let text = format!("{} password=hunter2\nafter\n", "x".repeat(LONGEST));
        let expected = format!("{}{REDACTED}\nafter\n", "x".repeat(LONGEST));
        assert!(through(text.as_bytes(), 4096) == expected);
    }
}
