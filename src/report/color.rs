//! Decides whether output is coloured.

use std::ffi::{OsStr, OsString};

pub use clap::ColorChoice;

/// Whether to use colour. `env` returns an environment variable, like `std::env::var_os`.
pub fn use_color(
    choice: ColorChoice,
    is_terminal: bool,
    env: impl Fn(&str) -> Option<OsString>,
) -> bool {
    match choice {
        ColorChoice::Always => true,
        ColorChoice::Never => false,
        ColorChoice::Auto => {
            is_terminal
                && env("NO_COLOR").is_none_or(|value| value.is_empty())
                && env("TERM").as_deref() != Some(OsStr::new("dumb"))
        }
    }
}
