//! What the process takes of the machine, under the names that Prometheus' client libraries share and dashboards expect:
//! <https://prometheus.io/docs/instrumenting/writing_clientlibs/#process-metrics>.

use std::fmt;
use std::fs;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use rustix::param::{clock_ticks_per_second, page_size};

/// Reads `/proc/self` when it is asked.
#[derive(Debug)]
pub struct ProcessCollector;

impl Collector for ProcessCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        // One that has no procfs shows the rest.
        let usage = Usage::read();
        if let Some(usage) = &usage {
            let seconds = ConstCounter::new(usage.cpu_seconds);
            let metric = encoder.encode_descriptor(
                "process_cpu_seconds",
                "Total user and system CPU time spent in seconds",
                None,
                seconds.metric_type(),
            )?;
            seconds.encode(metric)?;
        }
        let runtime = tokio::runtime::Handle::try_current().ok();
        let gauges = [
            (
                "process_resident_memory_bytes",
                "Resident memory size in bytes",
                usage.as_ref().map(|usage| usage.resident),
            ),
            (
                "process_virtual_memory_bytes",
                "Virtual memory size in bytes",
                usage.as_ref().map(|usage| usage.virtual_),
            ),
            (
                "process_open_fds",
                "Number of open file descriptors",
                open_files(),
            ),
            (
                "process_max_fds",
                "Maximum number of open file descriptors",
                most_open_files(),
            ),
            (
                "windows_storage_runtime_tasks",
                "Tasks of the asynchronous runtime that have not ended",
                runtime.map(|runtime| runtime.metrics().num_alive_tasks() as u64),
            ),
        ];
        for (name, help, value) in gauges {
            if let Some(value) = value {
                let gauge = ConstGauge::new(i64::try_from(value).unwrap_or(i64::MAX));
                let metric = encoder.encode_descriptor(name, help, None, gauge.metric_type())?;
                gauge.encode(metric)?;
            }
        }
        Ok(())
    }
}

/// What proc(5) says of `/proc/PID/stat`.
#[derive(Debug, PartialEq)]
struct Usage {
    cpu_seconds: f64,
    /// Bytes.
    virtual_: u64,
    /// Bytes.
    resident: u64,
}

impl Usage {
    fn read() -> Option<Self> {
        let stat = fs::read_to_string("/proc/self/stat").ok()?;
        let page = u64::try_from(page_size()).ok()?;
        Self::parse(&stat, clock_ticks_per_second(), page)
    }

    fn parse(stat: &str, ticks: u64, page: u64) -> Option<Self> {
        // The program's name, in parentheses, may hold anything.
        let (_, rest) = stat.rsplit_once(')')?;
        let fields: Vec<&str> = rest.split_whitespace().collect();
        // The first of these is field 3.
        let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
        let (user, system) = (field(14)?, field(15)?);
        #[allow(
            clippy::cast_precision_loss,
            reason = "an age in ticks is far below 2⁵²"
        )]
        let cpu_seconds = (user + system) as f64 / ticks as f64;
        Some(Self {
            cpu_seconds,
            virtual_: field(23)?,
            resident: field(24)? * page,
        })
    }
}

fn open_files() -> Option<u64> {
    let listed = fs::read_dir("/proc/self/fd").ok()?.count();
    // The list itself was one.
    u64::try_from(listed.saturating_sub(1)).ok()
}

fn most_open_files() -> Option<u64> {
    let limits = fs::read_to_string("/proc/self/limits").ok()?;
    let line = limits
        .lines()
        .find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_procfs_is_read_whatever_the_program_is_called() {
        let stat = "4242 (a) b (c) S 1 4242 4242 0 -1 4194560 900 0 3 0 150 75 0 0 20 0 5 0 1234 54321152 2500 18446744073709551615 1 1 0";
        let usage = Usage::parse(stat, 100, 4096).unwrap();
        let expected = Usage {
            cpu_seconds: 2.25,
            virtual_: 54_321_152,
            resident: 2500 * 4096,
        };
        assert_eq!(usage, expected);
        assert_eq!(Usage::parse("4242 (cut", 100, 4096), None);
        assert_eq!(Usage::parse("4242 (cut) S 1", 100, 4096), None);
    }

    #[test]
    fn this_process_has_memory_and_files() {
        let usage = Usage::read().unwrap();
        assert!(
            usage.resident > 100_000 && usage.virtual_ >= usage.resident,
            "{usage:?}"
        );
        let before = open_files().unwrap();
        let held: Vec<_> = (0..50)
            .map(|_| fs::File::open("/proc/self/stat").unwrap())
            .collect();
        // Other tests of this process open and close some as well.
        assert!(open_files().unwrap() > before + 25);
        drop(held);
        assert!(most_open_files().unwrap() > 50);
    }
}
