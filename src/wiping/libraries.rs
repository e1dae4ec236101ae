//! The same for libraries in C: these stand before glibc's functions of the same name, for the whole process.
//!
//! glibc lets a program replace them, and has its own under a second name. Source: "Replacing malloc" in its manual.

use std::ffi::c_void;

use super::{MAPPED_SIZE, wipe};

unsafe extern "C" {
    fn __libc_malloc(size: usize) -> *mut c_void;
    fn __libc_realloc(block: *mut c_void, size: usize) -> *mut c_void;
    fn __libc_free(block: *mut c_void);
}

/// # Safety
///
/// As free(3).
#[unsafe(no_mangle)]
unsafe extern "C" fn free(block: *mut c_void) {
    if block.is_null() {
        return;
    }
    // SAFETY: The block is still the caller's, of the size that glibc tells, and is used no more.
    unsafe {
        let size = libc::malloc_usable_size(block);
        if size < MAPPED_SIZE {
            wipe(block.cast(), size);
        }
        __libc_free(block);
    }
}

/// # Safety
///
/// As realloc(3).
#[unsafe(no_mangle)]
unsafe extern "C" fn realloc(block: *mut c_void, size: usize) -> *mut c_void {
    // SAFETY: The caller's. What is copied is in both blocks, which differ.
    unsafe {
        if block.is_null() {
            return __libc_realloc(block, size);
        }
        if size == 0 {
            free(block);
            return std::ptr::null_mut();
        }
        let before = libc::malloc_usable_size(block);
        if before >= MAPPED_SIZE && size >= MAPPED_SIZE {
            // The kernel moves pages, and wipes those that are left over.
            return __libc_realloc(block, size);
        }
        let new = __libc_malloc(size);
        if !new.is_null() {
            std::ptr::copy_nonoverlapping(block.cast::<u8>(), new.cast(), before.min(size));
            free(block);
        }
        new
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{POINTERS, count};

    #[test]
    fn what_a_library_frees_or_moves_leaves_nothing_behind() {
        const SIZE: usize = 3000;
        // SAFETY: each block is used as long as it is allocated.
        unsafe {
            let block = libc::malloc(SIZE).cast::<u8>();
            block.write_bytes(0xB3, SIZE);
            let moved = libc::realloc(block.cast(), 2 * SIZE).cast::<u8>();
            assert_ne!(moved, block);
            assert_eq!(count(moved, SIZE, 0xB3), SIZE, "what was in it moves along");
            assert!(count(block, SIZE, 0xB3) <= POINTERS);
            libc::free(moved.cast());
            assert!(count(moved, SIZE, 0xB3) <= POINTERS);
        }
    }

    #[test]
    fn blocks_of_libraries_keep_their_content_when_they_grow_and_shrink() {
        // SAFETY: each block is used as long as it is allocated.
        unsafe {
            let mut block = libc::realloc(std::ptr::null_mut(), 1).cast::<u8>();
            block.write(7);
            let mut kept = 1;
            for size in [40, 65_000, 65_600, 300_000, 70_000, 65_000, 9] {
                block = libc::realloc(block.cast(), size).cast();
                for at in 0..kept.min(size) {
                    assert_eq!(block.add(at).read(), 7, "byte {at} of {size}");
                }
                block.write_bytes(7, size);
                kept = size;
            }
            assert!(libc::realloc(block.cast(), 0).is_null());
            libc::free(std::ptr::null_mut());
        }
    }
}
