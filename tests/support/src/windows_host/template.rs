//! Prepares a Wine prefix once, and copies it for each host.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};
use std::{env, io};

use anyhow::{Context, Result, bail};

use super::wine::{Layout, Libraries, launcher};
use crate::cleanup::Guardian;

const PRNG_SOURCE: &str = include_str!("../../wine/bcryptprimitives.c");
const LOGIN_SOURCE: &str = include_str!("../../wine/login.c");
const DISK_SOURCE: &str = include_str!("../../wine/disk.c");
const TASKLIST_SOURCE: &str = include_str!("../../wine/tasklist.c");
/// Increase this when this file builds something different from the same sources.
const RECIPE: u32 = 1;

/// A Windows installation on disk, without running processes.
#[derive(Debug)]
pub struct Template {
    dir: PathBuf,
}

impl Template {
    /// Returns the template from the cache. The first call on a machine takes some seconds to build it.
    pub fn get() -> Result<Self> {
        let version = Command::new("wine")
            .arg("--version")
            .env("WINEDEBUG", "-all")
            .output()
            .context("running wine: is it installed (Debian: wine and wine64)?")?;
        if !version.status.success() {
            bail!("wine --version: {}", version.status);
        }
        let mut hasher = DefaultHasher::new();
        let sources = [PRNG_SOURCE, LOGIN_SOURCE, DISK_SOURCE, TASKLIST_SOURCE];
        (RECIPE, &version.stdout, sources).hash(&mut hasher);
        let cache = cache_dir()?;
        let dir = cache.join(format!("template-{:016x}", hasher.finish()));
        if dir.is_dir() {
            return Ok(Self { dir });
        }
        fs::create_dir_all(&cache).with_context(|| format!("making {}", cache.display()))?;
        // If two processes build at once, one waits. The lock is released when its process dies.
        let lock = File::create(cache.join("template.lock"))?;
        lock.lock()?;
        if !dir.is_dir() {
            eprintln!(
                "testbed: preparing Windows under {} (once, about 10 s)",
                String::from_utf8_lossy(&version.stdout).trim()
            );
            let start = Instant::now();
            build(&cache, &dir)?;
            eprintln!(
                "testbed: prepared Windows in {:.1} s",
                start.elapsed().as_secs_f32()
            );
        }
        Ok(Self { dir })
    }

    pub(super) fn libraries(&self) -> Libraries {
        Libraries::of(&self.dir)
    }

    /// Copies the installation to `prefix`. Files that are never written in place are linked, so it takes milliseconds.
    pub(super) fn copy_to(&self, prefix: &Path) -> Result<()> {
        copy(&self.dir.join("prefix"), prefix)
            .with_context(|| format!("copying the template to {}", prefix.display()))
    }
}

/// Returns the folder of templates and hosts, a common one because hard links cannot cross file systems.
pub(super) fn cache_dir() -> Result<PathBuf> {
    let base = match env::var_os("WINDOWS_STORAGE_CACHE") {
        Some(dir) => PathBuf::from(dir),
        None => match env::var_os("XDG_CACHE_HOME") {
            Some(dir) => PathBuf::from(dir),
            None => PathBuf::from(env::var_os("HOME").context("HOME is not set")?).join(".cache"),
        }
        .join("windows-storage-operator"),
    };
    Ok(std::path::absolute(base)?.join("wine"))
}

