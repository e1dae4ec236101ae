//! Access lists: what is below `C:\` is writable for every account unless said otherwise.

use std::ffi::c_void;
use std::io;
use std::os::windows::fs::MetadataExt;
use std::path::Path;
use std::ptr::null_mut;

use windows_sys::Win32::Foundation::LocalFree;
use windows_sys::Win32::Security::Authorization::{
    ConvertStringSecurityDescriptorToSecurityDescriptorW, SDDL_REVISION_1, SE_FILE_OBJECT,
    SetNamedSecurityInfoW,
};
use windows_sys::Win32::Security::{
    DACL_SECURITY_INFORMATION, GetSecurityDescriptorDacl, GetSecurityDescriptorOwner,
    OWNER_SECURITY_INFORMATION, PROTECTED_DACL_SECURITY_INFORMATION, PSECURITY_DESCRIPTOR,
    SECURITY_ATTRIBUTES,
};
use windows_sys::Win32::Storage::FileSystem::{CreateDirectoryW, FILE_ATTRIBUTE_REPARSE_POINT};

use super::win32::{check, check_error, size, wide};

/// Folders and pipes for SYSTEM and Administrators alone; what is made in the folders inherits that.
pub const PRIVATE: &str = "O:BAD:P(A;OICI;FA;;;SY)(A;OICI;FA;;;BA)";
/// Programs: everybody may read and run them.
pub const PROGRAM: &str = "O:BAD:P(A;;FA;;;SY)(A;;FA;;;BA)(A;;0x1200a9;;;BU)";
/// The folder of the programs, where it has to be made.
pub const PROGRAM_FOLDER: &str = "O:BAD:P(A;OICI;FA;;;SY)(A;OICI;FA;;;BA)(A;OICI;0x1200a9;;;BU)";

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

/// Gives a file or folder the owner and the access list of the text, and stops inheritance from above.
pub fn protect(path: &str, sddl: &str) -> io::Result<()> {
    let descriptor = Descriptor::parse(sddl)?;
    let raw = descriptor.0;
    let (mut ignored, mut list, mut owner) = (0, null_mut(), null_mut());
    let flag = &raw mut ignored;
    // SAFETY: the descriptor is valid, all results go to valid places, and what they point to lives as long as the descriptor.
    unsafe {
        check(GetSecurityDescriptorDacl(raw, flag, &raw mut list, flag))?;
        check(GetSecurityDescriptorOwner(raw, &raw mut owner, flag))?;
    }
    let which = OWNER_SECURITY_INFORMATION
        | DACL_SECURITY_INFORMATION
        | PROTECTED_DACL_SECURITY_INFORMATION;
    let (path, none) = (wide(path), null_mut());
    // SAFETY: the name is terminated by nul; owner and list are parts of the living descriptor.
    check_error(unsafe {
        SetNamedSecurityInfoW(
            path.as_ptr(),
            SE_FILE_OBJECT,
            which,
            owner,
            none,
            list,
            null_mut(),
        )
    })
}

/// Makes a folder with the given access list, or gives it to one that is there. What is missing on the way to it is for
/// administrators to change, too.
pub fn make_folder(path: &str, sddl: &str) -> io::Result<()> {
    make_way(Path::new(path).parent())?;
    let Err(error) = create(path, sddl) else {
        return Ok(());
    };
    let Ok(there) = std::fs::symlink_metadata(path) else {
        return Err(error);
    };
    if !there.is_dir() || is_link(path) {
        // An account without rights may have laid a link here, to lead SYSTEM elsewhere.
        let why = "there is a link or a file in the folder's place";
        return Err(io::Error::new(io::ErrorKind::NotADirectory, why));
    }
    protect(path, sddl)
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

/// Whether a path is a link to elsewhere: a junction, a symbolic link, a mount point.
pub fn is_link(path: &str) -> bool {
    std::fs::symlink_metadata(path)
        .is_ok_and(|there| there.file_attributes() & FILE_ATTRIBUTE_REPARSE_POINT != 0)
}
