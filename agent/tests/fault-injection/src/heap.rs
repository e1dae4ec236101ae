//! A heap in which damage does not pass unseen, for the `unsafe` of this agent: buffers that Windows fills, structures
//! that it is handed.
//!
//! Each block takes pages of its own.
//! It ends where a page begins that nobody may touch, so reading or writing past its end ends the process at once,
//! whether we do it or Windows on our behalf. What is before it in its pages, and the bytes that its alignment leaves behind
//! it, are a pattern that is compared when it is freed. A block that was freed can no longer be touched, and its address is
//! given away again only after many thousand others. Fresh memory is no zeros, so that what was never written shows.
//!
//! It sees nothing of what Windows allocates itself, and of what is before a block only writing, within its pages. A call
//! that the kernel itself carries out ends nothing either: it fails with `ERROR_NOACCESS`, as the call's caller will report.
//!
//! What it finds is added to the file `heap.damage` in the agent's folder. `heap.trial` there names a fault to commit, by
//! which a test knows that such are found.

use std::alloc::{GlobalAlloc, Layout};
use std::fs::OpenOptions;
use std::hint::black_box;
use std::io::Write;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use protocol::paths::STATE_DIR;
use windows_sys::Win32::Foundation::STATUS_ACCESS_VIOLATION;
use windows_sys::Win32::Security::IsValidSid;
use windows_sys::Win32::System::Diagnostics::Debug::{
    AddVectoredExceptionHandler, EXCEPTION_CONTINUE_SEARCH, EXCEPTION_POINTERS,
    SetUnhandledExceptionFilter,
};
use windows_sys::Win32::System::Memory::{
    MEM_COMMIT, MEM_DECOMMIT, MEM_RELEASE, MEM_RESERVE, PAGE_NOACCESS, PAGE_READWRITE,
    VirtualAlloc, VirtualFree,
};
use windows_sys::Win32::System::SystemInformation::GetWindowsDirectoryW;
use windows_sys::Win32::System::Threading::{GetCurrentProcess, TerminateProcess};

const PAGE: usize = 4096;
const AROUND: u8 = 0xFD;
const FRESH: u8 = 0xCD;
/// How many freed blocks are kept from being given away again: 64 KiB of addresses each, and no memory.
const KEPT: usize = 16_384;

static FREED: [AtomicPtr<u8>; KEPT] = [const { AtomicPtr::new(ptr::null_mut()) }; KEPT];
static NEXT: AtomicUsize = AtomicUsize::new(0);

#[global_allocator]
static HEAP: Guarded = Guarded;

struct Guarded;

/// How a block lies in its pages.
struct Place {
    /// Bytes of the pages in front of the page that nobody may touch.
    pages: usize,
    /// Where in them the block begins.
    start: usize,
}

impl Place {
    fn of(layout: Layout) -> Self {
        let pages = layout.size().next_multiple_of(PAGE);
        let start = pages - layout.size().next_multiple_of(layout.align());
        Self { pages, start }
    }
}

// SAFETY: a block is committed memory of its own that begins at a multiple of the alignment, as pages do and what is taken from their
// end is one; it stays so until it is freed.
unsafe impl GlobalAlloc for Guarded {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if layout.align() > PAGE {
            return ptr::null_mut();
        }
        let place = Place::of(layout);
        // The last page is never committed, so that nobody may touch it.
        let all = place.pages + PAGE;
        // SAFETY: new addresses, wherever Windows has room; no pointer of ours is handed in.
        let base = unsafe { VirtualAlloc(ptr::null(), all, MEM_RESERVE, PAGE_NOACCESS) };
        if base.is_null() {
            return ptr::null_mut();
        }
        // SAFETY: these addresses were reserved just now, and are nobody else's.
        let pages = unsafe { VirtualAlloc(base, place.pages, MEM_COMMIT, PAGE_READWRITE) };
        if pages.is_null() {
            // SAFETY: the reservation's base, which nobody else knows.
            unsafe { VirtualFree(base, 0, MEM_RELEASE) };
            return ptr::null_mut();
        }
        let base = base.cast::<u8>();
        // SAFETY: so many bytes are committed from the base on, and the block lies in them.
        unsafe {
            ptr::write_bytes(base, AROUND, place.pages);
            let block = base.add(place.start);
            ptr::write_bytes(block, FRESH, layout.size());
            block
        }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        let place = Place::of(layout);
        // SAFETY: the block came from `alloc` with this layout, so its pages begin so much before it and are committed.
        let base = unsafe { block.sub(place.start) };
        // SAFETY: as above; nobody else uses the pages any more.
        let pages = unsafe { std::slice::from_raw_parts(base, place.pages) };
        let (front, rest) = pages.split_at(place.start);
        let behind = rest.get(layout.size()..).unwrap_or_default();
        if front.iter().chain(behind).any(|byte| *byte != AROUND) {
            report(&format!("{} bytes have been written around", layout.size()));
            end();
        }
        // SAFETY: it was one reservation from its base on; nobody may touch it after it was freed.
        if unsafe { VirtualFree(base.cast(), 0, MEM_DECOMMIT) } == 0 {
            report("what was freed can still be touched");
            end();
        }
        let slot = NEXT.fetch_add(1, Ordering::Relaxed) % KEPT;
        let oldest = FREED[slot].swap(base, Ordering::AcqRel);
        if !oldest.is_null() {
            // SAFETY: it was a reservation's base, and only who takes it out of its slot gives it back.
            unsafe { VirtualFree(oldest.cast(), 0, MEM_RELEASE) };
        }
    }
}

