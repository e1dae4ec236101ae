//! Runs the operator on an embedded cluster: `run` to try it out, `demo` to see what it does.

mod demo;
mod local_run;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};

const HELP: &str = "\
Usage: testbed COMMAND

Commands:
  run    Start a control plane, two Windows hosts with an in-tree workload, and the operator; Ctrl-C ends all
  demo   Tell the story of an upgrade that is held and released, check each step, and end
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let outcome = match arguments
        .iter()
        .map(String::as_str)
        .collect::<Vec<_>>()
        .as_slice()
    {
        ["run"] => local_run::run(),
        ["demo"] => demo::run(),
        ["-h" | "--help"] => {
            print!("{HELP}");
            Ok(())
        }
        _ => {
            eprint!("{HELP}");
            return ExitCode::from(2);
        }
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Returns the root of the tree.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Returns the operator's binary, which cargo puts next to this one.
fn operator_binary() -> Result<PathBuf> {
    let path = std::env::current_exe()?.with_file_name("windows-storage-operator");
    if !path.exists() {
        bail!("{} is not there: make build", path.display());
    }
    Ok(path)
}

/// Returns the folder with the programs for Windows nodes.
fn payload() -> Result<PathBuf> {
    let path = root().join("target/payload");
    path.canonicalize()
        .with_context(|| format!("{} is not there: make payload", path.display()))
}
