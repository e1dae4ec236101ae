//! Reads a process's resource use from the kernel.

use std::fs;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::{JoinHandle, sleep};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail, ensure};

/// The kernel reports CPU time to programs in hundredths of a second. Source: proc(5), `USER_HZ` of every architecture.
const TICKS_PER_SECOND: f64 = 100.0;

/// Returns the part of a process's resident set that no file backs, in bytes: what it has allocated.
fn anonymous(process: u32) -> Result<u64> {
    let status = fs::read_to_string(format!("/proc/{process}/status"))?;
    Ok(number(&status, "RssAnon:")? * 1024)
}

fn number(status: &str, name: &str) -> Result<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    let text = line.with_context(|| format!("the kernel does not say {name}"))?;
    Ok(text.trim().trim_end_matches(" kB").parse()?)
}

/// Samples the anonymous memory of a process until `finish` is called. Only that counts: whether file pages stay resident
/// is up to the kernel.
pub struct Sampler {
    stop: mpsc::Sender<()>,
    thread: JoinHandle<Result<Vec<u64>>>,
}

impl Sampler {
    /// Starts sampling a process at this interval.
    pub fn start(process: u32, interval: Duration) -> Self {
        let (stop, stopped) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            let mut samples = Vec::new();
            while stopped.recv_timeout(interval) == Err(RecvTimeoutError::Timeout) {
                samples.push(anonymous(process)?);
            }
            Ok(samples)
        });
        Self { stop, thread }
    }

    /// Stops and returns the samples in bytes, at least eight.
    pub fn finish(self) -> Result<Vec<u64>> {
        // If the sampler has failed, joining it returns its error.
        let _ = self.stop.send(());
        let joined = self.thread.join();
        let samples = joined.map_err(|_| anyhow!("the sampler panicked"))??;
        ensure!(samples.len() >= 8, "too short to say anything");
        Ok(samples)
    }
}

/// Returns the CPU seconds of a process so far, including threads that have ended.
pub fn cpu_seconds(process: u32) -> Result<f64> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat"))?;
    // The name in parentheses may contain blanks.
    let fields = stat.rsplit(')').next().unwrap_or_default();
    let ticks = fields.split_whitespace().skip(11).take(2);
    let ticks: Vec<u32> = ticks.map(str::parse).collect::<Result<_, _>>()?;
    Ok(f64::from(ticks.iter().sum::<u32>()) / TICKS_PER_SECOND)
}

/// Waits until `holds` returns true, for as long as that may take on a loaded machine.
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
