//! Asks Windows to whom files and folders belong.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::windows::fs::OpenOptionsExt;
use std::os::windows::io::AsRawHandle;
use std::path::Path;
use std::ptr::null_mut;

use protocol::{Failure, FailureCategory};
use windows_storage_agent::errors::failed_to;
use windows_storage_agent::owners::{is_trusted, way};
use windows_sys::Win32::Foundation::{CloseHandle, ERROR_SUCCESS, HANDLE, LocalFree};
use windows_sys::Win32::Security::Authorization::{
    ConvertSidToStringSidW, GetSecurityInfo, SE_FILE_OBJECT,
};
use windows_sys::Win32::Security::{
    GetTokenInformation, OWNER_SECURITY_INFORMATION, PSECURITY_DESCRIPTOR, PSID, TOKEN_QUERY,
    TOKEN_USER, TokenUser,
};
use windows_sys::Win32::Storage::FileSystem::{
    FILE_FLAG_BACKUP_SEMANTICS, FILE_FLAG_OPEN_REPARSE_POINT, READ_CONTROL,
};
use windows_sys::Win32::System::Threading::{GetCurrentProcess, OpenProcessToken};

/// Refuses a way on which a folder or a link belongs to somebody who is no administrator. What is not there yet is fine:
/// whoever makes it has it.
pub fn check_way(path: &str) -> Result<(), Failure> {
    let own = own_account()
        .map_err(|error| failed_to("asking for the account of this program", &error))?;
    way(path).into_iter().try_for_each(|part| check(part, &own))
}

/// Refuses programs and libraries in a folder that belong to somebody who is no administrator: what is run from there
/// would load them.
pub fn check_programs(folder: &str) -> Result<(), Failure> {
    let failed = |error| failed_to(&format!("looking into {folder}"), &error);
    let own = own_account().map_err(failed)?;
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let runs = |suffix: &str| {
            path.extension()
                .is_some_and(|found| found.eq_ignore_ascii_case(suffix))
        };
        if (runs("dll") || runs("exe"))
            && let Some(path) = path.to_str()
        {
            check(path, &own)?;
        }
    }
    Ok(())
}

fn check(path: &str, own: &str) -> Result<(), Failure> {
    let owner = match owner(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        owner => owner.map_err(|error| failed_to(&format!("asking who owns {path}"), &error))?,
    };
    if is_trusted(&owner, own) {
        return Ok(());
    }
    Err(Failure::new(
        FailureCategory::AccessDenied,
        format!(
            "{path} belongs to {owner}, who is no administrator and could replace what SYSTEM runs or writes there; look at \
             what is in it, and remove it or give it to the administrators: takeown /A /F {path}"
        ),
    ))
}

/// The owner of a file or folder, and of a link itself, as text.
fn owner(path: &str) -> io::Result<String> {
    let file = OpenOptions::new()
        .access_mode(READ_CONTROL)
        .custom_flags(FILE_FLAG_BACKUP_SEMANTICS | FILE_FLAG_OPEN_REPARSE_POINT)
        .open(Path::new(path))?;
    owner_of(&file)
}

fn owner_of(file: &File) -> io::Result<String> {
    let mut owner: PSID = null_mut();
    let mut descriptor: PSECURITY_DESCRIPTOR = null_mut();
    // SAFETY: the handle lives as long as `file`; the results go to valid places, and null stands for "not asked for".
    let error = unsafe {
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
    };
    if error != ERROR_SUCCESS {
        return Err(io::Error::from_raw_os_error(error.cast_signed()));
    }
    let text = sid_text(owner);
    // SAFETY: Windows allocated the descriptor, which the owner is part of, for us; it is freed once.
    unsafe { LocalFree(descriptor) };
    text
}

/// The account of this process.
fn own_account() -> io::Result<String> {
    let mut token: HANDLE = null_mut();
    // SAFETY: the result goes to a valid place.
    if unsafe { OpenProcessToken(GetCurrentProcess(), TOKEN_QUERY, &raw mut token) } == 0 {
        return Err(io::Error::last_os_error());
    }
    // For a TOKEN_USER and its SID, which has 68 bytes at most; of words, so that it is aligned.
    let mut buffer = [0_u64; 32];
    let mut length = 0;
    // SAFETY: the handle is open, and the buffer has the size that is given.
    let done = unsafe {
        GetTokenInformation(
            token,
            TokenUser,
            buffer.as_mut_ptr().cast(),
            u32::try_from(size_of_val(&buffer)).unwrap_or(0),
            &raw mut length,
        )
    };
    let error = io::Error::last_os_error();
    // SAFETY: the handle is ours and closed once.
    unsafe { CloseHandle(token) };
    if done == 0 {
        return Err(error);
    }
    // SAFETY: Windows has filled the buffer, which is aligned for it, with a TOKEN_USER.
    let user = unsafe { &*buffer.as_ptr().cast::<TOKEN_USER>() };
    sid_text(user.User.Sid)
}

fn sid_text(sid: PSID) -> io::Result<String> {
    let mut text = null_mut();
    // SAFETY: the SID is Windows' own, and the result goes to a valid place.
    if unsafe { ConvertSidToStringSidW(sid, &raw mut text) } == 0 {
        return Err(io::Error::last_os_error());
    }
    let mut length = 0;
    // SAFETY: the text is terminated by nul, was allocated for us, is freed once and not used after that.
    let read = unsafe {
        while *text.add(length) != 0 {
            length += 1;
        }
        let read = String::from_utf16_lossy(std::slice::from_raw_parts(text, length));
        LocalFree(text.cast());
        read
    };
    Ok(read)
}
