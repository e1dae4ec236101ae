//! What is freed holds no secrets.
//!
//! An SSH key comes from the API server by way of buffers of five libraries before it is ours to wipe: of TLS, HTTP, lines,
//! JSON, base64; and it goes on to libssh2 and OpenSSL. None of them wipes what it frees. The allocator does, for all of
//! them, at the price of one more write of memory that is in the processor's cache mostly.

#[cfg(all(target_os = "linux", target_env = "gnu"))]
mod libraries;

use std::alloc::{GlobalAlloc, Layout, System};

/// Blocks from this size on have pages of their own and go back to the kernel when they are freed, which wipes them; see
/// [`crate::memory::keep_little`]. To wipe them as well would touch pages that were never used.
pub(crate) const MAPPED: u32 = 64 * 1024;
const MAPPED_SIZE: usize = MAPPED as usize;

/// Whether what the system's allocator is made of wipes by itself.
const BELOW: bool = cfg!(all(target_os = "linux", target_env = "gnu"));

/// The system's allocator, which leaves nothing in the blocks that it frees.
pub struct Wiping;

// SAFETY: Memory comes from the system's allocator and goes back to it with the layout that it was asked for; before that
// nothing but that very block is written.
unsafe impl GlobalAlloc for Wiping {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        if !BELOW && layout.size() < MAPPED_SIZE {
            // SAFETY: the block is still the caller's, of this size, and is used no more.
            unsafe { wipe(block, layout.size()) };
        }
        // SAFETY: the caller's.
        unsafe { System.dealloc(block, layout) };
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if BELOW || layout.size() >= MAPPED_SIZE && size >= MAPPED_SIZE {
            // The kernel moves pages, and wipes those that are left over; see also `libraries`.
            // SAFETY: the caller's.
            return unsafe { System.realloc(block, layout, size) };
        }
        // The system's allocator would leave the old block as it is.
        // SAFETY: the caller vouches for size and alignment; the blocks differ, and the smaller size is in both.
        unsafe {
            let new = self.alloc(Layout::from_size_align_unchecked(size, layout.align()));
            if !new.is_null() {
                std::ptr::copy_nonoverlapping(block, new, layout.size().min(size));
                self.dealloc(block, layout);
            }
            new
        }
    }
}

/// # Safety
///
/// The block must be valid for writes of that many bytes.
#[inline]
unsafe fn wipe(block: *mut u8, size: usize) {
    #[cfg(target_os = "linux")]
    // SAFETY: the caller's. The compiler may leave out a plain write to what is freed next, but not this one.
    unsafe {
        libc::explicit_bzero(block.cast(), size);
    }
    #[cfg(not(target_os = "linux"))]
    // SAFETY: the caller's; any byte is a valid u8 once it was written.
    unsafe {
        std::ptr::write_bytes(block, 0, size);
        zeroize::Zeroize::zeroize(std::slice::from_raw_parts_mut(block, size));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What lies in a block after it was freed is the system allocator's, which keeps pointers at its beginning.
    pub(super) const POINTERS: usize = 32;

    fn layout(size: usize) -> Layout {
        Layout::from_size_align(size, 16).unwrap()
    }

    /// Counts a byte in the process's own memory, which the kernel shows also where it is freed.
    pub(super) fn count(at: *const u8, size: usize, byte: u8) -> usize {
        use std::io::{Read, Seek, SeekFrom};
        let mut memory = std::fs::File::open("/proc/self/mem").unwrap();
        memory.seek(SeekFrom::Start(at as u64)).unwrap();
        let mut seen = vec![0; size];
        memory.read_exact(&mut seen).unwrap();
        seen.into_iter().filter(|seen| *seen == byte).count()
    }

    #[test]
    fn what_is_freed_or_moved_leaves_nothing_behind() {
        const SIZE: usize = 4000;
        // SAFETY: each block is used as long as it is allocated, and given back with its layout.
        unsafe {
            let block = Wiping.alloc(layout(SIZE));
            block.write_bytes(0xA7, SIZE);
            assert_eq!(count(block, SIZE, 0xA7), SIZE);
            let moved = Wiping.realloc(block, layout(SIZE), 2 * SIZE);
            assert_ne!(moved, block);
            assert_eq!(count(moved, SIZE, 0xA7), SIZE, "what was in it moves along");
            let left = count(block, SIZE, 0xA7);
            assert!(left <= POINTERS, "{left} bytes are left");
            Wiping.dealloc(moved, layout(2 * SIZE));
            let left = count(moved, SIZE, 0xA7);
            assert!(left <= POINTERS, "{left} bytes are left");
        }
    }

    #[test]
    fn blocks_of_all_sizes_keep_their_content_when_they_grow_and_shrink() {
        let mut text = Vec::new();
        for size in 0..300_000_usize {
            text.push(u8::try_from(size % 251).unwrap());
        }
        // SAFETY: as above.
        unsafe {
            let mut size = 1;
            let mut block = Wiping.alloc(layout(size));
            block.write(text[0]);
            for next in [
                3, 100, 65_535, 65_536, 65_537, 300_000, 70_000, 65_536, 65_535, 1000, 7,
            ] {
                block = Wiping.realloc(block, layout(size), next);
                let kept = size.min(next);
                assert_eq!(
                    std::slice::from_raw_parts(block, kept),
                    &text[..kept],
                    "{next}"
                );
                block.copy_from_nonoverlapping(text.as_ptr(), next);
                size = next;
            }
            Wiping.dealloc(block, layout(size));
        }
    }
}
