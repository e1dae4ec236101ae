//! Sets access control lists: by default every account can write below `C:\`.

use std::ffi::c_void;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::windows::fs::OpenOptionsExt;
use std::os::windows::io::AsRawHandle;
use std::path::Path;
use std::ptr::null_mut;

use windows_storage_agent::owners::{ALL, EVERYONE, Grant, Security, reduced};
use windows_sys::Win32::Foundation::LocalFree;
use windows_sys::Win32::Security::Authorization::{
    ConvertStringSecurityDescriptorToSecurityDescriptorW, GetSecurityInfo, SDDL_REVISION_1,
    SE_FILE_OBJECT, SetSecurityInfo,
};
use windows_sys::Win32::Security::{
    ACCESS_ALLOWED_ACE, ACL, DACL_SECURITY_INFORMATION, GetAce, GetSecurityDescriptorDacl,
    GetSecurityDescriptorOwner, INHERIT_ONLY_ACE, OWNER_SECURITY_INFORMATION,
    PROTECTED_DACL_SECURITY_INFORMATION, PSECURITY_DESCRIPTOR, PSID, SECURITY_ATTRIBUTES,
};
use windows_sys::Win32::Storage::FileSystem::{
    CreateDirectoryW, FILE_FLAG_BACKUP_SEMANTICS, FILE_FLAG_OPEN_REPARSE_POINT,
    FILE_READ_ATTRIBUTES, READ_CONTROL, WRITE_DAC, WRITE_OWNER,
};
use windows_sys::Win32::System::SystemServices::{
    ACCESS_ALLOWED_ACE_TYPE, ACCESS_ALLOWED_CALLBACK_ACE_TYPE,
};

use super::accounts::{own_account, sid_text};
use super::win32::{check, check_error, size, wide};

/// For folders: only SYSTEM and Administrators have access; objects created in the folders inherit that.
pub const PRIVATE: &str = "O:BAD:P(A;OICI;FA;;;SY)(A;OICI;FA;;;BA)";
/// For programs: every user may read and run them.
pub const PROGRAM: &str = "O:BAD:P(A;;FA;;;SY)(A;;FA;;;BA)(A;;0x1200a9;;;BU)";
/// For the programs' folder, if the agent creates it.
pub const PROGRAM_FOLDER: &str = "O:BAD:P(A;OICI;FA;;;SY)(A;OICI;FA;;;BA)(A;OICI;0x1200a9;;;BU)";

/// What is set where a list replaces the one before and inheritance is disabled.
const LIST: u32 = DACL_SECURITY_INFORMATION | PROTECTED_DACL_SECURITY_INFORMATION;
/// A mask that clears the flag `INHERITED_ACE`.
const OWN: u8 = !0x10;

/// A security descriptor parsed from SDDL.
pub struct Descriptor(PSECURITY_DESCRIPTOR);

impl Descriptor {
    /// Parses a security descriptor.
    pub fn parse(sddl: &str) -> io::Result<Self> {
        let mut descriptor: PSECURITY_DESCRIPTOR = null_mut();
        // SAFETY: the string is nul-terminated and the result goes to a valid place; a null size is allowed.
        check(unsafe {
            ConvertStringSecurityDescriptorToSecurityDescriptorW(
                wide(sddl).as_ptr(),
                SDDL_REVISION_1,
                &raw mut descriptor,
                null_mut(),
            )
        })?;
        Ok(Self(descriptor))
    }

    /// Returns the owner that it names; valid while `self` lives.
    fn owner(&self) -> io::Result<PSID> {
        let (mut ignored, mut owner) = (0, null_mut());
        // SAFETY: the descriptor is valid, and the results go to valid places.
        check(unsafe { GetSecurityDescriptorOwner(self.0, &raw mut owner, &raw mut ignored) })?;
        Ok(owner)
    }

    /// Returns attributes for calls that create an object; valid while `self` lives.
    pub fn attributes(&self) -> SECURITY_ATTRIBUTES {
        SECURITY_ATTRIBUTES {
            nLength: size(size_of::<SECURITY_ATTRIBUTES>()),
            lpSecurityDescriptor: self.0,
            bInheritHandle: 0,
        }
    }
}

impl Drop for Descriptor {
    fn drop(&mut self) {
        // SAFETY: Windows allocated the descriptor for us, and it is freed once.
        unsafe { LocalFree(self.0.cast::<c_void>()) };
    }
}

/// An open file, folder or link. All calls refer to the same object, even if another one takes its path meanwhile.
pub struct Opened(File);

