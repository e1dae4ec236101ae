//! Refuses files that untrusted accounts can change before SYSTEM runs them.
//!
//! Each part of a path is checked from the drive on. An untrusted account then cannot replace a checked part any more,
//! because the folder that contains it was already found to be safe.

use std::io;
use std::path::Path;

use protocol::{Failure, FailureCategory};
use windows_storage_agent::errors::Context;
use windows_storage_agent::owners::{Objection, Place, Security, objection, way};

use super::accounts::own_account;
use super::acl::Opened;

/// What a checked path is used for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Use {
    /// SYSTEM writes its logs there. A link on the way counts as its owner.
    Log,
    /// It holds programs that SYSTEM runs. Who may write there is checked for those programs.
    Folder,
    /// SYSTEM runs it, and loads libraries from its folder.
    Program,
    /// A program that SYSTEM runs loads it as a library.
    Library,
}

/// Refuses a path for logs on which an untrusted account owns a folder or a link. Parts that do not exist yet are accepted:
/// the account that creates them owns them.
pub fn check_logs_way(path: &str) -> Result<(), Failure> {
    Checker::new()?.check(path, Use::Log)
}

/// Refuses a folder for programs that an untrusted account owns, or to which a link leads.
pub fn check_folder(path: &str) -> Result<(), Failure> {
    Checker::new()?.check(path, Use::Folder)
}

/// Refuses a program that untrusted accounts own or could change, replace, or make load another library.
pub fn check_program(path: &str) -> Result<(), Failure> {
    Checker::new()?.check(path, Use::Program)
}

/// Refuses a folder with libraries that untrusted accounts own or could change, or with what redirects a program to such
/// libraries (`NAME.exe.local`, `.manifest`, `.config`), because programs there would load them, or with programs that such
/// accounts own. Write access to programs is checked for those that are run.
pub fn check_programs(folder: &str) -> Result<(), Failure> {
    let checker = Checker::new()?;
    let doing = format!("looking into {folder}");
    for entry in std::fs::read_dir(folder).context(&doing)? {
        let path = entry.context(&doing)?.path();
        let ending = path.extension().unwrap_or_default().to_ascii_lowercase();
        let wanted = match ending.to_str() {
            Some("dll") => Use::Library,
            Some("local" | "manifest" | "config") if is_of_program(&path) => Use::Library,
            Some("exe") => Use::Folder,
            _ => continue,
        };
        if let Some(path) = path.to_str() {
            checker.check(path, wanted)?;
        }
    }
    Ok(())
}

/// Whether a path is a program's, or a library's, with one more ending.
fn is_of_program(path: &Path) -> bool {
    let name = path.file_stem().unwrap_or_default().to_ascii_lowercase();
    let name = name.to_string_lossy();
    name.ends_with(".exe") || name.ends_with(".dll")
}

/// Refuses a log folder that contains a file of an untrusted account, or any link: SYSTEM's log output would go where that
/// account wants it.
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
        checker.judge(path, &there, Use::Log, Place::Target)?;
    }
    Ok(())
}

/// Holds the account of this process.
struct Checker(String);

impl Checker {
    fn new() -> Result<Self, Failure> {
        let own = own_account().context("asking for the account of this program")?;
        Ok(Self(own))
    }

    /// Checks everything that a path leads through.
    fn check(&self, path: &str, wanted: Use) -> Result<(), Failure> {
        let parts = way(path);
        for (left, part) in (1..=parts.len()).rev().zip(parts) {
            let Some(there) = open(part)? else {
                return Ok(());
            };
            if wanted != Use::Log && there.is_link() {
                return Err(refused(format!(
                    "{part} is a link, and SYSTEM would run what it leads to; put a folder or a file in its place"
                )));
            }
            let place = match left {
                1 => Place::Target,
                2 if wanted == Use::Program => Place::ProgramFolder,
                _ => Place::Way,
            };
            self.judge(part, &there, wanted, place)?;
        }
        Ok(())
    }

    fn judge(&self, path: &str, there: &Opened, wanted: Use, place: Place) -> Result<(), Failure> {
        let security = there.security();
        let mut security: Security =
            security.context(format_args!("asking who may change {path}"))?;
        if matches!(wanted, Use::Log | Use::Folder) {
            // In folders such as C:\var\log, the owner decides who else may write.
            security.grants.clear();
        }
        let objected = objection(&security, place, &self.0);
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
    FailureCategory::Untrusted.failure(message)
}
