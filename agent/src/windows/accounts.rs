//! Asks Windows whether an account is an administrator.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ffi::c_void;
use std::io;
use std::os::windows::io::{AsRawHandle, OwnedHandle};
use std::ptr::{null, null_mut};

use windows_storage_agent::owners::{ADMINISTRATORS, is_trusted};
use windows_sys::Win32::Foundation::{FreeLibrary, HANDLE, HMODULE, LocalFree};
use windows_sys::Win32::NetworkManagement::NetManagement::{
    LG_INCLUDE_INDIRECT, LOCALGROUP_MEMBERS_INFO_0, LOCALGROUP_USERS_INFO_0, MAX_PREFERRED_LENGTH,
};
use windows_sys::Win32::Security::Authorization::{ConvertSidToStringSidW, ConvertStringSidToSidW};
use windows_sys::Win32::Security::{
    GetTokenInformation, LookupAccountSidW, PSID, SID_NAME_USE, SidTypeUser, TOKEN_QUERY,
    TOKEN_USER, TokenUser,
};
use windows_sys::Win32::System::LibraryLoader::{
    GetProcAddress, LOAD_LIBRARY_SEARCH_SYSTEM32, LoadLibraryExW,
};
use windows_sys::Win32::System::Threading::{GetCurrentProcess, OpenProcessToken};

use super::log;
use super::win32::{check, check_error, owned, size, text, text_at, wide};

/// Longer than any name of an account or a domain.
const LONGEST_NAME: usize = 512;

/// Which accounts are administrators. Windows is asked only once per account.
pub struct Accounts {
    own: String,
    members: RefCell<BTreeMap<String, bool>>,
}

impl Accounts {
    /// Reads the account of this process.
    pub fn new() -> io::Result<Self> {
        Ok(Self {
            own: own_account()?,
            members: RefCell::default(),
        })
    }

    /// Returns whether an account, as a SID in text form, can do whatever SYSTEM can.
    pub fn trusts(&self, account: &str) -> bool {
        let mut members = self.members.borrow_mut();
        is_trusted(account, &self.own)
            || *members
                .entry(account.to_owned())
                .or_insert_with(|| is_administrator(account))
    }
}

/// Returns whether an account is a member of Administrators, directly or through groups of its domain. If Windows cannot
/// answer, the account does not count as an administrator.
fn is_administrator(account: &str) -> bool {
    let asked = NetApi::load().and_then(|net| {
        let group = Name::of(ADMINISTRATORS)?.account;
        if net.members(&group)?.iter().any(|member| member == account) {
            return Ok(true);
        }
        let name = Name::of(account)?;
        Ok(name.is_user && net.groups_of(&name.in_full())?.contains(&group))
    });
    asked.unwrap_or_else(|error| {
        log::line(format!("whether {account} is an administrator: {error}"));
        false
    })
}

/// An account's name on this machine, in the machine's language.
struct Name {
    domain: String,
    account: String,
    is_user: bool,
}

impl Name {
    fn of(account: &str) -> io::Result<Self> {
        let mut sid: PSID = null_mut();
        // SAFETY: the string is nul-terminated, and the result goes to a valid place.
        check(unsafe { ConvertStringSidToSidW(wide(account).as_ptr(), &raw mut sid) })?;
        let (mut name, mut domain) = ([0; LONGEST_NAME], [0; LONGEST_NAME]);
        let (mut name_length, mut domain_length) = (size(LONGEST_NAME), size(LONGEST_NAME));
        let mut kind: SID_NAME_USE = 0;
        // SAFETY: the SID is valid; the buffers have the given lengths; null stands for this machine.
        let found = check(unsafe {
            LookupAccountSidW(
                null(),
                sid,
                name.as_mut_ptr(),
                &raw mut name_length,
                domain.as_mut_ptr(),
                &raw mut domain_length,
                &raw mut kind,
            )
        });
        // SAFETY: Windows allocated the SID for us; it is freed once and not used after that.
        unsafe { LocalFree(sid) };
        found?;
        Ok(Self {
            domain: text(&domain),
            account: text(&name),
            is_user: kind == SidTypeUser,
        })
    }

    fn in_full(&self) -> String {
        format!(r"{}\{}", self.domain, self.account)
    }
}

/// The type of any function of a library.
type Function = unsafe extern "system" fn() -> isize;
type Members = unsafe extern "system" fn(
    *const u16,
    *const u16,
    u32,
    *mut *mut c_void,
    u32,
    *mut u32,
    *mut u32,
    *mut usize,
) -> u32;
type GroupsOf = unsafe extern "system" fn(
    *const u16,
    *const u16,
    u32,
    u32,
    *mut *mut c_void,
    u32,
    *mut u32,
    *mut u32,
) -> u32;
type Free = unsafe extern "system" fn(*const c_void) -> u32;

