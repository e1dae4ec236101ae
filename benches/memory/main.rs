//! Prints the memory that stays allocated per object, kind by kind. `tests/memory` checks these figures against limits.
#![allow(clippy::unwrap_used, reason = "a benchmark fails by panicking")]

#[path = "../../tests/memory/kept.rs"]
mod kept;

fn main() {
    println!("{:<40} {:>10} {:>10}", "kept of each", "bytes", "bound");
    for kept in kept::measure() {
        println!("{:<40} {:>10} {:>10}", kept.kind, kept.bytes, kept.bound);
    }
}
