//! What each command does.

mod accept_host_key;
mod ask;
mod check;
mod connect;
mod input;
mod manual;
mod must_gather;
mod node_names;
mod progress;
mod run;
mod shell;

use std::io::{self, Write};

use anyhow::Context;
use windows_storage_operator::api;

use crate::cli::CrdsArgs;
pub use accept_host_key::accept_host_key;
pub use ask::{nodes, why};
pub use check::check;
use connect::{connect, connect_operator};
pub use must_gather::{Interrupted, must_gather};
pub use run::run;
use shell::print;
pub use shell::{answer_shell, complete, completion, man};

/// Writes a line for people to standard error. Nobody may be listening there, which is no fault.
pub fn tell(line: &str) {
    // There is nowhere else to say it.
    let _ = writeln!(io::stderr(), "{line}");
}

/// Prints or writes the custom resource definitions.
pub fn crds(arguments: &CrdsArgs) -> anyhow::Result<()> {
    let definitions = api::custom_resource_definitions();
    let Some(folder) = &arguments.dest_dir else {
        let texts = definitions
            .into_iter()
            .map(|(_, text)| format!("---\n{text}"));
        return print(texts.collect::<String>().as_bytes());
    };
    for (name, text) in definitions {
        let path = folder.join(name);
        std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}
