//! What a process takes, as the kernel tells.

use std::fs;

use anyhow::{Context, Result};

/// A process at one moment.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    /// The resident set, in bytes.
    pub resident: u64,
    /// What of it is no part of a file, such as the program.
    pub anonymous: u64,
    /// The resident set at its peak so far.
    pub peak: u64,
    /// Its threads.
    pub threads: u64,
    /// Its open files, sockets among them.
    pub files: u64,
}

impl Sample {
    /// How that process is now.
    pub fn take(process: u32) -> Result<Self> {
        let status = fs::read_to_string(format!("/proc/{process}/status"))?;
        let number = |name: &str| -> Result<u64> {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            let text = line.with_context(|| format!("the kernel does not tell {name}"))?;
            Ok(text.trim().trim_end_matches(" kB").parse()?)
        };
        Ok(Self {
            resident: number("VmRSS:")? * 1024,
            anonymous: number("RssAnon:")? * 1024,
            peak: number("VmHWM:")? * 1024,
            threads: number("Threads:")?,
            files: fs::read_dir(format!("/proc/{process}/fd"))?.count() as u64,
        })
    }
}

/// The kernel counts for programs in hundredths of a second. Source: proc(5), `USER_HZ` of every architecture.
const TICKS_PER_SECOND: f64 = 100.0;

/// What all processes have taken of cores since the machine started, in seconds.
pub fn machine_cpu_seconds() -> Result<f64> {
    /// Which of the numbers of `/proc/stat` are idle time.
    const IDLE: [usize; 2] = [3, 4];
    /// Those after it are counted in others as well.
    const OWN: usize = 8;
    let stat = fs::read_to_string("/proc/stat")?;
    let line = stat.lines().next().unwrap_or_default();
    let ticks = line.split_whitespace().skip(1).take(OWN).enumerate();
    let busy = ticks.filter(|(place, _)| !IDLE.contains(place));
    let busy: Vec<f64> = busy
        .map(|(_, ticks)| ticks.parse())
        .collect::<Result<_, _>>()?;
    Ok(busy.iter().sum::<f64>() / TICKS_PER_SECOND)
}

/// What a process has taken of cores so far, in seconds.
pub fn cpu_seconds(process: u32) -> Result<f64> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat"))?;
    // The name in parentheses may have blanks in it.
    let fields = stat.rsplit(')').next().unwrap_or_default();
    let ticks = fields.split_whitespace().skip(11).take(2);
    let ticks: Vec<u32> = ticks.map(str::parse).collect::<Result<_, _>>()?;
    Ok(f64::from(ticks.iter().sum::<u32>()) / TICKS_PER_SECOND)
}