fn build(cache: &Path, target: &Path) -> Result<()> {
    // The guardian removes the files of an unfinished build.
    let guardian = Guardian::new(&cache.join(format!("building-{}", std::process::id())))?;
    let root = guardian.dir().join("out");
    let libraries = Libraries::of(&root);
    let layout = Layout {
        root,
        libraries,
        launcher: launcher()?,
    };
    layout.create()?;
    let native = [
        (LOGIN_SOURCE, &layout.libraries.login),
        (DISK_SOURCE, &layout.libraries.disk),
    ];
    for (source, library) in native {
        compile("cc", source, library, &["-shared", "-fPIC"], &["-ldl"])?;
    }
    let mut boot = layout
        .command(
            &guardian,
            "sh",
            &["-c", "wine wineboot -i && wineserver -w"],
        )
        .spawn()?;
    let start = Instant::now();
    let status = loop {
        if let Some(status) = boot.try_wait()? {
            break status;
        }
        if start.elapsed() > Duration::from_secs(300) {
            bail!("wineboot did not end in 5 minutes");
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    if !status.success() {
        bail!("wineboot: {status}");
    }

    let prefix = layout.prefix();
    // Prevents Wine from updating the copies.
    fs::write(prefix.join(".update-timestamp"), "disable")?;
    // Debian's Wine stores the path of the server's socket here, which copies would share.
    remove_if_there(&prefix.join("wineserver"))?;
    // Removes access from a host to the files and devices of this machine.
    for entry in fs::read_dir(prefix.join("dosdevices"))? {
        let entry = entry?;
        if entry.file_name() != "c:" {
            fs::remove_file(entry.path())?;
        }
    }
    let drive_c = layout.drive_c();
    unlink_home(&drive_c.join("users"))?;
    fs::create_dir_all(drive_c.join("k"))?;

    let system = drive_c.join("windows/system32");
    for (source, file, flags) in [
        (PRNG_SOURCE, "bcryptprimitives.dll", &["-s", "-shared"][..]),
        (TASKLIST_SOURCE, "tasklist.exe", &["-s"]),
    ] {
        // Otherwise the compiler would write into Wine's own file.
        remove_if_there(&system.join(file))?;
        let compiler = "x86_64-w64-mingw32-gcc";
        compile(compiler, source, &system.join(file), flags, &["-ladvapi32"])
            .with_context(|| format!("building {file} (Debian: gcc-mingw-w64-x86-64)"))?;
    }
    fs::rename(&layout.root, target)?;
    Ok(())
}

fn compile(
    compiler: &str,
    source: &str,
    output: &Path,
    flags: &[&str],
    libraries: &[&str],
) -> Result<()> {
    let file = output.with_extension("c");
    fs::write(&file, source)?;
    let built = Command::new(compiler)
        .arg("-O2")
        .args(flags)
        .arg("-o")
        .arg(output)
        .arg(&file)
        .args(libraries)
        .output()
        .with_context(|| format!("running {compiler}"))?;
    if !built.status.success() {
        bail!("{compiler}: {}", String::from_utf8_lossy(&built.stderr));
    }
    fs::remove_file(file)?;
    Ok(())
}

fn remove_if_there(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Replaces Wine's links to the user's Desktop, Documents and so on by folders.
fn unlink_home(dir: &Path) -> Result<()> {
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        if path.is_symlink() {
            fs::remove_file(&path)?;
            fs::create_dir(&path)?;
        } else if path.is_dir() {
            unlink_home(&path)?;
        }
    }
    Ok(())
}

fn copy(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        let kind = entry.file_type()?;
        if kind.is_dir() {
            copy(&entry.path(), &target)?;
        } else if kind.is_symlink() {
            symlink(fs::read_link(entry.path())?, &target)?;
        } else if is_never_written(&entry.path()) {
            fs::hard_link(entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), &target)?;
        }
    }
    Ok(())
}

/// Returns whether it is a program, library or table of Windows. Anything else (the registry, `*.ini`, `etc\hosts`) may
/// be written in place, and a link would carry such a change into the template and all other hosts.
fn is_never_written(path: &Path) -> bool {
    const KINDS: [&str; 16] = [
        "acm", "ax", "com", "cpl", "dll", "drv", "ds", "exe", "icm", "manifest", "msstyles", "nls",
        "ocx", "sys", "tlb", "ttf",
    ];
    path.extension()
        .and_then(OsStr::to_str)
        .is_some_and(|extension| KINDS.contains(&extension))
}
