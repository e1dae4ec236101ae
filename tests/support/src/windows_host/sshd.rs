//! Starts a real sshd for one host, and creates the keys.

use std::env;
use std::fs::{self, File};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::wine::Layout;
use crate::cleanup::{Guardian, MARK};

/// The account to log in with; `wine/login.c` makes it known to sshd.
pub(super) const USER: &str = "Administrator";

const LOGIN_SCRIPT: &str = include_str!("../../wine/login.sh");

/// The programs of OpenSSH, and the features of this version.
#[derive(Debug, Clone)]
pub(super) struct OpenSsh {
    sshd: PathBuf,
    sftp_server: PathBuf,
    /// From 9.8 on, sshd blocks an address after failed logins, which tests cause on purpose.
    has_penalties: bool,
}

impl OpenSsh {
    pub fn find() -> Result<Self> {
        let path = env::var_os("PATH").unwrap_or_default();
        let sshd = env::split_paths(&path)
            .chain(["/usr/sbin".into(), "/usr/local/sbin".into()])
            .map(|dir| dir.join("sshd"))
            .find(|file| file.is_file())
            .context("there is no sshd (Debian: openssh-server)")?;
        let sftp_server = ["lib/openssh", "libexec/openssh", "lib/ssh", "libexec"]
            .iter()
            .map(|dir| Path::new("/usr").join(dir).join("sftp-server"))
            .find(|file| file.is_file())
            .context("there is no sftp-server (Debian: openssh-sftp-server)")?;
        // When started by root, sshd needs this directory, which only its system service creates.
        if fs::metadata("/proc/self")?.uid() == 0 {
            fs::create_dir_all("/run/sshd").context("making /run/sshd, which sshd asks for")?;
        }
        let has_penalties = Command::new(&sshd)
            .args(["-T", "-f", "/dev/null", "-o", "PerSourcePenalties=no"])
            .stderr(Stdio::piped())
            .output()
            .is_ok_and(|output| {
                !String::from_utf8_lossy(&output.stderr).contains("PerSourcePenalties")
            });
        Ok(Self {
            sshd,
            sftp_server,
            has_penalties,
        })
    }

    /// Writes everything that sshd needs for a host, except its host key.
    pub fn configure(
        &self,
        layout: &Layout,
        guardian: &Guardian,
        listen: SocketAddr,
    ) -> Result<()> {
        let ssh = layout.ssh();
        let script = ssh.join("login.sh");
        fs::write(&script, LOGIN_SCRIPT)?;
        let mut environment = layout.environment();
        let text = |path: &Path| path.to_string_lossy().into_owned();
        environment.push((MARK, text(guardian.dir())));
        environment.push(("TESTBED_DRIVE_C", text(&layout.drive_c())));
        environment.push(("TESTBED_LOGIN_SO", text(&layout.libraries.login)));
        environment.push(("TESTBED_SFTP_SERVER", text(&self.sftp_server)));
        // sshd does not pass on its own environment.
        let environment: Vec<String> = environment
            .iter()
            .map(|(name, value)| format!("\"{name}={value}\""))
            .collect();
        let environment = environment.join(" ");
        let penalties = if self.has_penalties {
            "PerSourcePenalties no\n"
        } else {
            ""
        };
        let config = format!(
            "ListenAddress {listen}\n\
             HostKey {host_key}\n\
             AuthorizedKeysFile {authorized_keys}\n\
             ForceCommand /bin/sh {script}\n\
             Subsystem sftp testbed-sftp\n\
             SetEnv {environment}\n\
             PidFile none\n\
             StrictModes no\n\
             UsePAM no\n\
             PermitRootLogin prohibit-password\n\
             PasswordAuthentication no\n\
             KbdInteractiveAuthentication no\n\
             UseDNS no\n\
             LogLevel VERBOSE\n\
             PrintMotd no\n\
             MaxStartups 1000\n\
             MaxSessions 100\n\
             {penalties}",
            host_key = ssh.join("host_key").display(),
            authorized_keys = ssh.join("authorized_keys").display(),
            script = script.display(),
        );
        fs::write(ssh.join("sshd_config"), config)?;
        Ok(())
    }

    pub fn start(&self, layout: &Layout, guardian: &Guardian, listen: SocketAddr) -> Result<Child> {
        let ssh = layout.ssh();
        let log = ssh.join("sshd.log");
        // Sessions inherit what the launcher sets.
        let mut child = guardian
            .command("sh")
            .args(["-c", r#"exec $0 "$@""#, &layout.launcher])
            .arg(&self.sshd)
            .args(["-D", "-e", "-f"])
            .arg(ssh.join("sshd_config"))
            .env("LD_PRELOAD", &layout.libraries.login)
            .env("TESTBED_HOME", layout.home())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::options().create(true).append(true).open(&log)?)
            .spawn()
            .context("starting sshd")?;
        let start = Instant::now();
        while TcpStream::connect(listen).is_err() {
            if let Some(status) = child.try_wait()? {
                bail!("sshd: {status}: {}", fs::read_to_string(&log)?);
            }
            if start.elapsed() > Duration::from_secs(120) {
                bail!("sshd does not listen: {}", fs::read_to_string(&log)?);
            }
            thread::sleep(Duration::from_millis(5));
        }
        Ok(child)
    }
}

/// Kills sshd, its sessions, which have left its process group, and their processes.
pub(super) fn stop(child: &mut Child) -> Result<()> {
    let sessions = descendants(child.id())?;
    Guardian::stop(child)?;
    signal("KILL", &sessions)
}

/// Sends a signal to processes, any of which may already be gone.
pub(super) fn signal(name: &str, processes: &[u32]) -> Result<()> {
    if !processes.is_empty() {
        Command::new("sh")
            .args(["-c", r#"kill -s "$0" "$@" 2>/dev/null"#, name])
            .args(processes.iter().map(u32::to_string))
            .status()?;
    }
    Ok(())
}

fn descendants(root: u32) -> Result<Vec<u32>> {
    let mut parents: Vec<(u32, u32)> = Vec::new();
    for entry in fs::read_dir("/proc")? {
        // Processes may end at any time.
        let Ok(stat) = fs::read_to_string(entry?.path().join("stat")) else {
            continue;
        };
        // The name, in parentheses, may contain blanks and parentheses.
        let (Some((number, _)), Some((_, rest))) = (stat.split_once(' '), stat.rsplit_once(") "))
        else {
            continue;
        };
        if let (Ok(number), Some(Ok(parent))) =
            (number.parse(), rest.split(' ').nth(1).map(str::parse))
        {
            parents.push((number, parent));
        }
    }
    let mut found: Vec<u32> = vec![root];
    let mut next = 0;
    while next < found.len() {
        let parent = found[next];
        let children = parents.iter().filter(|entry| entry.1 == parent);
        found.extend(children.map(|entry| entry.0));
        next += 1;
    }
    Ok(found.split_off(1))
}

/// Creates a key pair at `path` and `path.pub`.
pub(super) fn make_key(path: &Path, arguments: &[&str]) -> Result<()> {
    for old in [path.to_owned(), path.with_extension("pub")] {
        if old.exists() {
            fs::remove_file(old)?;
        }
    }
    let output = Command::new("ssh-keygen")
        .args(["-q", "-N", "", "-C", "testbed", "-f"])
        .arg(path)
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .context("running ssh-keygen")?;
    if !output.status.success() {
        bail!("ssh-keygen: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(())
}

/// Returns whether an address and port are free.
pub(super) fn is_free(address: IpAddr, port: u16) -> bool {
    std::net::TcpListener::bind((address, port)).is_ok()
}
