//! Refuses files that accounts other than administrators can change before SYSTEM runs them.
//!
//! Each part of a path is checked from the drive on. An untrusted account then cannot replace a checked part any more,
//! because the folder that contains it was already found to be safe.

use std::io;

use protocol::{Failure, FailureCategory};
use windows_storage_agent::errors::Context;
use windows_storage_agent::owners::{
    Objection, Place, Security, follow, is_volume, objection, way,
};

use super::accounts::Accounts;
use super::acl::Opened;

/// A path with more links than this is treated as a cycle.
const MOST_LINKS: u32 = 16;

/// What a checked path is used for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Use {
    /// SYSTEM writes there.
    Writing,
    /// SYSTEM runs it, and loads libraries from its folder.
    Program,
    /// A program that SYSTEM runs loads it as a library.
    Library,
}

/// Refuses a path on which an account other than an administrator owns a folder or a link. Parts that do not exist yet are
/// accepted: the account that creates them owns them.
pub fn check_way(path: &str) -> Result<(), Failure> {
    Checker::new()?.check(path, Use::Writing)
}

/// Refuses a program that accounts other than administrators own or could change, replace, or make load another library.
pub fn check_program(path: &str) -> Result<(), Failure> {
    Checker::new()?.check(path, Use::Program)
}

/// Refuses a folder with libraries that accounts other than administrators own or could change, because programs there would
/// load them, or with programs that such accounts own. Write access to programs is checked for those that are run.
pub fn check_programs(folder: &str) -> Result<(), Failure> {
    let checker = Checker::new()?;
    let doing = format!("looking into {folder}");
    for entry in std::fs::read_dir(folder).context(&doing)? {
        let path = entry.context(&doing)?.path();
        let ending = path.extension().unwrap_or_default().to_ascii_lowercase();
        let wanted = match ending.to_str() {
            Some("dll") => Use::Library,
            Some("exe") => Use::Writing,
            _ => continue,
        };
        if let Some(path) = path.to_str() {
            checker.check(path, wanted)?;
        }
    }
    Ok(())
}

/// Refuses a log folder that contains a file of an account other than an administrator, or any link: SYSTEM's log output
/// would go where that account wants it.
pub fn check_logs(folder: &str) -> Result<(), Failure> {
    let checker = Checker::new()?;
    let doing = format!("looking into {folder}");
    for entry in std::fs::read_dir(folder).context(&doing)? {
        let path = entry.context(&doing)?.path();
        let Some(path) = path.to_str() else { continue };
        let Some(there) = open(path)? else { continue };
        if there.is_link() {
            return Err(refused(format!(
                "{path} is a link, and SYSTEM would write its log where that leads; remove it"
            )));
        }
        checker.judge(path, &there, Use::Writing, Place::Target)?;
    }
    Ok(())
}

struct Checker(Accounts);

impl Checker {
    fn new() -> Result<Self, Failure> {
        let accounts = Accounts::new().context("asking for the account of this program")?;
        Ok(Self(accounts))
    }

    /// Checks everything that a path leads through, including links and their targets.
    fn check(&self, path: &str, wanted: Use) -> Result<(), Failure> {
        let mut path = path.to_owned();
        for _ in 0..MOST_LINKS {
            match self.check_to_link(&path, wanted)? {
                Some(leads) => path = leads,
                None => return Ok(()),
            }
        }
        Err(refused(format!("{path}: too many links lead to it")))
    }

    /// Checks a path up to and including its first link; returns the path to continue with, if there is a link.
    fn check_to_link(&self, path: &str, wanted: Use) -> Result<Option<String>, Failure> {
        let parts = way(path);
        if let ([_], Use::Program, Some(drive)) = (&*parts, wanted, path.get(..3)) {
            let there = Opened::read(drive).context(format_args!("opening {drive}"))?;
            self.judge(drive, &there, wanted, Place::ProgramFolder)?;
        }
        for (left, part) in parts
            .iter()
            .enumerate()
            .map(|(at, part)| (parts.len() - at, part))
        {
            let Some(there) = open(part)? else {
                return Ok(None);
            };
            let is_link = there.is_link();
            let place = match left {
                1 => Place::Target,
                _ if is_link => Place::Target,
                2 if wanted == Use::Program => Place::ProgramFolder,
                _ => Place::Way,
            };
            self.judge(part, &there, wanted, place)?;
            if !is_link {
                continue;
            }
            let target = std::fs::read_link(part).context(format_args!("following {part}"))?;
            let target = target.to_string_lossy();
            if !is_volume(&target) {
                let leads = follow(path, part, &target);
                let unknown = || {
                    refused(format!(
                        "{part} leads to {target}, where nothing can be checked"
                    ))
                };
                return leads.ok_or_else(unknown).map(Some);
            }
        }
        Ok(None)
    }

    fn judge(&self, path: &str, there: &Opened, wanted: Use, place: Place) -> Result<(), Failure> {
        let security = there.security();
        let mut security: Security =
            security.context(format_args!("asking who may change {path}"))?;
        if wanted == Use::Writing {
            // In folders such as C:\var\log, the owner decides who else may write.
            security.grants.clear();
        }
        let objected = objection(&security, place, |account| self.0.trusts(account));
        objected.map_or(Ok(()), |it: Objection<'_>| Err(refused(it.explain(path))))
    }
}

/// Opens the object at a path, if it exists.
fn open(path: &str) -> Result<Option<Opened>, Failure> {
    match Opened::read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        opened => opened.map(Some).context(format_args!("opening {path}")),
    }
}

fn refused(message: String) -> Failure {
    FailureCategory::AccessDenied.failure(message)
}
