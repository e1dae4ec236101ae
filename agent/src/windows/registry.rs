//! What only the registry tells of a service. Above all its environment variables: the value `Environment` of its key,
//! which Windows adds to the system's when it starts the service's process.

use std::ffi::c_void;
use std::io;
use std::ptr::null_mut;

use windows_storage_agent::errors::FILE_NOT_FOUND;
use windows_sys::Win32::Foundation::{ERROR_MORE_DATA, ERROR_SUCCESS, WIN32_ERROR};
use windows_sys::Win32::System::Registry::{
    HKEY_LOCAL_MACHINE, REG_MULTI_SZ, RRF_RT_REG_MULTI_SZ, RRF_RT_REG_SZ, RegDeleteKeyValueW,
    RegGetValueW, RegSetKeyValueW,
};

use super::acl::wide;

const NAME: &str = "Environment";
const DEPENDENCIES: &str = "DependOnService";
const COMMAND: &str = "ImagePath";
const DESCRIPTION: &str = "Description";

/// The variables of a service, each `NAME=value`.
pub fn get(service: &str) -> io::Result<Vec<String>> {
    texts(service, NAME)
}

/// The services that a service needs, where Windows keeps them.
pub fn dependencies(service: &str) -> io::Result<Vec<String>> {
    texts(service, DEPENDENCIES)
}

/// A service's command line, with the variables in it replaced.
pub fn command(service: &str) -> io::Result<String> {
    text(service, COMMAND)
}

/// A service's description.
pub fn description(service: &str) -> io::Result<String> {
    text(service, DESCRIPTION)
}

fn texts(service: &str, name: &str) -> io::Result<Vec<String>> {
    let units = value(service, name, RRF_RT_REG_MULTI_SZ)?;
    Ok(units
        .split(|unit| *unit == 0)
        .filter(|text| !text.is_empty())
        .map(String::from_utf16_lossy)
        .collect())
}

fn text(service: &str, name: &str) -> io::Result<String> {
    let units = value(service, name, RRF_RT_REG_SZ)?;
    let text = units.split(|unit| *unit == 0).next().unwrap_or_default();
    Ok(String::from_utf16_lossy(text))
}

/// A value of a service's key; empty where there is none.
fn value(service: &str, name: &str, kind: u32) -> io::Result<Vec<u16>> {
    let mut buffer = vec![0_u16; 1024];
    loop {
        let mut size = bytes(buffer.len());
        // SAFETY: the names end with nul; the buffer has the size that is given, in bytes.
        let error = unsafe {
            RegGetValueW(
                HKEY_LOCAL_MACHINE,
                wide(&key(service)).as_ptr(),
                wide(name).as_ptr(),
                kind,
                null_mut(),
                buffer.as_mut_ptr().cast::<c_void>(),
                &raw mut size,
            )
        };
        match error {
            ERROR_SUCCESS => {
                buffer.truncate(usize::try_from(size).unwrap_or(0) / size_of::<u16>());
                return Ok(buffer);
            }
            ERROR_MORE_DATA => buffer.resize(buffer.len() * 2, 0),
            error if error.cast_signed() == FILE_NOT_FOUND => return Ok(Vec::new()),
            error => return Err(failed(error)),
        }
    }
}

/// Gives a service these variables and no others.
pub fn set(service: &str, variables: &[String]) -> io::Result<()> {
    if get(service)? == variables {
        return Ok(());
    }
    let (key, name) = (wide(&key(service)), wide(NAME));
    let error = if variables.is_empty() {
        // SAFETY: the names end with nul.
        unsafe { RegDeleteKeyValueW(HKEY_LOCAL_MACHINE, key.as_ptr(), name.as_ptr()) }
    } else {
        let list: Vec<u16> = variables
            .iter()
            .flat_map(|variable| wide(variable))
            .chain([0])
            .collect();
        // SAFETY: the names end with nul; the list has the size that is given, in bytes.
        unsafe {
            RegSetKeyValueW(
                HKEY_LOCAL_MACHINE,
                key.as_ptr(),
                name.as_ptr(),
                REG_MULTI_SZ,
                list.as_ptr().cast::<c_void>(),
                bytes(list.len()),
            )
        }
    };
    if error == ERROR_SUCCESS {
        Ok(())
    } else {
        Err(failed(error))
    }
}

fn key(service: &str) -> String {
    format!(r"SYSTEM\CurrentControlSet\Services\{service}")
}

fn bytes(units: usize) -> u32 {
    u32::try_from(units * size_of::<u16>()).unwrap_or(u32::MAX)
}

fn failed(error: WIN32_ERROR) -> io::Error {
    io::Error::from_raw_os_error(error.cast_signed())
}
