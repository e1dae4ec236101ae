//! Faults of a running control plane.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use anyhow::{Context, Result};

use super::ControlPlane;
use super::pki;
use crate::cleanup::Guardian;

/// Who has signed a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Issuer {
    /// The authority that the control plane has begun with.
    First,
    /// The one that takes its place. It has the same name.
    Successor,
}

impl ControlPlane {
    /// Asks the API server to end, as a kubelet does, and waits until it has.
    pub fn terminate_api_server(&self) -> Result<()> {
        let api_server = self.children().api_server.take();
        let Some(mut api_server) = api_server else {
            return Ok(());
        };
        Guardian::signal(&api_server, "TERM")?;
        api_server.wait()?;
        Ok(())
    }

    /// Ends the API server, and starts it as one that does not serve that version of a group, such as `batch/v1`.
    pub fn restart_api_server_without(&self, group_version: &str) -> Result<()> {
        self.is_changed.store(true, Ordering::Relaxed);
        self.stop_api_server()?;
        self.start_api_server_with(&[format!("--runtime-config={group_version}=false")])
    }

    /// Ends etcd at once, as a crash would.
    pub fn stop_etcd(&self) -> Result<()> {
        let etcd = self.children().etcd.take();
        etcd.map_or(Ok(()), |mut etcd| Guardian::stop(&mut etcd))
    }

    /// Starts etcd again, with what it has kept.
    pub fn restart_etcd(&self) -> Result<()> {
        self.stop_etcd()?;
        let etcd = self.start_etcd()?;
        self.children().etcd = Some(etcd);
        Ok(())
    }

    /// Has etcd answer nothing for a while, as one whose disk hangs, or lets it go on.
    pub fn pause_etcd(&self, is_paused: bool) -> Result<()> {
        let children = self.children();
        let etcd = children.etcd.as_ref().context("etcd does not run")?;
        Guardian::signal(etcd, if is_paused { "STOP" } else { "CONT" })
    }

    /// Gives the API server a new certificate, of which it makes use when it starts the next time.
    pub fn renew_serving_certificate(&self, issuer: Issuer) -> Result<()> {
        self.is_changed.store(true, Ordering::Relaxed);
        let server = self.authority_of(issuer).server()?;
        replace(&self.dir.join("server.crt"), &server.certificate_pem()?)?;
        replace(&self.dir.join("server.key"), &server.key_pem()?)
    }

    /// These authorities as PEM.
    pub fn authorities(&self, issuers: &[Issuer]) -> Result<Vec<u8>> {
        let each = issuers.iter();
        let each = each.map(|issuer| self.authority_of(*issuer).certificate_pem());
        Ok(each.collect::<Result<Vec<_>>>()?.concat())
    }

    /// A kubeconfig by which a client trusts what is in the file `ca.crt` of that folder, and is known by the token in the
    /// file `token` there: as in a pod, where a kubelet writes both.
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

/// Puts a file in the place of another, whole at every moment.
fn replace(path: &Path, content: &[u8]) -> Result<()> {
    let new = path.with_extension("new");
    pki::write_private(&new, content)?;
    fs::rename(&new, path).with_context(|| format!("writing {}", path.display()))
}
