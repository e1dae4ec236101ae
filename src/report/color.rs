//! Whether there is colour, and which.

use std::ffi::{OsStr, OsString};

use anstyle::{AnsiColor, Style};
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

/// Whether to use colour. `env` looks an environment variable up, as `std::env::var_os` does.
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

/// How something is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tone {
    /// As it should be.
    Good,
    /// At fault.
    Bad,
    /// To be looked at.
    Warning,
    /// A heading.
    Strong,
}

impl Tone {
    fn style(self) -> Style {
        let color = |color: AnsiColor| Style::new().fg_color(Some(color.into()));
        match self {
            Self::Good => color(AnsiColor::Green),
            Self::Bad => color(AnsiColor::Red),
            Self::Warning => color(AnsiColor::Yellow),
            Self::Strong => Style::new().bold(),
        }
    }
}

/// Paints, or leaves text as it is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Paint {
    pub(super) color: bool,
}

impl Paint {
    /// The text in that tone.
    pub(super) fn paint(self, tone: Tone, text: &str) -> String {
        if self.color && !text.is_empty() {
            let style = tone.style();
            format!("{style}{text}{style:#}")
        } else {
            text.to_owned()
        }
    }
}
