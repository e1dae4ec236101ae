//! Asks Windows to whom files and folders belong.

use std::fs::OpenOptions;
use std::io;
use std::os::windows::fs::OpenOptionsExt;
use std::os::windows::io::AsRawHandle;
use std::ptr::null_mut;

use protocol::{Failure, FailureCategory};
use windows_storage_agent::errors::Context;
use windows_storage_agent::owners::{is_trusted, way};
use windows_sys::Win32::Foundation::{HANDLE, LocalFree};
use windows_sys::Win32::Security::Authorization::{
    ConvertSidToStringSidW, GetSecurityInfo, SE_FILE_OBJECT,
};
use windows_sys::Win32::Security::{
    GetTokenInformation, OWNER_SECURITY_INFORMATION, PSID, TOKEN_QUERY, TOKEN_USER, TokenUser,
};
use windows_sys::Win32::Storage::FileSystem::{
    FILE_FLAG_BACKUP_SEMANTICS, FILE_FLAG_OPEN_REPARSE_POINT, READ_CONTROL,
};
use windows_sys::Win32::System::Threading::{GetCurrentProcess, OpenProcessToken};

use super::win32::{check, check_error, owned, size, text_at};

/// Refuses a way on which a folder or a link belongs to an account that is no administrator's. What is not there yet is fine:
/// whoever makes it has it.
pub fn check_way(path: &str) -> Result<(), Failure> {
    let own = own_account().context("asking for the account of this program")?;
    way(path)
        .into_iter()
        .try_for_each(|part| check_owner(part, &own))
}

/// Refuses programs and libraries in a folder that belong to an account that is no administrator's: what is run from there
/// would load them.
pub fn check_programs(folder: &str) -> Result<(), Failure> {
    let doing = format!("looking into {folder}");
    let own = own_account().context(&doing)?;
    for entry in std::fs::read_dir(folder).context(&doing)? {
        let path = entry.context(&doing)?.path();
        let ending = path.extension().unwrap_or_default();
        let runs = ending.eq_ignore_ascii_case("dll") || ending.eq_ignore_ascii_case("exe");
        if let Some(path) = path.to_str().filter(|_| runs) {
            check_owner(path, &own)?;
        }
    }
    Ok(())
}

fn check_owner(path: &str, own: &str) -> Result<(), Failure> {
    let owner = match owner(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        owner => owner.context(format_args!("asking who owns {path}"))?,
    };
    if is_trusted(&owner, own) {
        return Ok(());
    }
    Err(FailureCategory::AccessDenied.failure(format!(
        "{path} belongs to {owner}, who is no administrator and could replace what SYSTEM runs or writes there; look at \
         what is in it, and remove it or give it to the administrators: takeown /A /F {path}"
    )))
}

/// The owner of a file or folder, and of a link itself, as text.
fn owner(path: &str) -> io::Result<String> {
    let file = OpenOptions::new()
        .access_mode(READ_CONTROL)
        .custom_flags(FILE_FLAG_BACKUP_SEMANTICS | FILE_FLAG_OPEN_REPARSE_POINT)
        .open(path)?;
    let (mut owner, mut descriptor) = (null_mut(), null_mut());
    // SAFETY: the handle lives as long as `file`; the results go to valid places, and null stands for "not asked for".
    check_error(unsafe {
        GetSecurityInfo(
            file.as_raw_handle(),
            SE_FILE_OBJECT,
            OWNER_SECURITY_INFORMATION,
            &raw mut owner,
            null_mut(),
            null_mut(),
            null_mut(),
            &raw mut descriptor,
        )
    })?;
    let text = sid_text(owner);
    // SAFETY: Windows allocated the descriptor, which the owner is part of, for us; it is freed once.
    unsafe { LocalFree(descriptor) };
    text
}

/// The account of this process.
fn own_account() -> io::Result<String> {
    let mut token: HANDLE = null_mut();
    // SAFETY: the result goes to a valid place, and is nobody else's.
    let token = unsafe {
        let this = GetCurrentProcess();
        check(OpenProcessToken(this, TOKEN_QUERY, &raw mut token))?;
        owned(token)?
    };
    // For a TOKEN_USER and its SID, which has 68 bytes at most; of words, so that it is aligned.
    let (mut buffer, mut length) = ([0_u64; 32], 0);
    // SAFETY: the handle is open, and the buffer has the size that is given.
    check(unsafe {
        GetTokenInformation(
            token.as_raw_handle(),
            TokenUser,
            buffer.as_mut_ptr().cast(),
            size(size_of_val(&buffer)),
            &raw mut length,
        )
    })?;
    // SAFETY: Windows has filled the buffer, which is aligned for it, with a TOKEN_USER.
    let user = unsafe { &*buffer.as_ptr().cast::<TOKEN_USER>() };
    sid_text(user.User.Sid)
}

fn sid_text(sid: PSID) -> io::Result<String> {
    let mut text = null_mut();
    // SAFETY: the SID is Windows' own, and the result goes to a valid place.
    check(unsafe { ConvertSidToStringSidW(sid, &raw mut text) })?;
    // SAFETY: the text is terminated by nul, was allocated for us, is freed once and not used after that.
    unsafe {
        let read = text_at(text);
        LocalFree(text.cast());
        Ok(read)
    }
}