impl Opened {
    /// Opens an object to read its security.
    pub fn read(path: &str) -> io::Result<Self> {
        Self::open(path, READ_CONTROL | FILE_READ_ATTRIBUTES)
    }

    fn open(path: &str, access: u32) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        options
            .access_mode(access)
            .custom_flags(FILE_FLAG_BACKUP_SEMANTICS | FILE_FLAG_OPEN_REPARSE_POINT);
        options.open(path).map(Self)
    }

    /// Returns whether it is a link to elsewhere: a junction, a symbolic link or a mount point.
    pub fn is_link(&self) -> bool {
        self.0.metadata().map_or(true, |there| there.is_symlink())
    }

    fn is_folder(&self) -> bool {
        self.0.metadata().is_ok_and(|there| there.is_dir())
    }

    /// Returns the owner and the access control list.
    pub fn security(&self) -> io::Result<Security> {
        self.with_list(|owner, list| {
            let grants = match list {
                Some(list) => list.grants()?,
                // Without a list every account has full access.
                None => vec![Grant {
                    account: EVERYONE.to_owned(),
                    rights: ALL,
                    inherit_only: false,
                }],
            };
            let owner = sid_text(owner)?;
            Ok(Security { owner, grants })
        })
    }

    /// Reads the owner and the access control list, which live as long as `look` runs.
    fn with_list<T>(
        &self,
        look: impl FnOnce(PSID, Option<List>) -> io::Result<T>,
    ) -> io::Result<T> {
        let (mut owner, mut list, mut descriptor) = (null_mut(), null_mut(), null_mut());
        // SAFETY: the handle lives as long as `self`; the results go to valid places, and null stands for "not requested".
        check_error(unsafe {
            GetSecurityInfo(
                self.0.as_raw_handle(),
                SE_FILE_OBJECT,
                OWNER_SECURITY_INFORMATION | DACL_SECURITY_INFORMATION,
                &raw mut owner,
                null_mut(),
                &raw mut list,
                null_mut(),
                &raw mut descriptor,
            )
        })?;
        let seen = look(owner, (!list.is_null()).then_some(List(list)));
        // SAFETY: Windows allocated the descriptor for us; the owner and the list are parts of it. It is freed once.
        unsafe { LocalFree(descriptor) };
        seen
    }

    fn set(&self, which: u32, owner: PSID, list: *const ACL) -> io::Result<()> {
        // SAFETY: the handle lives as long as `self`, and the callers pass an owner and a list that outlive this call.
        check_error(unsafe {
            SetSecurityInfo(
                self.0.as_raw_handle(),
                SE_FILE_OBJECT,
                which,
                owner,
                null_mut(),
                list,
                null_mut(),
            )
        })
    }

    /// Sets the owner and the access control list from SDDL, and disables inheritance.
    fn protect(&self, sddl: &str) -> io::Result<()> {
        let descriptor = Descriptor::parse(sddl)?;
        let (mut ignored, mut list) = (0, null_mut());
        let flag = &raw mut ignored;
        // SAFETY: the descriptor is valid, all results go to valid places, and the list lives as long as the descriptor.
        check(unsafe { GetSecurityDescriptorDacl(descriptor.0, flag, &raw mut list, flag) })?;
        self.set(OWNER_SECURITY_INFORMATION | LIST, descriptor.owner()?, list)
    }
}

/// The access control list of an open object.
struct List(*mut ACL);

impl List {
    /// Returns all entries. For entries of unknown types only the header is valid.
    fn all(&self) -> impl Iterator<Item = *mut ACCESS_ALLOWED_ACE> {
        // SAFETY: the list is Windows' own and lives as long as the descriptor that it is part of.
        let count = unsafe { (*self.0).AceCount };
        (0..u32::from(count)).filter_map(|index| {
            let mut entry = null_mut();
            // SAFETY: the list is valid, and the result, which points into it, goes to a valid place.
            check(unsafe { GetAce(self.0, index, &raw mut entry) }).ok()?;
            Some(entry.cast::<ACCESS_ALLOWED_ACE>())
        })
    }

    /// Returns the entries that allow access.
    fn entries(&self) -> impl Iterator<Item = *mut ACCESS_ALLOWED_ACE> {
        self.all().filter(|entry| {
            // SAFETY: every entry begins with its header. Entries of these types have their rights and SID at the same
            // place.
            let kind = u32::from(unsafe { (**entry).Header.AceType });
            [ACCESS_ALLOWED_ACE_TYPE, ACCESS_ALLOWED_CALLBACK_ACE_TYPE].contains(&kind)
        })
    }

