//! What the allocator keeps of memory that is no longer used.
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
    const MAPPED: libc::c_int = 64 * 1024;

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
