//! Unpacks the program that SFTP has uploaded for a request, before the service gets the request.

use std::fs::File;
use std::io::ErrorKind;

use protocol::validate::validate;
use protocol::{Failure, FailureCategory, Packed, Request};
use windows_storage_agent::errors::{category, named};
use windows_storage_agent::unpack::{UnpackError, unpack};

use super::{files, store};

/// Creates the upload of a request from its packed file, if it has one. On failure nothing is left behind.
pub fn unpack_program(request: &str) -> Result<(), Failure> {
    // The service reports what is wrong with a request that cannot be read.
    let Ok(Some(request)) = store::load::<Request>(request) else {
        return Ok(());
    };
    let (Some(packed), Some(upload)) = (&request.packed, &request.upload) else {
        return Ok(());
    };
    // Before any path of the request is used.
    validate(&request)?;
    let done = unpack_to(packed, upload, &request.sha256);
    // The packed file is no longer needed either way. If the SFTP server still has it open, it stays for the service to
    // remove.
    let _ = std::fs::remove_file(&packed.path);
    done
}

/// Unpacks to a temporary file that becomes the upload once it is complete. Each process has its own, because a command
/// whose connection was lost may still be unpacking.
fn unpack_to(packed: &Packed, upload: &str, sha256: &str) -> Result<(), Failure> {
    let beside = format!("{upload}.{}", std::process::id());
    let done = File::open(&packed.path)
        .map_err(UnpackError::Read)
        .and_then(|source| {
            let content = File::create(&beside).map_err(UnpackError::Write)?;
            unpack(source, content, packed.unpacked_size, sha256)
        })
        .and_then(|()| files::rename(&beside, upload).map_err(UnpackError::Write));
    done.map_err(|error| {
        let _ = files::remove(&beside);
        named(refusal(&packed.path, &error), [(upload, sha256)])
    })
}

fn refusal(path: &str, error: &UnpackError) -> Failure {
    let category = match error {
        UnpackError::Read(cause) | UnpackError::Write(cause)
            if cause.kind() != ErrorKind::NotFound =>
        {
            category(cause)
        }
        _ => FailureCategory::BadUpload,
    };
    category.failure(format!("unpacking {path}: {error}"))
}
