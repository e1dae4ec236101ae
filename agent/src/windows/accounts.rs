//! Names accounts by their SIDs.

use std::io;
use std::os::windows::io::AsRawHandle;
use std::ptr::null_mut;

use windows_sys::Win32::Foundation::{HANDLE, LocalFree};
use windows_sys::Win32::Security::Authorization::ConvertSidToStringSidW;
use windows_sys::Win32::Security::{GetTokenInformation, PSID, TOKEN_QUERY, TOKEN_USER, TokenUser};
use windows_sys::Win32::System::Threading::{GetCurrentProcess, OpenProcessToken};

use super::win32::{check, owned, size, text_at};

/// Returns the account of this process.
pub fn own_account() -> io::Result<String> {
    let mut token: HANDLE = null_mut();
    // SAFETY: the result goes to a valid place, and nothing else owns it.
    let token = unsafe {
        let this = GetCurrentProcess();
        check(OpenProcessToken(this, TOKEN_QUERY, &raw mut token))?;
        owned(token)
    }?;
    // For a TOKEN_USER and its SID, which has at most 68 bytes. The buffer is made of words so that it is aligned.
    let (mut buffer, mut length) = ([0_u64; 32], 0);
    // SAFETY: the handle is open, and the buffer has the given size.
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

/// Returns a SID as text.
pub fn sid_text(sid: PSID) -> io::Result<String> {
    let mut text = null_mut();
    // SAFETY: the SID is Windows' own, and the result goes to a valid place.
    check(unsafe { ConvertSidToStringSidW(sid, &raw mut text) })?;
    // SAFETY: the string is nul-terminated, was allocated for us, is freed once and not used after that.
    unsafe {
        let read = text_at(text);
        LocalFree(text.cast());
        Ok(read)
    }
}
