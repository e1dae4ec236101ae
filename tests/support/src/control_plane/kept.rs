//! Keeps the content of a control plane for the next one.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use super::{ControlPlane, Stored};
use crate::cleanup::Guardian;

impl ControlPlane {
    /// Ends it and keeps its content in a directory, which must not be there yet.
    pub fn stop_and_keep(self, directory: &Path) -> Result<()> {
        self.stop_api_server()?;
        let etcd = self.children().etcd.take();
        // What it has not written to its database yet is in its log.
        etcd.map_or(Ok(()), |mut etcd| Guardian::stop(&mut etcd))?;
        // Whole or not at all.
        let part = directory.with_extension("part");
        let _ = fs::remove_dir_all(&part);
        copy(&self.dir.join("etcd"), &part)?;
        fs::rename(&part, directory).with_context(|| format!("making {}", directory.display()))
    }

    /// Starts one with the content that [`ControlPlane::stop_and_keep`] kept. Its keys are new ones: of the clients of
    /// the other one none is let in.
    pub fn start_from(directory: &Path) -> Result<Self> {
        Self::start_with(&Stored::Files(directory))
    }
}

/// Copies a directory with all that is in it.
pub(super) fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to).with_context(|| format!("making {}", to.display()))?;
    for entry in fs::read_dir(from).with_context(|| format!("reading {}", from.display()))? {
        let entry = entry?;
        let (path, target) = (entry.path(), to.join(entry.file_name()));
        if entry.file_type()?.is_dir() {
            copy(&path, &target)?;
        } else {
            fs::copy(&path, &target).with_context(|| format!("copying {}", path.display()))?;
        }
    }
    Ok(())
}
