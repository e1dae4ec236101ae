//! Runs Wine isolated from the user's files, and cleans up after it.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::{env, fs};

use anyhow::{Context, Result};

use crate::cleanup::Guardian;

/// The folders of one Windows host.
#[derive(Debug, Clone)]
pub(super) struct Layout {
    /// The host's root folder; it also marks its processes.
    pub root: PathBuf,
    /// The preloaded libraries from the template.
    pub libraries: Libraries,
    /// The command that starts its programs, as words: see [`launcher`].
    pub launcher: String,
}

/// Libraries to preload; see their sources in `wine/`.
#[derive(Debug, Clone)]
pub(super) struct Libraries {
    /// For sshd and sftp-server.
    pub login: PathBuf,
    /// For every process that writes to a host's disk.
    pub disk: PathBuf,
}

impl Libraries {
    pub fn of(template: &Path) -> Self {
        Self {
            login: template.join("login.so"),
            disk: template.join("disk.so"),
        }
    }
}

/// Script that starts every program of a host; `login.sh` does the same in SSH sessions. On a full disk (see
/// `WindowsHost::fill_disk`), a write has to fail rather than raise a signal. wineserver is not limited, because it
/// grows files that represent memory.
const START: &str = r#"trap '' XFSZ
if [ -f "$TESTBED_HOST/disk-free" ] && [ "$1" != wineserver ]; then
    prlimit --pid $$ --fsize="$(cat "$TESTBED_HOST/disk-free"):" || exit
fi
exec $TESTBED_LAUNCHER "$@""#;

/// Environment variable that marks the processes of a host; its value is [`Layout::root`].
const HOST_MARK: &str = "TESTBED_HOST";

/// Returns the words that start a program of a host: on one CPU core, without random addresses.
///
/// One core, because programs and wineserver communicate so often that with two cores of a virtual machine, where waking
/// the other one takes long, a program takes more than twice as long to start.
///
/// The kernel puts the heap of a program like Wine's, which is loaded at 0x7d400000, up to 1 GB above it. In one start of
/// some hundreds, it occupies 0x7ffe0000, where every program of Windows needs its shared user data. Wine then exits with
/// status 1.
pub(super) fn launcher() -> Result<String> {
    // Docker's default seccomp profile forbids it.
    static MAY_FIX_ADDRESSES: LazyLock<bool> = LazyLock::new(|| {
        let mut attempt = Command::new("setarch");
        attempt
            .args(["--addr-no-randomize", "true"])
            .stderr(Stdio::null());
        attempt.status().is_ok_and(|status| status.success())
    });
    let fixed = if *MAY_FIX_ADDRESSES {
        "setarch --addr-no-randomize"
    } else {
        ""
    };
    Ok(format!("{fixed} taskset -c {}", next_core()?))
}

/// Returns the next of the cores that this process may use, in rotation.
fn next_core() -> Result<usize> {
    static TURN: AtomicUsize = AtomicUsize::new(0);
    let status = fs::read_to_string("/proc/self/status")?;
    let cores = status
        .lines()
        .find_map(|line| line.strip_prefix("Cpus_allowed_list:"))
        .and_then(parse_cores)
        .context("no cores in /proc/self/status")?;
    // The process ID is added so that several processes with one host each do not all use the same core.
    let turn = TURN.fetch_add(1, Ordering::Relaxed) + std::process::id() as usize;
    Ok(cores[turn % cores.len()])
}

/// Parses a list of cores in the kernel's format: `0-3,6`.
fn parse_cores(list: &str) -> Option<Vec<usize>> {
    let mut cores = Vec::new();
    for range in list.trim().split(',') {
        let (from, to) = range.split_once('-').unwrap_or((range, range));
        let (from, to): (usize, usize) = (from.parse().ok()?, to.parse().ok()?);
        cores.extend(from..=to);
    }
    (!cores.is_empty()).then_some(cores)
}

