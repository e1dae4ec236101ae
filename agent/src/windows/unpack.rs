//! Unpacks the program that SFTP uploads for a request, once it has arrived, before the service gets the request.

use std::fs::File;
use std::io::ErrorKind;
use std::path::Path;
use std::thread::sleep;
use std::time::Instant;

use protocol::validate::validate;
use protocol::{Failure, FailureCategory, Packed, Request};
use windows_storage_agent::errors::{category, named};
use windows_storage_agent::unpack::{
    Announced, Arrival, PATIENCE, UnpackError, open_complete, pause, unpack,
};

use super::{files, store};

/// Creates the upload of a request from its packed file, if it has one. On failure nothing is left behind.
pub fn unpack_program(request: &str, arrived_by: Instant) -> Result<(), Failure> {
    // Without a request, the service reports what is wrong with it.
    let Some(request) = arrived(request, arrived_by) else {
        return Ok(());
    };
    let (Some(packed), Some(upload)) = (&request.packed, &request.upload) else {
        return Ok(());
    };
    // Before any path of the request is used.
    validate(&request)?;
    let announced = Announced {
        size: packed.unpacked_size,
        sha256: &request.sha256,
    };
    let done = unpack_to(packed, upload, announced, arrived_by);
    // The packed file is no longer needed either way. If the SFTP server still has it open, it stays for the service to
    // remove.
    let _ = std::fs::remove_file(&packed.path);
    done
}

/// Returns the request once it is there and complete; `None` if it does not arrive in time.
fn arrived(path: &str, by: Instant) -> Option<Request> {
    let begin = Instant::now();
    let by = by.min(begin + PATIENCE);
    loop {
        match store::load(path) {
            Ok(Some(request)) => return Some(request),
            _ if Instant::now() >= by => return None,
            _ => sleep(pause(begin)),
        }
    }
}

/// Waits for the packed file, then unpacks it to a temporary file that becomes the upload once it is complete. Each process
/// has its own, because a command whose connection was lost may still be unpacking.
fn unpack_to(
    packed: &Packed,
    upload: &str,
    announced: Announced<'_>,
    arrived_by: Instant,
) -> Result<(), Failure> {
    let arrival = Arrival::new(packed.size, Instant::now(), arrived_by);
    let source = open_complete(Path::new(&packed.path), arrival)
        .map_err(|error| refusal(&packed.path, &UnpackError::Read(error)))?;
    let beside = format!("{upload}.{}", std::process::id());
    let done = File::create(&beside)
        .map_err(UnpackError::Write)
        .and_then(|content| unpack(source, content, announced))
        .and_then(|()| files::rename(&beside, upload).map_err(UnpackError::Write));
    done.map_err(|error| {
        let _ = files::remove(&beside);
        named(refusal(&packed.path, &error), [(upload, announced.sha256)])
    })
}

fn refusal(path: &str, error: &UnpackError) -> Failure {
    let category = match error {
        UnpackError::Read(cause) | UnpackError::Write(cause) => match cause.kind() {
            // It never arrived, or it was removed.
            ErrorKind::NotFound | ErrorKind::TimedOut => FailureCategory::UploadMissing,
            _ => category(cause),
        },
        UnpackError::Content(_) => FailureCategory::HashMismatch,
    };
    category.failure(format!("unpacking {path}: {error}"))
}
