//! Keeps the content of a control plane for a later one.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use super::{ControlPlane, Stored};
use crate::cleanup::Guardian;

impl ControlPlane {
    /// Stops the control plane and keeps its content in a directory, which must not exist yet.
    pub fn stop_and_keep(self, directory: &Path) -> Result<()> {
        self.stop_api_server()?;
        let etcd = self.children().etcd.take();
        // Changes that etcd has not yet written to its database are in its log.
        etcd.map_or(Ok(()), |mut etcd| Guardian::stop(&mut etcd))?;
        // Renamed into place, so that the directory is complete or does not exist.
        let part = directory.with_extension("part");
        let _ = fs::remove_dir_all(&part);
        copy(&self.dir.join("etcd"), &part)?;
        fs::rename(&part, directory).with_context(|| format!("making {}", directory.display()))
    }

    /// Starts a control plane with the content that [`ControlPlane::stop_and_keep`] kept. It has new keys, so clients
    /// of the earlier one cannot authenticate.
    pub fn start_from(directory: &Path) -> Result<Self> {
        Self::start_with(&Stored::Files(directory))
    }
}

/// Copies a directory with its content.
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
