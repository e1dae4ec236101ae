//! The program that libFuzzer drives: one for all targets, because linking one takes longer than compiling them all.
//! `FUZZ_TARGET` says which; tools/fuzz builds and runs it.

#![no_main]
#![allow(
    clippy::panic,
    clippy::expect_used,
    reason = "libFuzzer ends at a panic"
)]

use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;

static TARGET: OnceLock<fuzz::Target> = OnceLock::new();

fuzz_target!(
    init: {
        let name = std::env::var("FUZZ_TARGET").expect("FUZZ_TARGET names a target");
        let target = fuzz::target(&name).unwrap_or_else(|| panic!("there is no target {name}"));
        let _ = TARGET.set(target);
    },
    |bytes: &[u8]| {
        if let Some(target) = TARGET.get() {
            target(bytes);
        }
    }
);