impl Layout {
    pub fn prefix(&self) -> PathBuf {
        self.root.join("prefix")
    }

    pub fn drive_c(&self) -> PathBuf {
        self.root.join("prefix/drive_c")
    }

    /// Returns the folder in which SFTP sessions start.
    pub fn home(&self) -> PathBuf {
        self.root.join("home")
    }

    pub fn ssh(&self) -> PathBuf {
        self.root.join("ssh")
    }

    fn tmp(&self) -> PathBuf {
        self.root.join("tmp")
    }

    pub fn create(&self) -> Result<()> {
        for dir in [self.home(), self.ssh(), self.tmp()] {
            fs::create_dir_all(&dir).with_context(|| format!("making {}", dir.display()))?;
        }
        Ok(())
    }

    /// Returns the environment of this host's processes.
    pub fn environment(&self) -> Vec<(&'static str, String)> {
        let text = |path: PathBuf| path.to_string_lossy().into_owned();
        vec![
            (HOST_MARK, text(self.root.clone())),
            ("TESTBED_LAUNCHER", self.launcher.clone()),
            ("WINEPREFIX", text(self.prefix())),
            ("WINEARCH", "win64".into()),
            ("WINEDEBUG", "-all".into()),
            // No entries in the user's desktop menus, no questions about Mono and Gecko, and a working tasklist.
            (
                "WINEDLLOVERRIDES",
                "winemenubuilder.exe=d;mscoree=;mshtml=;tasklist.exe=n".into(),
            ),
            ("LD_PRELOAD", text(self.libraries.disk.clone())),
            ("HOME", text(self.home())),
            ("TMPDIR", text(self.tmp())),
            ("PATH", env::var("PATH").unwrap_or_default()),
        ]
    }

    /// Returns a command of this host that cannot outlive the guardian. Standard streams are null: Windows services are
    /// descendants of whichever command comes first, and would keep a pipe open forever.
    pub fn command(&self, guardian: &Guardian, program: &str, arguments: &[&str]) -> Command {
        let mut command = guardian.command("sh");
        command
            .args(["-c", START, "sh", program])
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .envs(self.environment())
            .env_remove("DISPLAY")
            .env_remove("WAYLAND_DISPLAY");
        if self.drive_c().is_dir() {
            command.current_dir(self.drive_c());
        }
        command
    }

    /// Returns a command that removes the directory of wineserver's socket if it is outside the host's folder.
    /// wineserver would remove it itself, but it is killed.
    ///
    /// Debian's Wine prefers `/run/user/UID/wine` to TMPDIR, others have `/tmp/.wine-UID`.
    pub fn remove_socket_command(&self) -> Result<Command> {
        let prefix = fs::metadata(self.prefix()).context("looking at the Wine prefix")?;
        let server = format!("server-{:x}-{:x}", prefix.dev(), prefix.ino());
        let user = fs::metadata("/proc/self")?.uid();
        let mut command = Command::new("rm");
        command
            .arg("-rf")
            .arg(format!("/run/user/{user}/wine/{server}"))
            .arg(format!("/tmp/.wine-{user}/{server}"));
        Ok(command)
    }

    /// Returns the IDs and names of the live processes of this host.
    pub fn processes(&self) -> Result<Vec<(u32, String)>> {
        let mark = format!("{HOST_MARK}={}", self.root.display());
        let mut found = Vec::new();
        for entry in fs::read_dir("/proc")? {
            let path = entry?.path();
            let number = path.file_name().and_then(|name| name.to_str());
            let number = number.and_then(|name| name.parse().ok());
            // Processes may end at any time.
            if let (Some(number), Ok(environment), Ok(name)) = (
                number,
                fs::read(path.join("environ")),
                fs::read_to_string(path.join("comm")),
            ) && environment
                .split(|byte| *byte == 0)
                .any(|entry| entry == mark.as_bytes())
            {
                found.push((number, name.trim_end().to_owned()));
            }
        }
        Ok(found)
    }
}
