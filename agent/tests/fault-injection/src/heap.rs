//! A heap that detects damage caused by this agent's `unsafe` code: by buffers that Windows fills, and structures that it is
//! given.
//!
//! Each block gets its own pages. It ends where a page begins that cannot be accessed, so reading or writing past its end
//! ends the process at once, whether we do it or Windows on our behalf. The bytes before a block in its pages, and the bytes
//! that its alignment leaves after it, contain a pattern that is compared when it is freed. A freed block can no longer be
//! accessed, and its address is reused only after many thousand others. Fresh memory is not zeroed, so that reads of
//! uninitialized memory show.
//!
//! The heap does not detect damage to memory that Windows itself allocates. Before a block it detects only writes, and only
//! within the block's pages. A call that the kernel itself carries out does not end the process either: it fails with
//! `ERROR_NOACCESS`, which its caller reports.
//!
//! Findings are appended to the file `heap.damage` in the agent's folder. The file `heap.trial` there names a fault to
//! commit, with which a test checks that faults are found.

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
/// How many freed blocks are kept before their addresses are reused. Each takes 64 KiB of addresses, and no memory.
const KEPT: usize = 16_384;

static FREED: [AtomicPtr<u8>; KEPT] = [const { AtomicPtr::new(ptr::null_mut()) }; KEPT];
static NEXT: AtomicUsize = AtomicUsize::new(0);

#[global_allocator]
static HEAP: Guarded = Guarded;

struct Guarded;

/// The position of a block in its pages.
struct Place {
    /// The size of the pages before the inaccessible page, in bytes.
    pages: usize,
    /// The offset of the block in these pages.
    start: usize,
}

impl Place {
    fn of(layout: Layout) -> Self {
        let pages = layout.size().next_multiple_of(PAGE);
        let start = pages - layout.size().next_multiple_of(layout.align());
        Self { pages, start }
    }
}

// SAFETY: a block is committed memory of its own until it is freed. It begins at a multiple of the alignment, because pages
// do, and so does what is taken from their end.
unsafe impl GlobalAlloc for Guarded {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if layout.align() > PAGE {
            return ptr::null_mut();
        }
        let place = Place::of(layout);
        // The last page is never committed, so that it cannot be accessed.
        let all = place.pages + PAGE;
        // SAFETY: Windows chooses new addresses; none of our pointers is passed.
        let base = unsafe { VirtualAlloc(ptr::null(), all, MEM_RESERVE, PAGE_NOACCESS) };
        if base.is_null() {
            return ptr::null_mut();
        }
        // SAFETY: these addresses were reserved just now, and nothing else uses them.
        let pages = unsafe { VirtualAlloc(base, place.pages, MEM_COMMIT, PAGE_READWRITE) };
        if pages.is_null() {
            // SAFETY: the reservation's base, which nothing else knows.
            unsafe { VirtualFree(base, 0, MEM_RELEASE) };
            return ptr::null_mut();
        }
        let base = base.cast::<u8>();
        // SAFETY: this many bytes are committed from the base on, and the block lies in them.
        unsafe {
            ptr::write_bytes(base, AROUND, place.pages);
            let block = base.add(place.start);
            ptr::write_bytes(block, FRESH, layout.size());
            block
        }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        let place = Place::of(layout);
        // SAFETY: the block came from `alloc` with this layout, so its committed pages begin `place.start` bytes before it.
        let base = unsafe { block.sub(place.start) };
        // SAFETY: as above; nothing else uses the pages any more.
        let pages = unsafe { std::slice::from_raw_parts(base, place.pages) };
        let (front, rest) = pages.split_at(place.start);
        let behind = rest.get(layout.size()..).unwrap_or_default();
        if front.iter().chain(behind).any(|byte| *byte != AROUND) {
            report(&format!("{} bytes have been written around", layout.size()));
            end();
        }
        // SAFETY: it was one reservation, from its base on; nothing may access it after it was freed.
        if unsafe { VirtualFree(base.cast(), 0, MEM_DECOMMIT) } == 0 {
            report("what was freed can still be touched");
            end();
        }
        let slot = NEXT.fetch_add(1, Ordering::Relaxed) % KEPT;
        let oldest = FREED[slot].swap(base, Ordering::AcqRel);
        if !oldest.is_null() {
            // SAFETY: it was a reservation's base, and only the thread that takes it out of its slot releases it.
            unsafe { VirtualFree(oldest.cast(), 0, MEM_RELEASE) };
        }
    }
}

/// Makes every fault from here on be reported before it ends the process. An access violation is reported before any handler
/// sees it, because some Windows functions handle it and only report a bad argument. Commits the fault that a test asks for.
pub fn watch_heap() {
    // SAFETY: the functions have the required signatures, and exist until the process ends.
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

/// The handler that Windows calls first at each fault.
unsafe extern "system" fn touched(exception: *mut EXCEPTION_POINTERS) -> i32 {
    // SAFETY: Windows passes pointers to a record that exists until this returns.
    let code = unsafe { (*(*exception).ExceptionRecord).ExceptionCode };
    if code != STATUS_ACCESS_VIOLATION {
        return EXCEPTION_CONTINUE_SEARCH;
    }
    // SAFETY: as above.
    unsafe { fault(exception) }
}

/// The handler that Windows calls if no other one handles a fault.
unsafe extern "system" fn fault(exception: *const EXCEPTION_POINTERS) -> i32 {
    // SAFETY: Windows passes pointers to a record that exists until this returns.
    let record = unsafe { &*(*exception).ExceptionRecord };
    report(&format!(
        "exception {:#x}, at {:#x}",
        record.ExceptionCode, record.ExceptionInformation[1]
    ));
    end();
}

/// Ends the process before Wine runs its debugger on it, for seconds.
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

/// Commits a memory fault.
fn commit(trial: &str) {
    let mut block = vec![0_u8; 13];
    let start = black_box(block.as_mut_ptr());
    // SAFETY: none of this is sound. These are the faults to be found, in a program that is never installed on a node.
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
