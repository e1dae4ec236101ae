//! What each command does.

mod check;
mod connect;
mod run;

use anyhow::Context;
use windows_storage_operator::api;

use crate::cli::CrdsArgs;
pub use check::check;
use connect::connect;
pub use run::run;

/// Prints or writes the custom resource definitions.
pub fn crds(arguments: &CrdsArgs) -> anyhow::Result<()> {
    for (name, text) in api::custom_resource_definitions() {
        match &arguments.dest_dir {
            Some(folder) => {
                let path = folder.join(name);
                std::fs::write(&path, text)
                    .with_context(|| format!("cannot write {}", path.display()))?;
            }
            None => print!("---\n{text}"),
        }
    }
    Ok(())
}