/// From here on a fault is reported before it ends the process: where memory was touched that may not be, before anybody
/// handles it, because some functions of Windows do, and only say that an argument was bad. Commits the fault that a test
/// asks for.
pub fn watch_heap() {
    // SAFETY: the functions have the form that Windows asks for, and are there until the process ends.
    unsafe {
        AddVectoredExceptionHandler(1, Some(touched));
        SetUnhandledExceptionFilter(Some(fault));
    }
    let trial = std::fs::read_to_string(format!(r"{STATE_DIR}\heap.trial"));
    if let Ok(trial) = trial {
        commit(trial.trim());
        report(&format!("{trial:?} was not noticed"));
    }
}

/// What Windows calls at each fault, before anybody else.
unsafe extern "system" fn touched(exception: *mut EXCEPTION_POINTERS) -> i32 {
    // SAFETY: Windows hands over pointers to a record that is there until this returns.
    let code = unsafe { (*(*exception).ExceptionRecord).ExceptionCode };
    if code != STATUS_ACCESS_VIOLATION {
        return EXCEPTION_CONTINUE_SEARCH;
    }
    // SAFETY: as above.
    unsafe { fault(exception) }
}

/// What Windows calls where nobody else handles a fault.
unsafe extern "system" fn fault(exception: *const EXCEPTION_POINTERS) -> i32 {
    // SAFETY: Windows hands over pointers to a record that is there until this returns.
    let record = unsafe { &*(*exception).ExceptionRecord };
    report(&format!(
        "exception {:#x}, at {:#x}",
        record.ExceptionCode, record.ExceptionInformation[1]
    ));
    end();
}

/// Wine would have its debugger look at the process first, for seconds.
fn end() -> ! {
    // SAFETY: the pseudo-handle of the own process is always valid.
    unsafe { TerminateProcess(GetCurrentProcess(), 10) };
    unreachable!("the process was ended");
}

fn report(what: &str) {
    let file = OpenOptions::new()
        .append(true)
        .create(true)
        .open(format!(r"{STATE_DIR}\heap.damage"));
    if let Ok(mut file) = file {
        let _ = writeln!(file, "{what}");
    }
}

/// Does what must not be done.
fn commit(trial: &str) {
    let mut block = vec![0_u8; 13];
    let start = black_box(block.as_mut_ptr());
    // SAFETY: none of this is sound. It is there to be found, in a program that goes to no node.
    unsafe {
        match trial {
            "write behind" => start.add(13).write_volatile(1),
            "write before" => start.sub(1).write_volatile(1),
            "write where nothing is for its alignment" => {
                let layout = Layout::from_size_align_unchecked(13, 8);
                let aligned = std::alloc::alloc(layout);
                black_box(aligned).add(13).write_volatile(1);
                std::alloc::dealloc(aligned, layout);
            }
            "read behind" => {
                let aligned = Box::new([0_u64; 2]);
                black_box(aligned.as_ptr().add(2).read_volatile());
            }
            "read what was freed" => {
                drop(black_box(std::mem::take(&mut block)));
                black_box(start.read_volatile());
            }
            "have Windows read what was freed, and not say so" => {
                drop(black_box(std::mem::take(&mut block)));
                black_box(IsValidSid(start.cast()));
            }
            "free twice" => {
                std::alloc::dealloc(
                    start,
                    Layout::array::<u8>(13).unwrap_or(Layout::new::<u8>()),
                );
            }
            "have Windows write behind" => {
                let mut short = vec![0_u16; 4];
                GetWindowsDirectoryW(black_box(short.as_mut_ptr()), 260);
            }
            other => report(&format!("there is no fault {other:?}")),
        }
    }
}
