//! Sandboxed Windows hosts: OpenSSH in front of Wine, each with its own service database, disk and address.

mod fleet;
mod sshd;
mod template;
mod wine;

use std::fs::{self, File};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail};

pub use fleet::Fleet;
pub use template::Template;

use crate::cleanup::Guardian;
use crate::relay::Relay;
use fleet::Shared;
use wine::Layout;

/// With its path: for a bare name, Wine first starts another program to find it, which doubles the time.
const CMD: &str = r"C:\windows\system32\cmd.exe";
/// Time limit of [`WindowsHost::run`].
const RUN_LIMIT: Duration = Duration::from_secs(60);
/// How long Windows may take to boot or shut down on a busy machine.
const BOOT_LIMIT: Duration = Duration::from_secs(60);

/// One Windows host. Dropping it removes its processes and files.
#[derive(Debug)]
pub struct WindowsHost {
    name: String,
    address: IpAddr,
    drive_c: PathBuf,
    layout: Layout,
    commands: AtomicU32,
    sshd: Mutex<Option<Child>>,
    // Dropped in this order: connections, then processes and files, then what they were created from.
    relay: Relay,
    guardian: Guardian,
    fleet: Arc<Shared>,
}

impl WindowsHost {
    fn boot(fleet: Arc<Shared>, name: &str, address: IpAddr) -> Result<Self> {
        let guardian = Guardian::new(&new_host_dir()?)?;
        let layout = Layout {
            root: guardian.dir().join("host"),
            libraries: fleet.template.libraries(),
            launcher: wine::launcher()?,
        };
        layout.create()?;
        fleet.template.copy_to(&layout.prefix())?;
        // For SFTP paths without a leading slash; `wine/login.c` handles those with one.
        std::os::unix::fs::symlink(layout.drive_c(), layout.home().join("C:"))?;
        guardian.on_exit_run(&layout.remove_socket_command()?)?;
        let inner = SocketAddr::new(address, fleet.inner_port);
        fleet.open_ssh.configure(&layout, &guardian, inner)?;
        let host = Self {
            name: name.to_owned(),
            address,
            drive_c: layout.drive_c(),
            layout,
            commands: AtomicU32::new(0),
            sshd: Mutex::new(None),
            relay: Relay::start(SocketAddr::new(address, fleet.port), inner)?,
            guardian,
            fleet,
        };
        host.refuse_logins(false)?;
        host.make_host_key()?;
        host.boot_windows()?;
        host.start_sshd()?;
        Ok(host)
    }

    /// Returns its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the loopback address of its SSH server.
    pub fn address(&self) -> IpAddr {
        self.address
    }

    /// Returns the port of its SSH server, the same for the whole fleet.
    pub fn port(&self) -> u16 {
        self.fleet.port
    }

    /// Returns the public host key in OpenSSH's format: type and base64, without a comment.
    pub fn host_key(&self) -> Result<String> {
        let file = self.layout.ssh().join("host_key.pub");
        let line =
            fs::read_to_string(&file).with_context(|| format!("reading {}", file.display()))?;
        let key: Vec<_> = line.split_whitespace().take(2).collect();
        Ok(key.join(" "))
    }

    /// Returns the folder that is `C:\` on the host.
    pub fn drive_c(&self) -> &Path {
        &self.drive_c
    }

    /// Runs `command` in Windows' cmd, without SSH; the exit status is the command's. Quotes do not work, here and over
    /// SSH, because Wine escapes them in a way that cmd does not understand. Use a `.cmd` file for them.
    pub fn run(&self, command: &str) -> Result<Output> {
        self.run_within(command, RUN_LIMIT)
    }

    /// Like [`WindowsHost::run`], with a limit other than 60 s. A command that exceeds it is killed.
    pub fn run_within(&self, command: &str, limit: Duration) -> Result<Output> {
        // Into files: a pipe would stay open as long as any process that the command has started.
        let number = self.commands.fetch_add(1, Ordering::Relaxed);
        let file = |stream: &str| self.layout.root.join(format!("command-{number}.{stream}"));
        let (out, err) = (file("out"), file("err"));
        let mut child = self
            .layout
            .command(&self.guardian, "wine", &[CMD, "/c", command])
            .stdout(File::create(&out)?)
            .stderr(File::create(&err)?)
            .spawn()?;
        let waited =
            wait(&mut child, limit).with_context(|| format!("running {command} on {}", self.name));
        let output = (fs::read(&out)?, fs::read(&err)?);
        fs::remove_file(out)?;
        fs::remove_file(err)?;
        Ok(Output {
            status: waited?,
            stdout: output.0,
            stderr: output.1,
        })
    }

