//! Describes the machine that the figures were measured on.

use std::fmt;
use std::fs;
use std::thread::available_parallelism;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

/// The class of a machine: what figures depend on, and nothing that identifies it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Machine {
    architecture: String,
    cores: usize,
    /// Rounded up to GiB.
    memory_gibibytes: u64,
    processor: String,
}

impl Machine {
    /// Describes this machine.
    pub fn this() -> Result<Self> {
        let field = |file: &str, name: &str| -> Result<String> {
            let text = fs::read_to_string(file).with_context(|| format!("reading {file}"))?;
            let line = text.lines().find(|line| line.starts_with(name));
            let value = line.and_then(|line| line.split_once(':'));
            Ok(value.map_or_else(
                || "unknown".to_owned(),
                |(_, value)| value.trim().to_owned(),
            ))
        };
        let memory = field("/proc/meminfo", "MemTotal")?;
        let kibibytes: u64 = memory.trim_end_matches(" kB").parse()?;
        Ok(Self {
            architecture: std::env::consts::ARCH.to_owned(),
            cores: available_parallelism()?.get(),
            memory_gibibytes: kibibytes.div_ceil(1024 * 1024),
            processor: field("/proc/cpuinfo", "model name")?,
        })
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}, {} cores, {} GiB, {}",
            self.architecture, self.cores, self.memory_gibibytes, self.processor
        )
    }
}
