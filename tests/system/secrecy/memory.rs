//! The memory of a running process, as far as it is its own.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};

const PAGE: usize = 4096;
const EMPTY: [u8; PAGE] = [0; PAGE];

/// All that a process can write to, as bytes one after the other; what is gone meanwhile is left out.
pub fn memory_of(process: u32) -> io::Result<Vec<u8>> {
    let maps = fs::read_to_string(format!("/proc/{process}/maps"))?;
    let mut memory = File::open(format!("/proc/{process}/mem"))?;
    let mut seen = Vec::new();
    for line in maps.lines() {
        let mut words = line.split_whitespace();
        let (Some(range), Some(rights)) = (words.next(), words.next()) else {
            continue;
        };
        if !rights.starts_with("rw") {
            continue;
        }
        let (begin, end) = range.split_once('-').unwrap();
        let [begin, end] = [begin, end].map(|text| u64::from_str_radix(text, 16).unwrap());
        memory.seek(SeekFrom::Start(begin))?;
        let at = seen.len();
        seen.resize(at + usize::try_from(end - begin).unwrap(), 0);
        if memory.read_exact(&mut seen[at..]).is_err() {
            seen.truncate(at);
        }
        // Most of what is reserved was never used.
        let region = seen.split_off(at);
        let pages = region
            .chunks(PAGE)
            .filter(|page| **page != EMPTY[..page.len()]);
        pages.for_each(|page| seen.extend_from_slice(page));
    }
    Ok(seen)
}
