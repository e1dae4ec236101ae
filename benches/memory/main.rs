//! Prints what stays allocated for each object, kind by kind. `tests/memory` holds the same figures to their bounds.
#![allow(clippy::unwrap_used, reason = "a benchmark fails by panicking")]

#[path = "../../tests/memory/kept.rs"]
mod kept;

fn main() {
    println!("{:<40} {:>10} {:>10}", "kept of each", "bytes", "bound");
    for kept in kept::measure() {
        println!("{:<40} {:>10} {:>10}", kept.kind, kept.bytes, kept.bound);
    }
}
