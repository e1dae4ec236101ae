//! OpenSSH's `sftp`, which copies the same file.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use testbed::windows_host::Fleet;

use crate::node::Node;

/// Where it puts the file.
const TARGET: &str = "C:/put.exe";
const OPTIONS: &str = "-q -F none -oStrictHostKeyChecking=no -oUserKnownHostsFile=/dev/null -oIdentitiesOnly=yes -oLogLevel=ERROR";

/// A command that copies the file to a host.
pub struct Sftp {
    arguments: Vec<String>,
    file: PathBuf,
    put: PathBuf,
}

impl Sftp {
    /// Prepares the command for this host.
    pub fn new(fleet: &Fleet, node: &Node) -> Result<Self> {
        let file = crate::payload()?.join("csi-proxy.exe");
        let key = fleet.private_key_file();
        let batch = key.with_file_name("batch");
        fs::write(&batch, format!("put {} {TARGET}\n", file.display()))?;
        let (address, port, user) = (node.host.address(), node.host.port(), fleet.user());
        let own = format!(
            "-b {} -i {} -P {port} {user}@{address}",
            batch.display(),
            key.display()
        );
        let words = OPTIONS.split(' ').chain(own.split(' '));
        Ok(Self {
            arguments: words.map(str::to_owned).collect(),
            file,
            put: node.host.drive_c().join("put.exe"),
        })
    }

    /// Returns how long it takes, including its connection.
    pub fn put(&self) -> Result<Duration> {
        let _ = fs::remove_file(&self.put);
        let begin = Instant::now();
        let output = Command::new("sftp")
            .args(&self.arguments)
            .stdin(Stdio::null())
            .output()
            .context("starting sftp")?;
        let took = begin.elapsed();
        ensure!(output.status.success(), "sftp: {output:?}");
        let size = |path: &Path| Ok::<_, anyhow::Error>(fs::metadata(path)?.len());
        ensure!(size(&self.put)? == size(&self.file)?, "sftp sent less");
        Ok(took)
    }
}
