//! Limits the memory that is kept per object.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod kept;

#[test]
fn what_is_kept_of_each_object_stays_within_its_bound() {
    let kept = kept::measure();
    for one in &kept {
        println!("{:<40} {:>10} of {:>10} B", one.kind, one.bytes, one.bound);
    }
    let above: Vec<String> = kept
        .iter()
        .filter(|kept| kept.bytes > kept.bound)
        .map(|kept| format!("{}: {} B, bound {} B", kept.kind, kept.bytes, kept.bound))
        .collect();
    assert!(above.is_empty(), "{}", above.join("\n"));
}
