//! Reads the agent's command line on a simulated host: what the request changes.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use protocol::paths::{CSI_PROXY_EXE, is_brought, to_sftp};
use protocol::validate::validate;
use protocol::{Failure, FailureCategory, Request};
use windows_storage_agent::cli::{self, Command};
use windows_storage_agent::unpack::unpack;

use super::agent::Agent;
use super::disk::Disk;
use super::file::File;

/// Returns the request file, if the command line is an `apply`.
fn apply_of(line: &str) -> Option<String> {
    let words = line.split_whitespace().skip(1).map(str::to_owned);
    match cli::parse(words) {
        Ok(Command::Apply { request, .. }) => Some(request),
        _ => None,
    }
}

impl Agent {
    /// Returns the request of an `apply` command line that stops a working csi-proxy: there is something to change, and
    /// its program is there.
    pub fn interrupts(&self, disk: &Disk, line: &str) -> Option<Request> {
        let request = Self::requested(disk, line)?;
        let kept = self.kept.as_ref()?;
        validate(&request).ok()?;
        let found = disk.file(CSI_PROXY_EXE).map(File::sha256);
        if found.as_ref() == Some(&request.sha256) {
            return (kept.command() != request.command()).then_some(request);
        }
        let packed = request.packed.as_ref().map(|packed| &packed.path);
        disk.file(packed.or(request.upload.as_ref())?)?;
        Some(request)
    }

    /// Returns the request of an `apply` command line.
    pub fn requested(disk: &Disk, line: &str) -> Option<Request> {
        Self::request(disk, &apply_of(line)?).ok()
    }
}

/// Unpacks the program of a request, as the agent's command does before the service gets the request.
pub fn unpack_program(disk: &mut Disk, request: &Request) -> Result<(), Failure> {
    let (Some(packed), Some(upload)) = (&request.packed, &request.upload) else {
        return Ok(());
    };
    validate(request)?;
    let arrived = disk.read_locally(&packed.path).cloned();
    let _ = disk.remove(&packed.path);
    let missing = || {
        let message = format!("{} is not there", packed.path);
        FailureCategory::BadUpload.failure(message)
    };
    let arrived = arrived.map_err(|_| missing())?;
    let unpacked = unpacked(&arrived, packed.unpacked_size, &request.sha256)?;
    disk.put(upload, unpacked);
    Ok(())
}

/// Removes a request file that is done.
pub fn remove_brought(disk: &mut Disk, request: &str) {
    if to_sftp(request).rsplit('/').next().is_some_and(is_brought) {
        let _ = disk.remove(request);
    }
}

/// Unpacks a file, once for all hosts of a process: otherwise a fleet would spend most of its time unpacking.
fn unpacked(packed: &File, size: u64, sha256: &str) -> Result<File, Failure> {
    static KNOWN: Mutex<BTreeMap<(String, String), File>> = Mutex::new(BTreeMap::new());
    let key = (packed.sha256(), sha256.to_owned());
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(file) = known.get(&key) {
        return Ok(file.clone());
    }
    let mut file = File::default();
    unpack(packed.content(), &mut file, size, sha256)
        .map_err(|error| FailureCategory::BadUpload.failure(error.to_string()))?;
    known.insert(key, file.clone());
    Ok(file)
}
