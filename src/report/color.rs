//! Decides whether output is coloured.

use std::ffi::{OsStr, OsString};

use clap::ValueEnum;

/// When to use colour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum ColorChoice {
    /// On a terminal, unless `NO_COLOR` is set or `TERM` is `dumb`
    #[default]
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

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
