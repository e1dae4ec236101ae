//! Ends child processes and removes temporary directories, even if the process that created them is killed.
//!
//! Rust does not drop statics, and after SIGKILL nothing is dropped. So the clean-up runs in another process: a small
//! `sh` that blocks on a pipe whose other end only this process holds. The kernel closes that end when this process
//! ends, in whatever way; the `sh` then reads end of file and cleans up.

use std::ffi::OsStr;
use std::io::PipeWriter;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};
use std::{env, fs, io, process};

use anyhow::{Context, Result, bail};

/// The environment variable that marks every process that a guardian has to kill. Its value is the guardian's
/// directory.
///
/// Processes inherit it, so the guardian also finds those that leave their process group and lose their parent. A
/// program that sets up a fresh environment for its children (sshd) has to be configured to pass it on.
pub const MARK: &str = "TESTBED_GUARDIAN";

/// The guardian's script; `$1` is its directory.
const GUARD: &str = include_str!("guardian.sh");

/// The script that registers a guarded process before it becomes the real program; `$0` is the guardian's directory.
///
/// It fails once the guardian has moved `open` away, so that nothing can start unnoticed.
const REGISTER: &str = r#"read -r stat <"/proc/$$/stat" && printf '%s\n' "$stat" >"$0/.guardian/open/$$" && exec "$@""#;

/// Owns a directory and processes, and lets neither outlive this process.
///
/// Dropping it runs the clean-up immediately and waits for it. The order is: commands of [`Guardian::on_exit_run`],
/// then SIGKILL for the processes, then the directory.
///
/// A killed child stays a zombie until it is waited for: call [`Child::wait`] after dropping the guardian.
#[derive(Debug)]
pub struct Guardian {
    dir: PathBuf,
    hooks: AtomicU32,
    sh: Child,
    /// Only ever closed. `None` once the guardian has been told to clean up.
    alive: Option<PipeWriter>,
}

impl Guardian {
    /// Creates `dir`, or takes it over if it is empty.
    pub fn new(dir: &Path) -> Result<Self> {
        if let Ok(mut entries) = fs::read_dir(dir)
            && entries.next().is_some()
        {
            bail!(
                "{} is not empty: a guardian would remove what it did not make",
                dir.display()
            );
        }
        let dir = std::path::absolute(dir)?;
        let (reader, writer) = io::pipe()?;
        // Starts the guardian before the directory is created, so that the directory can never be left behind. The
        // guardian has its own process group, so that Ctrl-C on a terminal does not end it.
        let sh = Command::new("sh")
            .args(["-c", GUARD, "testbed-guardian"])
            .arg(&dir)
            .env_remove(MARK)
            .current_dir("/")
            .process_group(0)
            .stdin(reader)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .context("starting sh as guardian")?;
        let guardian = Self {
            dir,
            hooks: AtomicU32::new(0),
            sh,
            alive: Some(writer),
        };
        for name in ["open", "hooks"] {
            let path = guardian.state().join(name);
            fs::create_dir_all(&path).with_context(|| format!("making {}", path.display()))?;
        }
        Ok(guardian)
    }

    /// Like [`Guardian::new`], in a new temporary directory whose path is short enough for Unix sockets.
    pub fn temp(prefix: &str) -> Result<Self> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let nanos = SystemTime::now().duration_since(UNIX_EPOCH)?.subsec_nanos();
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        Self::new(&env::temp_dir().join(format!("{prefix}-{}-{count}-{nanos:x}", process::id())))
    }

    /// Returns the directory, which is removed together with the guardian.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Returns a command that the guardian supervises: in its own process group, which is registered before `program`
    /// runs. Add arguments, environment and standard streams, and spawn it.
    ///
    /// If the program does not exist, the result is exit status 127 and a message on stderr, not an error of `spawn`.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new("sh");
        command
            .args(["-c", REGISTER])
            .arg(&self.dir)
            .arg(program)
            .env(MARK, &self.dir)
            .process_group(0);
        command
    }

    /// Runs `command` as the first step of the clean-up, with its program, arguments, environment and directory, but
    /// without its standard streams. It has 20 seconds.
    pub fn on_exit_run(&self, command: &Command) -> Result<()> {
        let mut script: Vec<u8> = Vec::new();
        if let Some(dir) = command.get_current_dir() {
            script.extend(b"cd ");
            script.extend(quote(dir.as_os_str()));
            script.extend(b" || exit\n");
        }
        for (name, value) in command.get_envs() {
            let Some(value) = value else {
                script.extend([b"unset ", name.as_bytes(), b"\n"].concat());
                continue;
            };
            script.extend([b"export ", name.as_bytes(), b"="].concat());
            script.extend(quote(value));
            script.push(b'\n');
        }
        script.extend(b"exec");
        for word in std::iter::once(command.get_program()).chain(command.get_args()) {
            script.push(b' ');
            script.extend(quote(word));
        }
        script.push(b'\n');
        let number = self.hooks.fetch_add(1, Ordering::Relaxed);
        // Renamed into place, so that a guardian that is cleaning up never runs half a script.
        let written = self.state().join(format!("hook-{number}"));
        fs::write(&written, script)?;
        fs::rename(&written, self.state().join(format!("hooks/{number:04}")))?;
        Ok(())
    }

    /// Kills the process group of a child that came from [`Guardian::command`], and waits for the child.
    pub fn stop(child: &mut Child) -> Result<()> {
        if child.try_wait()?.is_none() {
            let kill = Command::new("sh")
                .args(["-c", "kill -s KILL -- \"-$0\""])
                .arg(child.id().to_string())
                .status()?;
            if !kill.success() && child.try_wait()?.is_none() {
                bail!(
                    "process group {} cannot be ended: kill said {kill}",
                    child.id()
                );
            }
        }
        child.wait()?;
        Ok(())
    }

    /// Sends a signal to a guarded child and to the processes that it has started.
    pub fn signal(child: &Child, signal: &str) -> Result<()> {
        let kill = Command::new("sh")
            .args(["-c", "kill -s \"$1\" -- \"-$0\""])
            .args([&child.id().to_string(), signal])
            .status()?;
        if !kill.success() {
            bail!("process group {}: kill said {kill}", child.id());
        }
        Ok(())
    }

    fn state(&self) -> PathBuf {
        self.dir.join(".guardian")
    }
}