    /// Makes the host unreachable: connections end, new ones are refused. Processes in Windows keep running, except for
    /// the commands of SSH sessions.
    pub fn stop_sshd(&self) -> Result<()> {
        self.relay.close();
        if let Some(mut child) = self.lock_sshd().take() {
            sshd::stop(&mut child)?;
        }
        // Wine's processes are no children of those that start them. One whose starter was killed may wait for it for ever.
        self.end_all("the programs of sessions end", is_of_session)
    }

    /// Makes the host reachable again.
    pub fn start_sshd(&self) -> Result<()> {
        let mut running = self.lock_sshd();
        if running.is_none() {
            *running = Some(self.fleet.open_ssh.start(
                &self.layout,
                &self.guardian,
                SocketAddr::new(self.address, self.fleet.inner_port),
            )?);
        }
        self.relay.open()
    }

    /// Changes the host key, as a reinstallation would. Connections end.
    pub fn change_host_key(&self) -> Result<()> {
        self.stop_sshd()?;
        self.make_host_key()?;
        self.start_sshd()
    }

    /// Refuses or accepts the fleet's key. Existing connections stay.
    pub fn refuse_logins(&self, refuse: bool) -> Result<()> {
        self.authorize(if refuse {
            ""
        } else {
            &self.fleet.login.authorized_keys
        })
    }

    /// Accepts these public keys and no others. Existing connections stay.
    pub fn authorize(&self, public_keys: &str) -> Result<()> {
        fs::write(self.layout.ssh().join("authorized_keys"), public_keys)?;
        Ok(())
    }

    /// Cuts the power and boots again: every process of the host is killed, connections break, and automatic services
    /// start.
    pub fn reboot(&self) -> Result<()> {
        self.stop_sshd()?;
        // wineserver saves the registry on SIGTERM, but `wineserver -k` takes whole seconds.
        let servers = || -> Result<Vec<u32>> {
            let mut processes = self.layout.processes()?;
            processes.retain(|(_, name)| name.starts_with("wineserver"));
            Ok(processes.iter().map(|(process, _)| *process).collect())
        };
        sshd::signal("TERM", &servers()?)?;
        until("wineserver ends", || Ok(servers()?.is_empty()))?;
        self.end_all("all processes end", |_| true)?;
        self.boot_windows()?;
        self.start_sshd()
    }

    fn end_all(&self, what: &str, is_one: impl Fn(u32) -> bool) -> Result<()> {
        until(what, || {
            let all = self.layout.processes()?.into_iter();
            let left: Vec<u32> = all
                .map(|(process, _)| process)
                .filter(|it| is_one(*it))
                .collect();
            sshd::signal("KILL", &left)?;
            Ok(left.is_empty())
        })
    }

    /// Returns the processes whose command line starts with this text.
    pub fn processes_of(&self, command: &str) -> Result<Vec<u32>> {
        let mut found = Vec::new();
        for (process, _) in self.layout.processes()? {
            // The process may be gone by now.
            let line = fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
            let words: Vec<_> = line
                .split(|byte| *byte == 0)
                .map(String::from_utf8_lossy)
                .collect();
            if words
                .join(" ")
                .to_lowercase()
                .starts_with(&command.to_lowercase())
            {
                found.push(process);
            }
        }
        Ok(found)
    }

    /// Kills the processes whose command line starts with this text, as a crash would.
    pub fn kill(&self, command: &str) -> Result<()> {
        sshd::signal("KILL", &self.processes_of(command)?)
    }

    /// Fills the disk: no file can grow beyond `left` bytes, for SFTP and for the host's programs, until
    /// [`WindowsHost::free_disk`].
    ///
    /// This is a limit on file sizes (`RLIMIT_FSIZE`), which needs neither root nor a mount. `wine/disk.c` turns its
    /// error into that of a full disk: SFTP answers "Failure", a Windows program gets a short write and then
    /// `ERROR_DISK_FULL`. The free space that Windows reports does not change.
    pub fn fill_disk(&self, left: u64) -> Result<()> {
        fs::write(self.disk_free_file(), left.to_string())?;
        self.limit_files(&left.to_string())
    }

