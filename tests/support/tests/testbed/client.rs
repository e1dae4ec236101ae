//! OpenSSH's own client, and other helpers.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use testbed::cleanup::Guardian;
use testbed::windows_host::{Fleet, WindowsHost};

pub struct Client {
    pub dir: Guardian,
    pub fleet: Fleet,
}

impl Client {
    pub fn new() -> Self {
        Self {
            dir: Guardian::temp("client").unwrap(),
            fleet: Fleet::new().unwrap(),
        }
    }

    /// Returns an `ssh` or `sftp` command that knows the host's key.
    pub fn command(&self, program: &str, host: &WindowsHost, key: &Path) -> Command {
        let known_hosts = self.dir.dir().join(format!("known-{}", host.name()));
        let (address, port) = (host.address(), host.port());
        let line = format!("[{address}]:{port} {}\n", host.host_key().unwrap());
        fs::write(&known_hosts, line).unwrap();
        let mut command = Command::new(program);
        command
            .args([
                "-F",
                "/dev/null",
                "-o",
                "BatchMode=yes",
                "-o",
                "ConnectTimeout=10",
            ])
            .args([
                "-o",
                "StrictHostKeyChecking=yes",
                "-o",
                "IdentitiesOnly=yes",
            ])
            .arg(format!("-oUserKnownHostsFile={}", known_hosts.display()))
            .arg(format!("-oPort={port}"))
            .arg("-i")
            .arg(key)
            .stdin(Stdio::null());
        command
    }

    pub fn ssh(&self, host: &WindowsHost, command: &str) -> Output {
        self.command("ssh", host, &self.fleet.private_key_file())
            .arg(self.destination(host))
            .arg(command)
            .output()
            .unwrap()
    }

    pub fn sftp_command(&self, host: &WindowsHost, batch: &str) -> Command {
        let file = self.dir.dir().join(format!("batch-{}", host.name()));
        fs::write(&file, batch).unwrap();
        let mut command = self.command("sftp", host, &self.fleet.private_key_file());
        command.arg("-b").arg(file).arg(self.destination(host));
        command
    }

    pub fn sftp(&self, host: &WindowsHost, batch: &str) -> Output {
        self.sftp_command(host, batch).output().unwrap()
    }

    pub fn destination(&self, host: &WindowsHost) -> String {
        format!("{}@{}", self.fleet.user(), host.address())
    }

    pub fn file(&self, name: &str, length: usize) -> PathBuf {
        let path = self.dir.dir().join(name);
        fs::write(&path, vec![7; length]).unwrap();
        path
    }
}

pub fn text(output: &Output) -> String {
    format!(
        "{}{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
        output.status
    )
}

pub fn install_probe(host: &WindowsHost) {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("wine/probe.c");
    let built = Command::new("x86_64-w64-mingw32-gcc")
        .args(["-O2", "-s", "-o"])
        .arg(host.drive_c().join("k/probe.exe"))
        .arg(source)
        .output()
        .unwrap();
    assert!(built.status.success(), "{}", text(&built));
}

pub fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(
            start.elapsed() < Duration::from_secs(30),
            "not within 30 s: {what}"
        );
        thread::sleep(Duration::from_millis(20));
    }
}