impl Drop for Guardian {
    fn drop(&mut self) {
        drop(self.alive.take());
        if let Err(error) = self.sh.wait() {
            eprintln!(
                "testbed: waiting for the guardian of {}: {error}",
                self.dir.display()
            );
        }
        if self.dir.exists() {
            eprintln!(
                "testbed: the guardian could not remove {}",
                self.dir.display()
            );
        }
    }
}

/// Quotes any string as one word for `sh`.
fn quote(word: &OsStr) -> Vec<u8> {
    let mut quoted = vec![b'\''];
    for byte in word.as_bytes() {
        match byte {
            b'\'' => quoted.extend(br"'\''"),
            other => quoted.push(*other),
        }
    }
    quoted.push(b'\'');
    quoted
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};
    use std::thread;
    use std::time::{Duration, Instant};

    use super::*;

    /// Returns the number of live processes whose command line contains `text`.
    fn processes_with(text: &str) -> usize {
        let is_match = |path: PathBuf| {
            // The process may end at any time; a zombie has no command line.
            fs::read(path.join("cmdline"))
                .is_ok_and(|line| String::from_utf8_lossy(&line).contains(text))
        };
        fs::read_dir("/proc")
            .unwrap()
            .filter(|entry| is_match(entry.as_ref().unwrap().path()))
            .count()
    }

    fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
        let start = Instant::now();
        while !holds() {
            assert!(
                start.elapsed() < Duration::from_secs(20),
                "not within 20 s: {what}"
            );
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Starts a plain child, a grandchild in its own session, and one that has lost its parent as well as the mark.
    fn start_family(guardian: &Guardian, seconds: &str) -> Child {
        let script = format!(
            "setsid sleep {seconds} & (setsid sleep {seconds} &) ; env -u {MARK} setsid sh -c 'sleep {seconds}; :' & sleep {seconds}"
        );
        let child = guardian
            .command("sh")
            .args(["-c", &script])
            .spawn()
            .unwrap();
        let argument = format!("sleep\0{seconds}\0");
        eventually("the family is there", || processes_with(&argument) == 4);
        child
    }

    #[test]
    fn nothing_is_left_of_a_process_that_was_killed() {
        let mut parent = Command::new(env::current_exe().unwrap())
            .args([
                "--exact",
                "cleanup::tests::stands_in_for_a_killed_process",
                "--ignored",
                "--nocapture",
            ])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(parent.stdout.take().unwrap()).lines();
        let dir = lines
            .find_map(|line| {
                line.unwrap()
                    .split_once("DIR=")
                    .map(|(_, dir)| PathBuf::from(dir))
            })
            .unwrap();
        assert!(dir.exists());
        assert_eq!(processes_with("sleep\x0098102"), 4);

        parent.kill().unwrap();
        parent.wait().unwrap();

        eventually("no process and no directory", || {
            processes_with("sleep\x0098102") == 0 && !dir.exists()
        });
    }

    #[test]
    #[ignore = "only of use as the process that another test kills"]
    fn stands_in_for_a_killed_process() {
        let guardian = Guardian::temp("guard").unwrap();
        let mut child = start_family(&guardian, "98102");
        println!("\nDIR={}", guardian.dir().display());
        child.wait().unwrap();
    }
}
