//! What is kept of memory that is no longer used.
//!
//! Lists and uploads take megabytes for a moment. By default glibc keeps them: it makes an arena for each thread, and the
//! larger the blocks that were freed, the more it holds back for later. On a cluster of 20,000 pods that was four times as
//! much as what is in use.

#[cfg(all(target_os = "linux", target_env = "gnu"))]
mod glibc {
    /// One arena: the threads that allocate at the same time are few.
    const ARENAS: libc::c_int = 1;
    /// Free memory at the end of the heap is given back from this size on, in bytes.
    const TRIM: libc::c_int = 128 * 1024;
    /// Blocks of this size have pages of their own, which go back when they are freed, in bytes. To set it also keeps
    /// glibc from raising it. Source: mallopt(3).
    const MAPPED: libc::c_int = crate::wiping::MAPPED.cast_signed();

    pub fn keep_little() {
        for (parameter, value) in [
            (libc::M_ARENA_MAX, ARENAS),
            (libc::M_TRIM_THRESHOLD, TRIM),
            (libc::M_MMAP_THRESHOLD, MAPPED),
        ] {
            // SAFETY: mallopt takes any numbers and changes nothing of what is allocated. Without success the default
            // stays, which only costs memory.
            unsafe { libc::mallopt(parameter, value) };
        }
    }

    pub fn give_back() {
        // SAFETY: malloc_trim may be called at any time from any thread and leaves alone what is allocated.
        unsafe { libc::malloc_trim(0) };
    }
}

#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
mod programs {
    use std::ffi::{c_int, c_void};
    use std::slice;

    /// Has the kernel map anew what is used of the program and of its libraries.
    pub fn unmap() {
        // SAFETY: The callback fits, and keeps nothing of what it is given.
        unsafe { libc::dl_iterate_phdr(Some(unmap_object), std::ptr::null_mut()) };
    }

    unsafe extern "C" fn unmap_object(
        object: *mut libc::dl_phdr_info,
        _size: usize,
        _data: *mut c_void,
    ) -> c_int {
        // SAFETY: Both are valid during the callback. Source: dl_iterate_phdr(3).
        let (base, segments) = unsafe {
            let object = &*object;
            let count = usize::from(object.dlpi_phnum);
            (
                object.dlpi_addr,
                slice::from_raw_parts(object.dlpi_phdr, count),
            )
        };
        // SAFETY: sysconf only answers.
        let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
        let Ok(page) = u64::try_from(page) else {
            return 0;
        };
        let is_read_only = |segment: &&libc::Elf64_Phdr| {
            segment.p_type == libc::PT_LOAD && segment.p_flags & libc::PF_W == 0
        };
        for segment in segments.iter().filter(is_read_only) {
            let begin = base + segment.p_vaddr;
            let end = begin + segment.p_memsz;
            let begin = begin - begin % page;
            let Ok(length) = usize::try_from(end - begin) else {
                continue;
            };
            // SAFETY: A segment that the file says is never written, not even by relocations, has the file's content, and
            // the next access maps that again. What is filled in at the start and read-only afterwards (RELRO) belongs
            // to a segment that is written. Without success all stays mapped.
            unsafe { libc::madvise(begin as *mut c_void, length, libc::MADV_DONTNEED) };
        }
        0
    }
}

/// Makes the allocator keep little of what is freed. To be called before there are other threads.
pub fn keep_little() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    glibc::keep_little();
}

/// Gives whole free pages back to the system, which takes some milliseconds.
pub fn give_back() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    glibc::give_back();
}

/// Lets go of what was used of the program's and its libraries' files, most of it at the start only: the kernel maps 64 KiB
/// around each place that is touched, and never fewer. What is used from now on is mapped again from its page cache.
pub fn unmap_programs() {
    #[cfg(all(target_os = "linux", target_pointer_width = "64"))]
    programs::unmap();
}

#[cfg(test)]
#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
mod tests {
    use super::*;

    fn resident_of_files() -> u64 {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find(|line| line.starts_with("RssFile:"));
        let kilobytes = line.unwrap().split_whitespace().nth(1).unwrap();
        kilobytes.parse().unwrap()
    }

    #[test]
    fn what_is_not_used_any_more_of_programs_is_unmapped_and_comes_back_when_it_is() {
        let digest = || crate::payload::sha256_hex(b"abc");
        let (before, resident) = (digest(), resident_of_files());
        // Tests beside this one have theirs mapped again at the same time.
        let is_less = (0..20).any(|_| {
            unmap_programs();
            resident_of_files() < resident * 3 / 4
        });
        assert!(is_less, "{resident} kB, then {} kB", resident_of_files());
        assert_eq!(digest(), before);
    }
}
