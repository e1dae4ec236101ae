//! Clients of the control plane: kubeconfigs and kubectl.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::Ordering;
use std::thread;

use anyhow::{Context, Result, ensure};
use openssl::base64;

use super::ControlPlane;
use super::pki::{self, Identity};
use crate::parts::part;

impl ControlPlane {
    /// Creates a kubeconfig for a user in groups, with a client certificate. RBAC decides what the user may do.
    pub fn kubeconfig_for(&self, user: &str, groups: &[&str]) -> Result<PathBuf> {
        let keys = client_keys(&self.authority.client(user, groups)?)?;
        self.write_kubeconfig(user, &self.authority.certificate_pem()?, &keys)
    }

    /// Creates a kubeconfig for an existing ServiceAccount, with a token that is valid for a day.
    pub fn kubeconfig_for_service_account(&self, namespace: &str, name: &str) -> Result<PathBuf> {
        let token = format!(r#""token": "{}""#, self.token_of(namespace, name)?);
        self.write_kubeconfig(name, &self.authority.certificate_pem()?, &token)
    }

    /// Writes a new certificate with this name, and its key, in the layout of a mounted TLS Secret.
    pub fn write_certificate(&self, folder: &Path, name: &str) -> Result<()> {
        let identity = self.authority.client(name, &[])?;
        fs::write(folder.join("tls.key"), identity.key_pem()?)?;
        fs::write(folder.join("tls.crt"), identity.certificate_pem()?)?;
        Ok(())
    }

    /// Returns a `kubectl` command with the admin's kubeconfig, to spawn with other streams or more environment.
    pub fn kubectl_command(&self) -> Command {
        let mut command = self.guarded(&self.kubectl);
        command
            .arg("--kubeconfig")
            .arg(&self.kubeconfig)
            .arg("--cache-dir")
            .arg(self.dir.join("kubectl-cache"));
        command.stdin(Stdio::null());
        command
    }

    /// Runs kubectl as admin. Returns its output, or an error with its standard error.
    pub fn kubectl(&self, args: &[&str]) -> Result<String> {
        self.kubectl_with_input(args, "")
    }

    /// Like [`ControlPlane::kubectl`], with `input` on standard input.
    pub fn kubectl_with_input(&self, args: &[&str], input: &str) -> Result<String> {
        let mut kubectl = self.kubectl_command();
        kubectl
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = kubectl.spawn().context("starting kubectl")?;
        let output = thread::scope(|scope| {
            if let Some(mut stdin) = child.stdin.take() {
                // If kubectl ends without reading its input, its own error says why.
                scope.spawn(move || stdin.write_all(input.as_bytes()));
            }
            child.wait_with_output()
        })?;
        let errors = String::from_utf8_lossy(&output.stderr);
        ensure!(
            output.status.success(),
            "kubectl {}: {}: {}",
            args.join(" "),
            output.status,
            errors.trim()
        );
        Ok(String::from_utf8(output.stdout)?)
    }

    /// Installs the CRD `OperatorCondition`, as OLM does.
    pub fn install_operator_condition_crd(&self) -> Result<()> {
        let crd = part("operatorcondition-crd")?;
        let crd = fs::read_to_string(&crd).with_context(|| format!("reading {}", crd.display()))?;
        self.apply(&crd)?;
        self.await_definitions()
    }

    /// Writes a kubeconfig. `credentials` are the members of the JSON object `user`.
    pub(super) fn write_kubeconfig(
        &self,
        user: &str,
        authorities: &[u8],
        credentials: &str,
    ) -> Result<PathBuf> {
        let ca = base64::encode_block(authorities);
        let ca = format!(r#""certificate-authority-data": "{ca}""#);
        self.write_kubeconfig_with(user, &ca, credentials)
    }

    /// Writes a kubeconfig. `authority` is a member of the JSON object `cluster`, `credentials` are those of `user`.
    pub(super) fn write_kubeconfig_with(
        &self,
        user: &str,
        authority: &str,
        credentials: &str,
    ) -> Result<PathBuf> {
        let server = &self.server;
        // JSON is YAML, and both quote strings in the same way.
        let content = format!(
            r#"{{"apiVersion": "v1", "kind": "Config", "current-context": "testbed",
"clusters": [{{"name": "testbed", "cluster": {{"server": "{server}", {authority}}}}}],
"contexts": [{{"name": "testbed", "context": {{"cluster": "testbed", "user": "testbed"}}}}],
"users": [{{"name": "testbed", "user": {{{credentials}}}}}]}}
"#
        );
        let number = self.kubeconfigs.fetch_add(1, Ordering::Relaxed);
        let user = user.replace(|c: char| !c.is_ascii_alphanumeric(), "-");
        let path = self.dir.join(format!("{number}-{user}.kubeconfig"));
        pki::write_private(&path, content.as_bytes())?;
        Ok(path)
    }
}

/// Returns the certificate and key of a kubeconfig's user, as members of the JSON object `user`.
pub(super) fn client_keys(identity: &Identity) -> Result<String> {
    let certificate = base64::encode_block(&identity.certificate_pem()?);
    let key = base64::encode_block(&identity.key_pem()?);
    Ok(format!(
        r#""client-certificate-data": "{certificate}", "client-key-data": "{key}""#
    ))
}
