//! Helpers for Win32 calls: errors, handles and strings.

use std::io;
use std::os::windows::io::{FromRawHandle, OwnedHandle};
use std::thread::sleep;
use std::time::{Duration, Instant};

use windows_storage_agent::errors::may_pass;
use windows_sys::Win32::Foundation::{
    ERROR_SUCCESS, HANDLE, INVALID_HANDLE_VALUE, SYSTEMTIME, WIN32_ERROR,
};
use windows_sys::Win32::System::SystemInformation::GetSystemTime;
use windows_sys::Win32::System::Threading::INFINITE;

/// Returns the outcome of a call that returns 0 on failure.
pub fn check(done: i32) -> io::Result<()> {
    if done == 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// Returns the outcome of a call that returns its error.
pub fn check_error(error: WIN32_ERROR) -> io::Result<()> {
    if error == ERROR_SUCCESS {
        return Ok(());
    }
    Err(io::Error::from_raw_os_error(error.cast_signed()))
}

/// Retries for this long while another process holds a file or a pipe.
pub fn retry_for<T>(
    patience: Duration,
    mut attempt: impl FnMut() -> io::Result<T>,
) -> io::Result<T> {
    let begin = Instant::now();
    let mut pause = Duration::from_millis(20);
    loop {
        match attempt() {
            Err(error) if may_pass(&error) && begin.elapsed() < patience => sleep(pause),
            result => return result,
        }
        pause = (pause * 2).min(Duration::from_millis(100));
    }
}

/// Returns whether an error has this Windows error code.
pub fn is(error: &io::Error, number: WIN32_ERROR) -> bool {
    error.raw_os_error() == Some(number.cast_signed())
}

/// Takes ownership of the handle that a call returned; returns the error if there is none.
///
/// # Safety
/// The handle must be what the last call returned, and nothing else may own it.
pub unsafe fn owned(handle: HANDLE) -> io::Result<OwnedHandle> {
    if handle.is_null() || handle == INVALID_HANDLE_VALUE {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the handle is valid, and the caller ensures that nothing else owns it.
    Ok(unsafe { OwnedHandle::from_raw_handle(handle) })
}

/// Returns the size of a structure or a buffer in the type that Windows expects.
pub fn size(bytes: usize) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX)
}

/// Converts a timeout to milliseconds, never to an infinite one.
pub fn milliseconds(timeout: Duration) -> u32 {
    u32::try_from(timeout.as_millis()).unwrap_or(INFINITE - 1)
}

/// Returns a nul-terminated UTF-16 string.
pub fn wide(text: &str) -> Vec<u16> {
    text.encode_utf16().chain([0]).collect()
}

/// Returns a list of UTF-16 strings: each is nul-terminated, and another nul ends the list.
pub fn wide_list(texts: &[String]) -> Vec<u16> {
    let texts = texts.iter().flat_map(|text| wide(text));
    texts.chain([0]).collect()
}

/// Returns the text before the first nul, if there is one.
pub fn text(units: &[u16]) -> String {
    let text = units.split(|unit| *unit == 0).next().unwrap_or_default();
    String::from_utf16_lossy(text)
}

/// Reads a string that Windows returned.
///
/// # Safety
/// The string must be nul-terminated.
pub unsafe fn text_at(start: *const u16) -> String {
    let mut length = 0;
    // SAFETY: the caller ensures that the string is nul-terminated.
    let units = unsafe {
        while *start.add(length) != 0 {
            length += 1;
        }
        std::slice::from_raw_parts(start, length)
    };
    String::from_utf16_lossy(units)
}

/// Returns the current time in RFC 3339: `2026-01-31T23:59:59.123Z`.
pub fn now() -> String {
    let mut now = SYSTEMTIME::default();
    // SAFETY: the result goes to a valid place.
    unsafe { GetSystemTime(&raw mut now) };
    format!(
        "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z",
        now.wYear, now.wMonth, now.wDay, now.wHour, now.wMinute, now.wSecond, now.wMilliseconds
    )
}
