//! Other programs that copy a file over SFTP.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use testbed::parts::part;
use testbed::windows_host::Fleet;

use crate::node::Node;

/// Where the peers put the file.
const TARGET: &str = "C:/put.exe";

/// OpenSSH's `sftp` and Go's `pkg/sftp`.
pub struct Peers {
    sftp: Vec<String>,
    go: Vec<String>,
    put: PathBuf,
}

impl Peers {
    /// Prepares both peers to copy to this host.
    pub fn new(fleet: &Fleet, node: &Node) -> Result<Self> {
        let file = crate::payload()?.join("csi-proxy.exe");
        let key = fleet.private_key_file();
        let batch = key.with_file_name("batch");
        fs::write(&batch, format!("put {} {TARGET}\n", file.display()))?;
        let (address, port, user) = (node.host.address(), node.host.port(), fleet.user());
        let text = |path: &Path| path.display().to_string();
        let options = "-q -F none -oStrictHostKeyChecking=no -oUserKnownHostsFile=/dev/null -oIdentitiesOnly=yes -oLogLevel=ERROR";
        let mut sftp: Vec<String> = ["sftp"]
            .into_iter()
            .chain(options.split(' '))
            .map(str::to_owned)
            .collect();
        let own = [
            "-b",
            &text(&batch),
            "-i",
            &text(&key),
            "-P",
            &port.to_string(),
        ]
        .map(str::to_owned);
        sftp.extend(own.into_iter().chain([format!("{user}@{address}")]));
        let program = text(&part("sftp-put")?);
        let go = vec![
            program,
            format!("{address}:{port}"),
            user.to_owned(),
            text(&key),
            text(&file),
            TARGET.to_owned(),
        ];
        Ok(Self {
            sftp,
            go,
            put: node.host.drive_c().join("put.exe"),
        })
    }

    /// Returns how long `sftp` takes, including its connection.
    pub fn sftp(&self) -> Result<Duration> {
        self.run(&self.sftp)
    }

    /// Returns how long the Go program takes, including its connection.
    pub fn go(&self) -> Result<Duration> {
        self.run(&self.go)
    }

    fn run(&self, command: &[String]) -> Result<Duration> {
        let _ = fs::remove_file(&self.put);
        let begin = Instant::now();
        let output = Command::new(&command[0])
            .args(&command[1..])
            .stdin(Stdio::null())
            .output()
            .with_context(|| format!("starting {}", command[0]))?;
        let took = begin.elapsed();
        ensure!(output.status.success(), "{}: {output:?}", command[0]);
        let size = |path: &Path| Ok::<_, anyhow::Error>(fs::metadata(path)?.len());
        let sent = size(&crate::payload()?.join("csi-proxy.exe"))?;
        ensure!(size(&self.put)? == sent, "{} sent less", command[0]);
        Ok(took)
    }
}
