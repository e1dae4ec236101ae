//! What a process uses, as the kernel tells it, and programs that are measured beside the operator.

use std::fs;
use std::process::{Child, Command};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use testbed::cleanup::Guardian;

/// The kernel counts CPU time in these to the world outside, whatever it is built with.
const TICKS_PER_SECOND: f64 = 100.0;

/// Memory in bytes.
#[derive(Clone, Copy, Debug)]
pub struct Memory {
    /// The resident set.
    pub resident: u64,
    /// Of it, what no file backs: what the process has allocated.
    pub anonymous: u64,
    /// The most that the resident set has been.
    pub peak: u64,
}

/// The memory of a process now.
pub fn memory(process: u32) -> Result<Memory> {
    let rollup = format!("/proc/{process}/smaps_rollup");
    let status = format!("/proc/{process}/status");
    Ok(Memory {
        resident: field(&rollup, "Rss:")?,
        anonymous: field(&rollup, "Anonymous:")?,
        peak: field(&status, "VmHWM:")?,
    })
}

/// A field in kB, in bytes.
fn field(file: &str, name: &str) -> Result<u64> {
    let text = fs::read_to_string(file).with_context(|| format!("reading {file}"))?;
    let value = text
        .lines()
        .find_map(|line| line.strip_prefix(name))
        .and_then(|rest| rest.trim().strip_suffix(" kB"))
        .with_context(|| format!("{file} has no {name}"))?;
    Ok(value.parse::<u64>()? * 1024)
}

/// The time that a process, with all threads that it has had, was on a core.
pub fn cpu_time(process: u32) -> Result<Duration> {
    let file = format!("/proc/{process}/stat");
    let text = fs::read_to_string(&file).with_context(|| format!("reading {file}"))?;
    // The name of the program, in parentheses, may hold spaces.
    let rest = text.rsplit_once(") ").map_or("", |(_, rest)| rest);
    let mut fields = rest.split(' ').skip(11);
    let mut ticks = || -> Result<f64> {
        let field = fields.next().with_context(|| format!("{file} is short"))?;
        Ok(field.parse()?)
    };
    Ok(Duration::from_secs_f64(
        (ticks()? + ticks()?) / TICKS_PER_SECOND,
    ))
}

/// A program that ends when this is dropped.
pub struct Program {
    child: Child,
    _guardian: Guardian,
}

impl Program {
    /// Starts what `describe` makes of the command to start.
    pub fn start(
        path: &std::path::Path,
        describe: impl FnOnce(&mut Command) -> Result<()>,
    ) -> Result<Self> {
        let guardian = Guardian::temp("peer")?;
        let mut command = guardian.command(path);
        describe(&mut command)?;
        let child = command
            .spawn()
            .with_context(|| format!("starting {}", path.display()))?;
        Ok(Self {
            child,
            _guardian: guardian,
        })
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    pub fn stop(mut self) -> Result<()> {
        Guardian::stop(&mut self.child)
    }
}

/// Waits until something is so, for as long as a loaded machine may take.
pub fn eventually(what: &str, mut holds: impl FnMut() -> Result<bool>) -> Result<()> {
    const PATIENCE: Duration = Duration::from_secs(300);
    let started = Instant::now();
    while !holds()? {
        if started.elapsed() > PATIENCE {
            bail!("not within {} s: {what}", PATIENCE.as_secs());
        }
        sleep(Duration::from_millis(100));
    }
    Ok(())
}
