//! What shells and manuals want to know of the command line.

use std::ffi::OsString;
use std::io::{self, ErrorKind, Write};

use anyhow::Context;
use clap_complete::engine;
use clap_complete::env::{CompleteEnv, Shells};

use super::manual;
use crate::cli::{CalledAs, CompletionArgs, ManArgs};
use crate::command::node_names;

/// What kubectl is told to do with completions, as cobra numbers it.
const NO_SPACE: u8 = 2;
const NO_FILES: u8 = 4;

/// The variable by which a shell asks for completions in the place of a command.
const ASKED_BY_SHELL: &str = "WINDOWS_STORAGE_COMPLETE";

/// Answers a shell that asks for completions, and ends the process; otherwise does nothing.
pub fn answer_shell(called_as: CalledAs) {
    CompleteEnv::with_factory(|| node_names::add(called_as.command()))
        .var(ASKED_BY_SHELL)
        .bin(called_as.file_name())
        .complete();
}

/// Prints the script that has a shell ask this program for completions.
pub fn completion(arguments: &CompletionArgs, called_as: CalledAs) -> anyhow::Result<()> {
    let name = called_as.file_name();
    let shell = arguments.shell.to_string();
    let shells = Shells::builtins();
    let completer = shells
        .completer(&shell)
        .with_context(|| format!("{shell} cannot be told how to complete"))?;
    let mut script = Vec::new();
    completer
        .write_registration(ASKED_BY_SHELL, name, name, name, &mut script)
        .context("cannot write to memory")?;
    print(&script)
}

/// Answers kubectl's question what may follow the words behind `kubectl windows-storage`, of which the last is not
/// finished: a line each, with its meaning behind a tab, and what to do with them in the end.
pub fn complete(called_as: CalledAs) -> anyhow::Result<()> {
    let mut words: Vec<OsString> = std::env::args_os().collect();
    let last = words.len().saturating_sub(1);
    if let Some(program) = words.first_mut() {
        *program = called_as.file_name().into();
    }
    let mut command = node_names::add(called_as.command());
    let folder = std::env::current_dir().ok();
    let candidates = engine::complete(&mut command, words, last, folder.as_deref())
        .context("cannot complete these words")?;
    let mut text = Vec::new();
    let mut directive = NO_FILES;
    for candidate in candidates
        .iter()
        .filter(|candidate| !candidate.is_hide_set())
    {
        let value = candidate.get_value().to_string_lossy();
        if value.ends_with('/') {
            directive = NO_FILES | NO_SPACE;
        }
        let help = candidate.get_help().map(ToString::to_string);
        let help = help.as_deref().and_then(|help| help.lines().next());
        match help {
            Some(help) => writeln!(text, "{value}\t{help}"),
            None => writeln!(text, "{value}"),
        }
        .context("cannot write to memory")?;
    }
    writeln!(text, ":{directive}").context("cannot write to memory")?;
    print(&text)
}

/// Prints the manual page, or writes a page for each command.
pub fn man(arguments: &ManArgs, called_as: CalledAs) -> anyhow::Result<()> {
    // A page's name is a file's, and must have no blank.
    let command = called_as.command().display_name(called_as.file_name());
    if let Some(folder) = &arguments.dest_dir {
        return manual::write_pages(command, folder)
            .with_context(|| format!("cannot write to {}", folder.display()));
    }
    print(&manual::only_page(command).context("cannot write to memory")?)
}

/// Who reads only the first lines has not failed.
pub(super) fn print(text: &[u8]) -> anyhow::Result<()> {
    match io::stdout().write_all(text) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        written => written.context("cannot write to standard output"),
    }
}
