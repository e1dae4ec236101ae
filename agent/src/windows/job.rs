//! Terminates a process together with its children, by a Windows job object.

use std::io;
use std::os::windows::io::{AsRawHandle, OwnedHandle};
use std::ptr::null;

use windows_sys::Win32::System::JobObjects::{
    AssignProcessToJobObject, CreateJobObjectW, JOB_OBJECT_LIMIT,
    JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE, JOBOBJECT_EXTENDED_LIMIT_INFORMATION,
    JobObjectExtendedLimitInformation, SetInformationJobObject,
};

use super::log;
use super::win32::{check, owned, size};

/// Terminates its processes when it is dropped, and also when this process ends in any way.
pub struct Job(OwnedHandle);

impl Job {
    /// Creates a job without processes.
    pub fn new() -> io::Result<Self> {
        // SAFETY: null stands for no security attributes and no name; the handle is new.
        let job = Self(unsafe { owned(CreateJobObjectW(null(), null())) }?);
        job.limit(JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE)?;
        Ok(job)
    }

    /// Adds a process, and all processes that it starts from now on.
    pub fn take(&self, process: &impl AsRawHandle) -> io::Result<()> {
        // SAFETY: both handles live as long as what they are borrowed from.
        check(unsafe { AssignProcessToJobObject(self.0.as_raw_handle(), process.as_raw_handle()) })
    }

    /// Lets the processes keep running when the job is dropped.
    pub fn let_go(&self) {
        log::unless_ok("letting processes live on", self.limit(0));
    }

    fn limit(&self, flags: JOB_OBJECT_LIMIT) -> io::Result<()> {
        let mut limits = JOBOBJECT_EXTENDED_LIMIT_INFORMATION::default();
        limits.BasicLimitInformation.LimitFlags = flags;
        // SAFETY: the handle lives as long as `self`; the structure has the given size.
        check(unsafe {
            SetInformationJobObject(
                self.0.as_raw_handle(),
                JobObjectExtendedLimitInformation,
                (&raw const limits).cast(),
                size(size_of_val(&limits)),
            )
        })
    }
}