    fn grants(&self) -> io::Result<Vec<Grant>> {
        let grant = |entry: *mut ACCESS_ALLOWED_ACE| {
            // SAFETY: the entry lives as long as the list, and ends with its SID.
            let (flags, rights, sid) = unsafe {
                let sid = (&raw mut (*entry).SidStart).cast();
                ((*entry).Header.AceFlags, (*entry).Mask, sid)
            };
            Ok(Grant {
                account: sid_text(sid)?,
                rights,
                inherit_only: u32::from(flags) & INHERIT_ONLY_ACE != 0,
            })
        };
        self.entries().map(grant).collect()
    }
}

/// Sets the owner and the access control list of a file from SDDL, and disables inheritance.
pub fn protect(path: &str, sddl: &str) -> io::Result<()> {
    let there = Opened::open(
        path,
        READ_CONTROL | FILE_READ_ATTRIBUTES | WRITE_DAC | WRITE_OWNER,
    )?;
    if there.is_link() {
        return Err(not_here());
    }
    there.protect(sddl)
}

/// Removes write access to a folder from all accounts that are not trusted, and no other rights; a folder of the calling
/// account becomes the administrators'. Returns whether there was any right to remove.
pub fn take_writing_away(folder: &str) -> io::Result<bool> {
    let own = own_account()?;
    let there = Opened::open(
        folder,
        READ_CONTROL | FILE_READ_ATTRIBUTES | WRITE_DAC | WRITE_OWNER,
    )?;
    there.with_list(|owner, list| {
        // Without a list every account has full access, and there is no entry to restrict.
        let Some(list) = list else {
            return there.protect(PROGRAM_FOLDER).map(|()| true);
        };
        let grants = list.grants()?;
        let kept = |grant: &Grant| reduced(&grant.account, grant.rights, &own);
        let takes = grants.iter().any(|grant| kept(grant) != grant.rights);
        // The service, which runs as another account, would not trust this one.
        let gives = sid_text(owner)? == own;
        if gives {
            let administrators = Descriptor::parse("O:BA")?;
            there.set(
                OWNER_SECURITY_INFORMATION,
                administrators.owner()?,
                null_mut(),
            )?;
        }
        if !takes {
            return Ok(false);
        }
        for (entry, grant) in list.entries().zip(&grants) {
            // SAFETY: the entry is part of our copy of the list, and its type has these fields.
            unsafe { (*entry).Mask = kept(grant) };
        }
        for entry in list.all() {
            // SAFETY: as above. Inherited entries become the folder's own: Windows drops entries that are marked as
            // inherited when inheritance is disabled.
            unsafe { (*entry).Header.AceFlags &= OWN };
        }
        there.set(LIST, null_mut(), list.0).map(|()| true)
    })
}

/// Creates a folder with the given access control list, or sets it on an existing folder. Missing parent folders are created
/// so that only administrators can change them.
pub fn make_folder(path: &str, sddl: &str) -> io::Result<()> {
    make_way(Path::new(path).parent())?;
    let Err(error) = create(path, sddl) else {
        return Ok(());
    };
    let access = READ_CONTROL | FILE_READ_ATTRIBUTES | WRITE_DAC | WRITE_OWNER;
    let there = match Opened::open(path, access) {
        Err(gone) if gone.kind() == io::ErrorKind::NotFound => return Err(error),
        opened => opened?,
    };
    if !there.is_folder() || there.is_link() {
        // An unprivileged account may have created a link here that makes SYSTEM write elsewhere.
        return Err(not_here());
    }
    there.protect(sddl)
}

fn not_here() -> io::Error {
    let why = "there is a link or a file of another kind in its place";
    io::Error::new(io::ErrorKind::NotADirectory, why)
}

/// Creates the missing parents of a folder. With the permissions inherited from `C:\`, every account could rename their
/// content and put another folder or a link in its place.
fn make_way(folder: Option<&Path>) -> io::Result<()> {
    let parts = folder.into_iter().flat_map(Path::ancestors);
    let missing: Vec<&Path> = parts.take_while(|part| !part.exists()).collect();
    for part in missing.into_iter().rev() {
        let name = part.to_str().ok_or(io::ErrorKind::InvalidInput)?;
        match create(name, PROGRAM_FOLDER) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

fn create(folder: &str, sddl: &str) -> io::Result<()> {
    let descriptor = Descriptor::parse(sddl)?;
    // SAFETY: the name is nul-terminated; the attributes point to the living descriptor.
    check(unsafe { CreateDirectoryW(wide(folder).as_ptr(), &descriptor.attributes()) })
}
