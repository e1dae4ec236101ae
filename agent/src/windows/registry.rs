//! Settings of a service that only the registry has. The crate `windows-registry` does not expand variables in what it reads.

use std::ffi::c_void;
use std::io;
use std::ptr::null_mut;

use windows_sys::Win32::Foundation::{ERROR_FILE_NOT_FOUND, ERROR_MORE_DATA};
use windows_sys::Win32::System::Registry::{
    HKEY_LOCAL_MACHINE, REG_DWORD, REG_SZ, RRF_RT_REG_MULTI_SZ, RRF_RT_REG_SZ, RegDeleteTreeW,
    RegGetValueW, RegSetKeyValueW,
};

use super::win32::{self, check_error, size, wide};

/// The command line, with its variables expanded.
pub const COMMAND: &str = "ImagePath";
pub const DESCRIPTION: &str = "Description";
/// The services that it depends on.
pub const DEPENDENCIES: &str = "DependOnService";

/// Returns a text value of a service's key; empty if it does not exist.
pub fn text(service: &str, name: &str) -> io::Result<String> {
    value(service, name, RRF_RT_REG_SZ).map(|units| win32::text(&units))
}

/// Returns a value of a service's key that is a list of texts; empty if it does not exist.
pub fn texts(service: &str, name: &str) -> io::Result<Vec<String>> {
    let units = value(service, name, RRF_RT_REG_MULTI_SZ)?;
    let texts = units.split(|unit| *unit == 0);
    Ok(texts
        .filter(|text| !text.is_empty())
        .map(String::from_utf16_lossy)
        .collect())
}

/// Returns a value of a service's key; empty if it does not exist.
fn value(service: &str, name: &str, kind: u32) -> io::Result<Vec<u16>> {
    let (key, name) = (key(service), wide(name));
    let mut buffer = vec![0_u16; 1024];
    loop {
        let mut bytes = size(size_of_val(&buffer[..]));
        // SAFETY: the names are nul-terminated; the buffer has the given size in bytes.
        let error = unsafe {
            RegGetValueW(
                HKEY_LOCAL_MACHINE,
                key.as_ptr(),
                name.as_ptr(),
                kind,
                null_mut(),
                buffer.as_mut_ptr().cast::<c_void>(),
                &raw mut bytes,
            )
        };
        match error {
            ERROR_MORE_DATA => buffer.resize(buffer.len() * 2, 0),
            ERROR_FILE_NOT_FOUND => return Ok(Vec::new()),
            error => {
                check_error(error)?;
                buffer.truncate(usize::try_from(bytes).unwrap_or(0) / size_of::<u16>());
                return Ok(buffer);
            }
        }
    }
}

/// Sets a text value of a service's key.
pub fn set_text(service: &str, name: &str, value: &str) -> io::Result<()> {
    set(service, name, REG_SZ, &wide(value))
}

/// Sets a number value of a service's key.
pub fn set_number(service: &str, name: &str, value: u32) -> io::Result<()> {
    set(service, name, REG_DWORD, &[value])
}

/// Removes a key and its content, if it exists.
pub fn remove(service: &str) -> io::Result<()> {
    // SAFETY: the name is nul-terminated.
    match unsafe { RegDeleteTreeW(HKEY_LOCAL_MACHINE, key(service).as_ptr()) } {
        ERROR_FILE_NOT_FOUND => Ok(()),
        error => check_error(error),
    }
}

fn set<T>(service: &str, name: &str, kind: u32, value: &[T]) -> io::Result<()> {
    let (key, name) = (key(service), wide(name));
    // SAFETY: the names are nul-terminated; the value has the given size in bytes.
    check_error(unsafe {
        RegSetKeyValueW(
            HKEY_LOCAL_MACHINE,
            key.as_ptr(),
            name.as_ptr(),
            kind,
            value.as_ptr().cast::<c_void>(),
            size(size_of_val(value)),
        )
    })
}

fn key(service: &str) -> Vec<u16> {
    wide(&format!(r"SYSTEM\CurrentControlSet\Services\{service}"))
}
