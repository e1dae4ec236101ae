//! What a command line hands the agent of a simulated host: whether all of it has come, and what it will change.

use std::time::Duration;

use protocol::Request;
use protocol::validate::validate;
use windows_storage_agent::cli::{self, Command};

use super::agent::Agent;
use super::disk::Disk;

/// The request's file and the time that it has to arrive, of a command line of `apply`.
fn apply_of(line: &str) -> Option<(String, Duration)> {
    let words = line.split_whitespace().skip(1).map(str::to_owned);
    match cli::parse(words) {
        Ok(Command::Apply {
            request, arrival, ..
        }) => Some((request, arrival)),
        _ => None,
    }
}

impl Agent {
    /// The request of an `apply` command line that stops a csi-proxy which works: there is something to change, and all
    /// that it takes is there.
    pub fn interrupts(&self, disk: &Disk, line: &str) -> Option<Request> {
        let request = Self::requested(disk, line)?;
        let kept = self.kept.as_ref()?;
        validate(&request).ok()?;
        let is_right = |path: &str, sha256: &str| {
            let found = disk.file(path);
            found.is_some_and(|found| found.sha256() == sha256)
        };
        let mut changes = kept.services != request.services;
        for file in &request.files {
            if is_right(&file.path, &file.sha256) {
                continue;
            }
            let packed = file.packed.as_ref().map(|packed| &packed.path);
            disk.file(packed.or(file.upload.as_ref())?)?;
            changes = true;
        }
        changes.then_some(request)
    }

    /// The request of an `apply` command line, where it is one.
    pub fn requested(disk: &Disk, line: &str) -> Option<Request> {
        Self::request(disk, &apply_of(line)?.0).ok()
    }

    /// Whether a command line is one of `apply` that still waits for what it needs.
    pub fn awaits_files(disk: &Disk, line: &str) -> bool {
        let Some((path, arrival)) = apply_of(line) else {
            return false;
        };
        if arrival.is_zero() {
            return false;
        }
        let Ok(request) = Self::request(disk, &path) else {
            return true;
        };
        let packed = request.files.iter().filter_map(|file| file.packed.as_ref());
        packed.into_iter().any(|packed| {
            disk.file(&packed.path)
                .is_none_or(|file| file.size() < packed.size)
        })
    }
}
