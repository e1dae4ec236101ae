//! Implements the commands.

mod accept_host_key;
mod check;
mod check_hosts;
mod connect;
mod input;
mod must_gather;
mod own;
mod progress;
mod rollout;
mod run;
mod signals;
mod uninstall;
mod why;

use std::io::{self, ErrorKind, IsTerminal, Write};

use anyhow::{Context, anyhow};
use clap::ColorChoice;
use kube::api::PatchParams;
use tokio::runtime::{Builder, Runtime};
use windows_storage_operator::api;
use windows_storage_operator::client::deadline::CallError;
use windows_storage_operator::report::Format;

use crate::cli::CrdsArgs;
pub use accept_host_key::accept_host_key;
pub use check::check;
pub use check_hosts::check_hosts;
pub use must_gather::{Interrupted, must_gather};
pub use rollout::rollout;
pub use run::run;
pub use uninstall::uninstall;
pub use why::why;

/// Writes a human-readable line to standard error. It is no error if nothing reads it.
pub fn report_line(line: impl std::fmt::Display) {
    // There is nowhere else to report it.
    let _ = writeln!(io::stderr(), "{line}");
}

/// Prints or writes the custom resource definitions.
pub fn crds(arguments: &CrdsArgs) -> anyhow::Result<()> {
    let definitions = api::custom_resource_definitions();
    let Some(folder) = &arguments.dest_dir else {
        let documents = definitions.iter().map(|(_, text)| format!("---\n{text}"));
        return print(&documents.collect::<String>());
    };
    for (name, text) in definitions {
        let path = folder.join(name);
        std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

/// Writes to standard output. It is no error if the reader stops after the first lines.
fn print(text: &str) -> anyhow::Result<()> {
    match io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        written => written.context("cannot write to standard output"),
    }
}

fn is_colored(choice: ColorChoice) -> bool {
    // Also asks a Windows console to interpret color codes.
    let is_usual = console::Term::stdout().features().colors_supported();
    match choice {
        ColorChoice::Auto => is_usual,
        ColorChoice::Always => true,
        ColorChoice::Never => false,
    }
}

/// What is wrong with the command line, where its parser cannot see it.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct UsageError(String);

impl UsageError {
    fn of(problem: impl std::fmt::Display) -> Self {
        Self(problem.to_string())
    }
}

/// Refuses the format of what has no page.
fn has_page(format: Format, what: &str) -> Result<(), UsageError> {
    if format != Format::Html {
        return Ok(());
    }
    let problem = format!("there is no page of {what}; take -o table, json or yaml");
    Err(UsageError(problem))
}

/// Refuses to ask where nobody can answer; `instead` is what to give.
fn need_terminal(instead: &str) -> Result<(), UsageError> {
    if io::stdin().is_terminal() {
        return Ok(());
    }
    let problem = format!("there is no terminal to ask on; give {instead}");
    Err(UsageError(problem))
}

/// Asks a question on the terminal.
fn confirm(question: &str) -> anyhow::Result<bool> {
    write!(io::stderr(), "{question} [y/N] ").context("cannot ask")?;
    let mut answer = String::new();
    let read = io::stdin().read_line(&mut answer);
    read.context("cannot read the answer")?;
    Ok(["y", "yes"].contains(&answer.trim().to_lowercase().as_str()))
}

/// What to do when nothing is seen of the operator.
const FIND_OPERATOR: &str = "kubectl get deployment -A -l app.kubernetes.io/name=windows-storage-operator shows whether it runs";

/// Explains that the object `WindowsStorage` cluster is missing, or its definition.
fn explain_missing(error: CallError) -> anyhow::Error {
    if error.is_not_found() {
        return anyhow!(
            "there is no WindowsStorage cluster: the operator is not installed, or has not started; {FIND_OPERATOR}"
        );
    }
    error.into()
}

/// Names the command line in `metadata.managedFields` of what it changes.
fn written_by() -> PatchParams {
    PatchParams::apply("kubectl-windows-storage")
}

/// Creates a runtime for sequential commands.
fn runtime() -> anyhow::Result<Runtime> {
    let runtime = Builder::new_current_thread().enable_all().build();
    runtime.context("cannot start the runtime")
}
