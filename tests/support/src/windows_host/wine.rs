//! Runs Wine so that it touches nothing of the user's own and leaves nothing behind.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::{env, fs};

use anyhow::{Context, Result};

use crate::cleanup::Guardian;

/// The folders of one Windows host.
#[derive(Debug, Clone)]
pub(super) struct Layout {
    /// All that is there of the host; what marks its processes.
    pub root: PathBuf,
    /// The libraries of the template.
    pub libraries: Libraries,
    /// The core that its programs run on.
    pub core: usize,
}

/// Libraries to preload; see their sources in `wine/`.
#[derive(Debug, Clone)]
pub(super) struct Libraries {
    /// For sshd and sftp-server.
    pub login: PathBuf,
    /// For all that writes to the disk of a host.
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

/// What every program of a host is started by; `login.sh` does the same in SSH sessions. On a full disk (see
/// `WindowsHost::fill_disk`) a write has to be an error and not a signal. wineserver is let alone: it grows files that
/// stand for memory.
///
/// All of a host runs on one core: programs and wineserver talk so often that on two of a virtual machine, where waking the
/// other takes long, a program takes more than twice as long to come up.
const START: &str = r#"trap '' XFSZ
if [ -f "$TESTBED_HOST/disk-free" ] && [ "$1" != wineserver ]; then
    prlimit --pid $$ --fsize="$(cat "$TESTBED_HOST/disk-free"):" || exit
fi
exec taskset -c "$TESTBED_CORE" "$@""#;

/// The variable that marks the processes of a host; its value is [`Layout::root`].
pub(super) const HOST_MARK: &str = "TESTBED_HOST";

/// The cores that this process may use, in turns.
pub(super) fn next_core() -> Result<usize> {
    static TURN: AtomicUsize = AtomicUsize::new(0);
    let status = fs::read_to_string("/proc/self/status")?;
    let cores = status
        .lines()
        .find_map(|line| line.strip_prefix("Cpus_allowed_list:"))
        .and_then(parse_cores)
        .context("no cores in /proc/self/status")?;
    // Several processes with a host each shall not all have the same core.
    let turn = TURN.fetch_add(1, Ordering::Relaxed) + std::process::id() as usize;
    Ok(cores[turn % cores.len()])
}

/// The cores of a list as the kernel writes it: `0-3,6`.
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

    /// Where SFTP starts.
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

    /// What a process of this host has in its environment.
    pub fn environment(&self) -> Vec<(&'static str, String)> {
        let text = |path: PathBuf| path.to_string_lossy().into_owned();
        vec![
            (HOST_MARK, text(self.root.clone())),
            ("TESTBED_CORE", self.core.to_string()),
            ("WINEPREFIX", text(self.prefix())),
            ("WINEARCH", "win64".into()),
            ("WINEDEBUG", "-all".into()),
            // No entries in the user's desktop menus, no questions about Mono and Gecko; a tasklist that lists.
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

    /// A command of this host that cannot outlive the guardian. Standard streams are null: Windows services are
    /// descendants of whatever command comes first, and would keep a pipe open for ever.
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

    /// Removes the directory of wineserver's socket where that is outside of ours. Only wineserver itself would, and it is
    /// killed.
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

    /// The live processes of this host, by number, with the name of each.
    pub fn processes(&self) -> Result<Vec<(u32, String)>> {
        processes_marked(&self.root)
    }
}

/// The live processes that belong to the host in `root`.
pub(super) fn processes_marked(root: &Path) -> Result<Vec<(u32, String)>> {
    let mark = format!("{HOST_MARK}={}", root.display());
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let path = entry?.path();
        let number = path
            .file_name()
            .and_then(|name| name.to_str()?.parse().ok());
        // Processes come and go while we look.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_lists_of_cores() {
        assert_eq!(parse_cores("\t0-1\n"), Some(vec![0, 1]));
        assert_eq!(parse_cores("3"), Some(vec![3]));
        assert_eq!(parse_cores("0,2-4,9"), Some(vec![0, 2, 3, 4, 9]));
        assert_eq!(parse_cores(""), None);
    }
}