/// `netapi32.dll`, loaded from Windows' own folder. If it were linked, a file of that name beside this program could be
/// loaded instead.
struct NetApi {
    library: HMODULE,
    members: Members,
    groups_of: GroupsOf,
    free: Free,
}

impl NetApi {
    fn load() -> io::Result<Self> {
        let name = wide("netapi32.dll");
        // SAFETY: the name is nul-terminated; null is the required value.
        let library =
            unsafe { LoadLibraryExW(name.as_ptr(), null_mut(), LOAD_LIBRARY_SEARCH_SYSTEM32) };
        if library.is_null() {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the library is loaded, and the names are nul-terminated.
        let function = |name: &std::ffi::CStr| unsafe {
            GetProcAddress(library, name.as_ptr().cast()).ok_or_else(io::Error::last_os_error)
        };
        // SAFETY: the functions have these types according to Windows' documentation, and are called only while the library
        // is loaded.
        unsafe {
            Ok(Self {
                members: std::mem::transmute::<Function, Members>(function(
                    c"NetLocalGroupGetMembers",
                )?),
                groups_of: std::mem::transmute::<Function, GroupsOf>(function(
                    c"NetUserGetLocalGroups",
                )?),
                free: std::mem::transmute::<Function, Free>(function(c"NetApiBufferFree")?),
                library,
            })
        }
    }

    /// Returns the accounts and groups that are members of a local group, as SIDs.
    fn members(&self, group: &str) -> io::Result<Vec<String>> {
        let (mut list, mut read, mut total): (*mut c_void, u32, u32) = (null_mut(), 0, 0);
        // SAFETY: the name is nul-terminated; all results go to valid places; null stands for this machine, and for no
        // further calls, which are unnecessary because a list of any length is returned.
        check_error(unsafe {
            (self.members)(
                null(),
                wide(group).as_ptr(),
                0,
                &raw mut list,
                MAX_PREFERRED_LENGTH,
                &raw mut read,
                &raw mut total,
                null_mut(),
            )
        })?;
        let entries = list.cast::<LOCALGROUP_MEMBERS_INFO_0>();
        let entries = (0..read as usize).map(|index| {
            // SAFETY: Windows has created a list of this many such structures, with their SIDs in it, aligned for them.
            sid_text(unsafe { (*entries.add(index)).lgrmi0_sid })
        });
        let members = entries.collect();
        self.drop_list(list);
        members
    }

    /// Returns the local groups of a user, including those of which it is a member through other groups.
    fn groups_of(&self, user: &str) -> io::Result<Vec<String>> {
        let (mut list, mut read, mut total): (*mut c_void, u32, u32) = (null_mut(), 0, 0);
        // SAFETY: as above.
        check_error(unsafe {
            (self.groups_of)(
                null(),
                wide(user).as_ptr(),
                0,
                LG_INCLUDE_INDIRECT,
                &raw mut list,
                MAX_PREFERRED_LENGTH,
                &raw mut read,
                &raw mut total,
            )
        })?;
        let entries = list.cast::<LOCALGROUP_USERS_INFO_0>();
        let entries = (0..read as usize).map(|index| {
            // SAFETY: Windows has created a list of this many such structures, with nul-terminated names, aligned for them.
            unsafe { text_at((*entries.add(index)).lgrui0_name) }
        });
        let groups = entries.collect();
        self.drop_list(list);
        Ok(groups)
    }

    fn drop_list(&self, list: *mut c_void) {
        if !list.is_null() {
            // SAFETY: the list comes from the same library, is freed once and not used after that.
            unsafe { (self.free)(list) };
        }
    }
}

impl Drop for NetApi {
    fn drop(&mut self) {
        // SAFETY: we loaded the library, and its functions are dropped with `self`.
        unsafe { FreeLibrary(self.library) };
    }
}

/// Opens the token of this process for reading.
pub fn own_token() -> io::Result<OwnedHandle> {
    let mut token: HANDLE = null_mut();
    // SAFETY: the result goes to a valid place, and nothing else owns it.
    unsafe {
        let this = GetCurrentProcess();
        check(OpenProcessToken(this, TOKEN_QUERY, &raw mut token))?;
        owned(token)
    }
}

fn own_account() -> io::Result<String> {
    let token = own_token()?;
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
