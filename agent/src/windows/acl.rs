//! Sets access lists: every account can write below `C:\` by default.

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

use super::accounts::{Accounts, sid_text};
use super::win32::{check, check_error, size, wide};

/// Folders and pipes for SYSTEM and Administrators alone; what is made in the folders inherits that.
pub const PRIVATE: &str = "O:BAD:P(A;OICI;FA;;;SY)(A;OICI;FA;;;BA)";
/// Programs: everybody may read and run them.
pub const PROGRAM: &str = "O:BAD:P(A;;FA;;;SY)(A;;FA;;;BA)(A;;0x1200a9;;;BU)";
/// The folder of the programs, where it has to be made.
pub const PROGRAM_FOLDER: &str = "O:BAD:P(A;OICI;FA;;;SY)(A;OICI;FA;;;BA)(A;OICI;0x1200a9;;;BU)";

/// What is left of an entry's flags where it is no longer said to be inherited.
const OWN: u8 = !0x10;

/// A security descriptor from its text form.
pub struct Descriptor(PSECURITY_DESCRIPTOR);

impl Descriptor {
    /// Parses the text form.
    pub fn parse(sddl: &str) -> io::Result<Self> {
        let mut descriptor: PSECURITY_DESCRIPTOR = null_mut();
        // SAFETY: the text is terminated by nul and the result goes to a valid place; a null size is allowed.
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

    /// For calls that make something; valid while `self` lives.
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
        // SAFETY: the descriptor was allocated by Windows for us and is freed once.
        unsafe { LocalFree(self.0.cast::<c_void>()) };
    }
}

/// A file, a folder or a link itself, held open: what is asked and changed is of one and the same thing, whatever is put in its
/// place meanwhile.
pub struct Opened(File);

impl Opened {
    /// For questions.
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

    /// Whether it is a link to elsewhere: a junction, a symbolic link, a mount point.
    pub fn is_link(&self) -> bool {
        self.0.metadata().map_or(true, |there| there.is_symlink())
    }

    fn is_folder(&self) -> bool {
        self.0.metadata().is_ok_and(|there| there.is_dir())
    }

    /// To whom it belongs, and who may do what with it.
    pub fn security(&self) -> io::Result<Security> {
        self.with_list(|owner, list| {
            let grants = match list {
                Some(list) => list.grants()?,
                // Without a list everybody may do everything.
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

    /// Asks for the owner and the access list, which live as long as `look` runs.
    fn with_list<T>(
        &self,
        look: impl FnOnce(PSID, Option<List>) -> io::Result<T>,
    ) -> io::Result<T> {
        let (mut owner, mut list, mut descriptor) = (null_mut(), null_mut(), null_mut());
        // SAFETY: the handle lives as long as `self`; the results go to valid places, and null stands for "not asked for".
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
        // SAFETY: Windows allocated the descriptor, which owner and list are parts of, for us; it is freed once.
        unsafe { LocalFree(descriptor) };
        seen
    }

    fn set(&self, which: u32, owner: PSID, list: *const ACL) -> io::Result<()> {
        // SAFETY: the handle lives as long as `self`, and the callers have owner and list that live longer than this call.
        check_error(unsafe {
            SetSecurityInfo(
                self.0.as_raw_handle(),
                SE_FILE_OBJECT,
                which | DACL_SECURITY_INFORMATION | PROTECTED_DACL_SECURITY_INFORMATION,
                owner,
                null_mut(),
                list,
                null_mut(),
            )
        })
    }

    /// Gives it the owner and the access list of the text, and stops inheritance from above.
    fn protect(&self, sddl: &str) -> io::Result<()> {
        let descriptor = Descriptor::parse(sddl)?;
        let raw = descriptor.0;
        let (mut ignored, mut list, mut owner) = (0, null_mut(), null_mut());
        let flag = &raw mut ignored;
        // SAFETY: the descriptor is valid, all results go to valid places, and what they point to lives as long as the descriptor.
        unsafe {
            check(GetSecurityDescriptorDacl(raw, flag, &raw mut list, flag))?;
            check(GetSecurityDescriptorOwner(raw, &raw mut owner, flag))?;
        }
        self.set(OWNER_SECURITY_INFORMATION, owner, list)
    }
}

/// The access list of something that is open.
struct List(*mut ACL);

impl List {
    /// The entries, whatever they are: of those of other kinds only the header is there.
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

    /// The entries that allow something.
    fn entries(&self) -> impl Iterator<Item = *mut ACCESS_ALLOWED_ACE> {
        self.all().filter(|entry| {
            // SAFETY: every entry begins with its header. Entries of these kinds have their rights and SID at the same place.
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

/// Gives a file the owner and the access list of the text, and stops inheritance from above.
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

/// Takes the right to write in a folder from all that are no administrators, and nothing else from anybody; whether there was
/// something to take.
pub fn take_writing_away(folder: &str, accounts: &Accounts) -> io::Result<bool> {
    let there = Opened::open(
        folder,
        READ_CONTROL | FILE_READ_ATTRIBUTES | WRITE_DAC | WRITE_OWNER,
    )?;
    there.with_list(|_, list| {
        // Without a list everybody may do everything, and nobody is named from whom it could be taken.
        let Some(list) = list else {
            return there.protect(PROGRAM_FOLDER).map(|()| true);
        };
        let grants = list.grants()?;
        let trusts = |account: &str| accounts.trusts(account);
        let kept = |grant: &Grant| reduced(&grant.account, grant.rights, trusts);
        if grants.iter().all(|grant| kept(grant) == grant.rights) {
            return Ok(false);
        }
        for (entry, grant) in list.entries().zip(&grants) {
            // SAFETY: the entry is part of a copy of the list that is ours, and of the kind that has these fields.
            unsafe { (*entry).Mask = kept(grant) };
        }
        for entry in list.all() {
            // SAFETY: as above. What came down from above is the folder's own from now on: Windows leaves out what says that it
            // is inherited where nothing is to be.
            unsafe { (*entry).Header.AceFlags &= OWN };
        }
        there.set(0, null_mut(), list.0).map(|()| true)
    })
}

/// Makes a folder with the given access list, or gives it to one that is there. What is missing on the way to it is for
/// administrators to change, too.
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
        // An account without rights may have laid a link here, to lead SYSTEM elsewhere.
        return Err(not_here());
    }
    there.protect(sddl)
}

fn not_here() -> io::Error {
    let why = "there is a link or a file of another kind in its place";
    io::Error::new(io::ErrorKind::NotADirectory, why)
}

/// Makes what is missing on the way to a folder. What it would inherit from `C:\` lets every account rename what is in it, and
/// put another folder or a link in its place.
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
    // SAFETY: the name is terminated by nul; the attributes point to the living descriptor.
    check(unsafe { CreateDirectoryW(wide(folder).as_ptr(), &descriptor.attributes()) })
}
