//! Faults of a running control plane.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::Ordering;

use anyhow::{Context, Result, ensure};

use super::{ControlPlane, pki};
use crate::cleanup::Guardian;

/// The authority that has signed a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Issuer {
    /// The authority that the control plane starts with.
    First,
    /// The authority that replaces it. It has the same name.
    Successor,
}

impl ControlPlane {
    /// Restarts the API server without this version of a group, such as `batch/v1`.
    pub fn restart_api_server_without(&self, group_version: &str) -> Result<()> {
        self.is_changed.store(true, Ordering::Relaxed);
        self.stop_api_server()?;
        self.start_api_server_with(&[format!("--runtime-config={group_version}=false")])
    }

    /// Kills etcd, as a crash would.
    pub fn stop_etcd(&self) -> Result<()> {
        let etcd = self.children().etcd.take();
        etcd.map_or(Ok(()), |mut etcd| Guardian::stop(&mut etcd))
    }

    /// Restarts etcd with the data it has stored.
    pub fn restart_etcd(&self) -> Result<()> {
        self.stop_etcd()?;
        let etcd = self.start_etcd()?;
        self.children().etcd = Some(etcd);
        Ok(())
    }

    /// Returns a copy of all that etcd has stored.
    pub fn back_up_etcd(&self) -> Result<PathBuf> {
        let backup = self.dir.join("etcd-backup");
        self.without_store(|store| run(Command::new("cp").arg("-a").arg(store).arg(&backup)))?;
        Ok(backup)
    }

    /// Replaces all that etcd has stored by an earlier copy. Versions of objects go back, too.
    pub fn restore_etcd(&self, backup: &Path) -> Result<()> {
        self.without_store(|store| {
            fs::remove_dir_all(store)?;
            run(Command::new("cp").arg("-a").arg(backup).arg(store))
        })
    }

    /// Works on etcd's folder while neither etcd nor the API server runs.
    fn without_store(&self, work: impl FnOnce(&Path) -> Result<()>) -> Result<()> {
        self.is_changed.store(true, Ordering::Relaxed);
        self.stop_api_server()?;
        self.stop_etcd()?;
        work(&self.dir.join("etcd"))?;
        self.restart_etcd()?;
        self.start_api_server()
    }

    /// Pauses etcd, as if its disk hung, or resumes it.
    pub fn pause_etcd(&self, is_paused: bool) -> Result<()> {
        let children = self.children();
        let etcd = children.etcd.as_ref().context("etcd does not run")?;
        Guardian::signal(etcd, if is_paused { "STOP" } else { "CONT" })
    }

    /// Gives the API server a new certificate, which it uses from its next start on.
    pub fn renew_serving_certificate(&self, issuer: Issuer) -> Result<()> {
        self.is_changed.store(true, Ordering::Relaxed);
        let server = self.authority_of(issuer).server()?;
        replace(&self.dir.join("server.crt"), &server.certificate_pem()?)?;
        replace(&self.dir.join("server.key"), &server.key_pem()?)
    }

    /// Returns these authorities as PEM.
    pub fn authorities(&self, issuers: &[Issuer]) -> Result<Vec<u8>> {
        let each = issuers.iter();
        let each = each.map(|issuer| self.authority_of(*issuer).certificate_pem());
        Ok(each.collect::<Result<Vec<_>>>()?.concat())
    }

    /// Creates a kubeconfig that trusts the file `ca.crt` in this folder and authenticates with the token in the file
    /// `token` there: as in a pod, where a kubelet writes both.
    pub fn kubeconfig_with_token_file(&self, folder: &Path) -> Result<PathBuf> {
        let folder = folder.display();
        let authority = format!(r#""certificate-authority": "{folder}/ca.crt""#);
        let credentials = format!(r#""tokenFile": "{folder}/token""#);
        self.write_kubeconfig_with("token-file", &authority, &credentials)
    }

    fn authority_of(&self, issuer: Issuer) -> &pki::Authority {
        match issuer {
            Issuer::First => &self.authority,
            Issuer::Successor => &self.successor,
        }
    }
}

fn run(command: &mut Command) -> Result<()> {
    let status = command.status()?;
    ensure!(status.success(), "{command:?}: {status}");
    Ok(())
}

/// Replaces a file atomically.
fn replace(path: &Path, content: &[u8]) -> Result<()> {
    let new = path.with_extension("new");
    pki::write_private(&new, content)?;
    fs::rename(&new, path).with_context(|| format!("writing {}", path.display()))
}
