//! Reports the version and settings of this Windows.

use std::io;
use std::os::windows::io::AsRawHandle;
use std::ptr::{null, null_mut};

use serde::Serialize;
use windows_sys::Win32::Foundation::ERROR_SUCCESS;
use windows_sys::Win32::Globalization::{GetACP, GetOEMCP};
use windows_sys::Win32::Security::{
    GetTokenInformation, LookupPrivilegeNameW, SE_PRIVILEGE_ENABLED, TOKEN_PRIVILEGES,
    TokenPrivileges,
};
use windows_sys::Win32::System::Registry::{HKEY_LOCAL_MACHINE, RRF_RT_REG_SZ, RegGetValueW};

use crate::windows::accounts::own_token;
use crate::windows::win32::{self, check, size, wide};

const VERSION: &str = r"SOFTWARE\Microsoft\Windows NT\CurrentVersion";

/// The first line of the output.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Host {
    verify: &'static str,
    product: String,
    build: String,
    display_version: String,
    code_pages: [u32; 2],
    locale: String,
    default_shell: String,
    /// The enabled privileges of this process's token.
    privileges: Vec<String>,
}

pub fn describe() -> Host {
    // SAFETY: these take no pointers.
    let code_pages = unsafe { [GetACP(), GetOEMCP()] };
    Host {
        verify: env!("CARGO_PKG_VERSION"),
        product: text(VERSION, "ProductName"),
        build: text(VERSION, "CurrentBuildNumber"),
        display_version: text(VERSION, "DisplayVersion"),
        code_pages,
        locale: text(r"SYSTEM\CurrentControlSet\Control\Nls\Language", "Default"),
        default_shell: text(r"SOFTWARE\OpenSSH", "DefaultShell"),
        privileges: privileges().unwrap_or_default(),
    }
}

/// Returns a text value of the registry; empty if it does not exist.
fn text(key: &str, name: &str) -> String {
    let (key, name) = (wide(key), wide(name));
    let mut buffer = [0_u16; 256];
    let mut bytes = size(size_of_val(&buffer));
    // SAFETY: the names end with nul; the buffer has the size that is given, in bytes.
    let error = unsafe {
        RegGetValueW(
            HKEY_LOCAL_MACHINE,
            key.as_ptr(),
            name.as_ptr(),
            RRF_RT_REG_SZ,
            null_mut(),
            buffer.as_mut_ptr().cast(),
            &raw mut bytes,
        )
    };
    if error == ERROR_SUCCESS {
        win32::text(&buffer)
    } else {
        String::new()
    }
}

fn privileges() -> io::Result<Vec<String>> {
    let token = own_token()?;
    // There are about forty privileges of twelve bytes each. The buffer is made of words so that it is aligned.
    let (mut buffer, mut length) = ([0_u64; 256], 0);
    // SAFETY: the handle is open, and the buffer has the size that is given.
    check(unsafe {
        GetTokenInformation(
            token.as_raw_handle(),
            TokenPrivileges,
            buffer.as_mut_ptr().cast(),
            size(size_of_val(&buffer)),
            &raw mut length,
        )
    })?;
    let list = buffer.as_ptr().cast::<TOKEN_PRIVILEGES>();
    // SAFETY: Windows has filled the buffer, which is aligned for it, with the structure and as many entries as it says.
    let all = unsafe {
        let count = usize::try_from((*list).PrivilegeCount).unwrap_or(0);
        std::slice::from_raw_parts((&raw const (*list).Privileges).cast(), count)
    };
    let enabled = all
        .iter()
        .filter(|it: &&windows_sys::Win32::Security::LUID_AND_ATTRIBUTES| {
            it.Attributes & SE_PRIVILEGE_ENABLED != 0
        });
    let name = |luid| {
        let (mut name, mut length) = ([0_u16; 64], 64);
        // SAFETY: null stands for this machine; the buffer has the length that is given.
        let found = check(unsafe {
            LookupPrivilegeNameW(null(), &raw const luid, name.as_mut_ptr(), &raw mut length)
        });
        found.map(|()| win32::text(&name))
    };
    enabled.map(|entry| name(entry.Luid)).collect()
}
