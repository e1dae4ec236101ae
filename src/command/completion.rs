//! `completion`: prints completion scripts for shells.

use clap_complete::{Shell, generate};

use crate::cli::{CalledAs, CompletionArgs};
use crate::command::print;

/// Prints the completion script of a shell.
pub fn completion(arguments: &CompletionArgs, called_as: CalledAs) -> anyhow::Result<()> {
    let shell = arguments.shell;
    let name = called_as.file_name();
    // The generator for bash replaces a hyphen in the program's name in two different ways, and its script then finds no
    // command. So it gets a name without one, and only the registration names the program.
    let generated_name = match shell {
        Shell::Bash => name.replace('-', "_"),
        _ => name.to_owned(),
    };
    let mut script = Vec::new();
    generate(
        shell,
        &mut called_as.command(),
        &generated_name,
        &mut script,
    );
    let script = String::from_utf8_lossy(&script);
    print(&script.replace(&format!(" {generated_name}\n"), &format!(" {name}\n")))
}
