//! Validates a request before the node is inspected.

use crate::command::same_path;
use crate::flags::check_flags;
use crate::paths::INCOMING_DIR;
use crate::{Failure, FailureCategory, Request};

/// The longest stop or start timeout that a request may set.
const LONGEST_TIMEOUT_SECONDS: u32 = 3600;
const LONGEST_TEXT: usize = 256;

/// Returns a failure with a readable message if the request is invalid.
pub fn validate(request: &Request) -> Result<(), Failure> {
    require(is_word(&request.id), || {
        "the request's id must be 1 to 256 letters, digits, '-', '_', '.' or ':'".to_owned()
    })?;
    require(request.attempt.len() <= LONGEST_TEXT, || {
        format!("the attempt must have at most {LONGEST_TEXT} bytes")
    })?;
    for (what, seconds) in [
        ("stopTimeoutSeconds", request.stop_timeout_seconds),
        ("startTimeoutSeconds", request.start_timeout_seconds),
    ] {
        require((1..=LONGEST_TIMEOUT_SECONDS).contains(&seconds), || {
            format!("{what} must be 1 to {LONGEST_TIMEOUT_SECONDS}, not {seconds}")
        })?;
    }
    check_flags(&request.flags).map_err(|why| invalid(why.to_string()))?;
    for pipe in &request.pipes {
        require(is_word(pipe), || format!("'{pipe}' is no pipe name"))?;
    }
    check_program(request)
}

/// Checks the location of a request file. The agent's command and its service both call this.
pub fn validate_request_path(path: &str) -> Result<(), Failure> {
    let is_request = is_inside(path, INCOMING_DIR) && path.to_lowercase().ends_with(".json");
    require(is_request, || {
        format!(r"the request must be a file {INCOMING_DIR}\NAME.json, not '{path}'")
    })
}

fn check_program(request: &Request) -> Result<(), Failure> {
    let is_digit = |digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f');
    let is_sha256 = request.sha256.len() == 64 && request.sha256.bytes().all(is_digit);
    require(is_sha256, || {
        "the program's sha256 must be 64 lower-case hexadecimal digits".to_owned()
    })?;
    let (upload, packed) = (request.upload.as_ref(), request.packed.as_ref());
    let packed = packed.map(|packed| &packed.path);
    for path in upload.into_iter().chain(packed) {
        require(is_inside(path, INCOMING_DIR), || {
            format!("uploads belong in {INCOMING_DIR}: '{path}'")
        })?;
    }
    let unpacks =
        packed.is_none_or(|packed| upload.is_some_and(|upload| !same_path(upload, packed)));
    require(unpacks, || {
        "the packed program needs another upload to be unpacked to".to_owned()
    })
}

fn require(holds: bool, message: impl FnOnce() -> String) -> Result<(), Failure> {
    if holds {
        Ok(())
    } else {
        Err(invalid(message()))
    }
}

fn invalid(message: String) -> Failure {
    FailureCategory::InvalidRequest.failure(message)
}

fn is_word(text: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:".contains(&byte);
    (1..=LONGEST_TEXT).contains(&text.len()) && text.bytes().all(fits)
}

/// Whether a path leads into a folder on drive C, and contains nothing that Windows would reinterpret.
fn is_inside(path: &str, folder: &str) -> bool {
    let path = path.to_lowercase();
    let beginning = format!(r"{}\", folder.to_lowercase());
    path.len() < 240
        && path.strip_prefix(&beginning).is_some_and(|rest| {
            // Windows drops dots and spaces at the end of a part. A colon would name an alternate data stream.
            rest.split('\\').all(|part| {
                !part.is_empty()
                    && !part.ends_with(['.', ' '])
                    && !part.contains(['/', ':', '*', '?', '"', '<', '>', '|'])
                    && !part.contains(char::is_control)
            })
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Packed;

    fn request() -> Request {
        Request {
            id: "request-1".into(),
            attempt: String::new(),
            sha256: "b".repeat(64),
            upload: Some(r"C:\k\windows-storage\incoming\new".into()),
            packed: None,
            flags: vec!["-windows-service".into(), "-v=2".into()],
            pipes: vec!["csi-proxy-disk-v1".into()],
            stop_timeout_seconds: 30,
            start_timeout_seconds: 30,
            replace_foreign: false,
        }
    }

    fn is_good(change: impl FnOnce(&mut Request)) -> bool {
        let mut request = request();
        change(&mut request);
        let result = validate(&request);
        if let Err(failure) = &result {
            assert_eq!(failure.category, FailureCategory::InvalidRequest);
        }
        result.is_ok()
    }

    #[test]
    fn takes_what_the_operator_sends() {
        assert!(is_good(|_| {}));
        assert_eq!(
            request().command(),
            r"C:\k\csi-proxy.exe -windows-service -v=2"
        );
    }

    #[test]
    fn refuses_paths_that_lead_elsewhere() {
        let long = format!(r"{INCOMING_DIR}\{}.exe", "x".repeat(220));
        for path in [
            long.as_str(),
            r"C:\k\windows-storage\incoming\..\x.exe",
            r"C:\k\windows-storage\incoming",
            r"C:\k\windows-storage\incoming\",
            r"D:\k\windows-storage\incoming\a.exe",
            "C:/k/windows-storage/incoming/a.exe",
            r"\\host\k\a.exe",
            r"C:\k\windows-storage\incoming\a.exe:s",
            r"C:\k\windows-storage\incoming\a.exe ",
            r"C:\k\windows-storage\journal.json",
            r"C:\temp\x",
        ] {
            assert!(!is_good(|it| it.upload = Some(path.into())), "{path}");
        }
    }

    #[test]
    fn refuses_packed_files_that_it_cannot_unpack() {
        const HERE: &str = r"C:\k\windows-storage\incoming\a.zst";
        let packed = |path: &str| {
            Some(Packed {
                path: path.into(),
                unpacked_size: 1,
            })
        };
        assert!(is_good(|it| it.packed = packed(HERE)));
        assert!(!is_good(|it| it.packed = packed(r"C:\temp\a.zst")));
        assert!(!is_good(|it| {
            it.packed = packed(HERE);
            it.upload = None;
        }));
        assert!(!is_good(|it| {
            it.packed = packed(HERE);
            it.upload = Some(HERE.to_uppercase().replacen("C:", "c:", 1));
        }));
    }

    #[test]
    fn refuses_what_is_malformed() {
        let cases: [fn(&mut Request); 5] = [
            |request| request.id = String::new(),
            |request| request.sha256 = "A".repeat(64),
            |request| request.flags.push(r"C:\other.exe".into()),
            |request| request.pipes.push("a b".into()),
            |request| request.start_timeout_seconds = 0,
        ];
        for case in cases {
            assert!(!is_good(case));
        }
    }

    #[test]
    fn request_paths() {
        assert!(validate_request_path(r"C:\k\windows-storage\incoming\a.json").is_ok());
        for path in [
            r"C:\k\a.json",
            r"C:\k\windows-storage\incoming\..\a.json",
            r"C:\k\windows-storage\incoming\a.exe",
            "a.json",
        ] {
            assert!(validate_request_path(path).is_err(), "{path}");
        }
    }
}