    /// Undoes [`WindowsHost::fill_disk`].
    pub fn free_disk(&self) -> Result<()> {
        match fs::remove_file(self.disk_free_file()) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
            _ => {}
        }
        self.limit_files("unlimited")
    }

    /// Limits the bytes per second in each direction.
    pub fn limit_rate(&self, bytes_per_second: Option<u64>) {
        self.relay.limit_rate(bytes_per_second);
    }

    /// Breaks all connections; new ones are accepted immediately.
    pub fn cut_connections(&self) {
        self.relay.cut_connections();
    }

    /// Returns the relay between clients and the host, for faults beyond the methods above.
    pub fn relay(&self) -> &Relay {
        &self.relay
    }

    /// Returns the log of sshd so far.
    pub fn sshd_log(&self) -> Result<String> {
        Ok(fs::read_to_string(self.layout.ssh().join("sshd.log"))?)
    }

    fn disk_free_file(&self) -> PathBuf {
        self.layout.root.join("disk-free")
    }

    /// Limits running processes and, by inheritance, those that they start.
    fn limit_files(&self, soft: &str) -> Result<()> {
        for (process, name) in self.layout.processes()? {
            // wineserver grows files that represent memory; without them, no process can start.
            if name.starts_with("wineserver") {
                continue;
            }
            // The process may be gone by now.
            Command::new("prlimit")
                .args(["--pid", &process.to_string(), &format!("--fsize={soft}:")])
                .output()
                .context("running prlimit")?;
        }
        Ok(())
    }

    fn make_host_key(&self) -> Result<()> {
        sshd::make_key(&self.layout.ssh().join("host_key"), &["-t", "ed25519"])
    }

    fn boot_windows(&self) -> Result<()> {
        // Persistent: without -p, it ends after the last command, and each command would boot Windows.
        self.run_at_boot("wineserver", &["-p"])?;
        self.run_at_boot("wine", &["wineboot"])
    }

    fn run_at_boot(&self, program: &str, arguments: &[&str]) -> Result<()> {
        let what = || format!("{program} {}", arguments.join(" "));
        let mut child = self
            .layout
            .command(&self.guardian, program, arguments)
            .spawn()?;
        let status = wait(&mut child, BOOT_LIMIT).with_context(what)?;
        if !status.success() {
            bail!("{}: {status}", what());
        }
        Ok(())
    }

    fn lock_sshd(&self) -> std::sync::MutexGuard<'_, Option<Child>> {
        self.sshd.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for WindowsHost {
    fn drop(&mut self) {
        // The guardian would kill it as well, but only the parent can reap the zombie.
        if let Err(error) = self.stop_sshd() {
            eprintln!("testbed: stopping sshd of {}: {error:#}", self.name);
        }
    }
}

/// Creates a host's directory next to the templates, because hard links cannot cross file systems.
fn new_host_dir() -> Result<PathBuf> {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let nanos = SystemTime::now().duration_since(UNIX_EPOCH)?.subsec_nanos();
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let name = format!("host-{}-{count}-{nanos:x}", std::process::id());
    Ok(template::cache_dir()?.join(name))
}

/// Whether a process was started over SSH.
fn is_of_session(process: u32) -> bool {
    // The process may be gone by now.
    let environment = fs::read(format!("/proc/{process}/environ")).unwrap_or_default();
    let mut entries = environment.split(|byte| *byte == 0);
    entries.any(|entry| entry.starts_with(b"SSH_CONNECTION="))
}

fn until(what: &str, mut holds: impl FnMut() -> Result<bool>) -> Result<()> {
    let start = Instant::now();
    while !holds()? {
        if start.elapsed() > BOOT_LIMIT {
            bail!("not within {BOOT_LIMIT:?}: {what}");
        }
        thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}

fn wait(child: &mut Child, limit: Duration) -> Result<std::process::ExitStatus> {
    let start = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        if start.elapsed() > limit {
            Guardian::stop(child)?;
            bail!("no end after {limit:?}");
        }
        thread::sleep(Duration::from_millis(5));
    }
}
