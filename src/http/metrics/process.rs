//! Resource usage of the process, under the names that Prometheus' client libraries share and dashboards expect:
//! <https://prometheus.io/docs/instrumenting/writing_clientlibs/#process-metrics>.

use std::time::Duration;
use std::{fmt, fs};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use rustix::param::page_size;
use rustix::process::{Resource, getrlimit};
use rustix::time::{ClockId, clock_gettime};

/// Reads the values from the system on each scrape.
#[derive(Debug)]
pub struct ProcessCollector;

impl Collector for ProcessCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let seconds = ConstCounter::new(cpu_time().as_secs_f64());
        let metric = encoder.encode_descriptor(
            "process_cpu_seconds",
            "Total user and system CPU time spent in seconds",
            None,
            seconds.metric_type(),
        )?;
        seconds.encode(metric)?;
        let runtime = tokio::runtime::Handle::try_current().ok();
        let gauges = [
            (
                "process_resident_memory_bytes",
                "Resident memory size in bytes",
                memory(1),
            ),
            (
                "process_virtual_memory_bytes",
                "Virtual memory size in bytes",
                memory(0),
            ),
            (
                "process_open_fds",
                "Number of open file descriptors",
                open_files(),
            ),
            (
                "process_max_fds",
                "Maximum number of open file descriptors",
                getrlimit(Resource::Nofile).current,
            ),
            (
                "winstorage_runtime_tasks",
                "Running tasks of the asynchronous runtime",
                runtime.map(|runtime| runtime.metrics().num_alive_tasks() as u64),
            ),
        ];
        for (name, help, value) in gauges {
            // A system without procfs still shows the other values.
            if let Some(value) = value {
                let gauge = ConstGauge::new(i64::try_from(value).unwrap_or(i64::MAX));
                let metric = encoder.encode_descriptor(name, help, None, gauge.metric_type())?;
                gauge.encode(metric)?;
            }
        }
        Ok(())
    }
}

fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::try_from(time).unwrap_or_default()
}

/// Returns a field of `/proc/self/statm` in bytes: the first is all mapped memory, the second the resident memory.
fn memory(field: usize) -> Option<u64> {
    let statm = fs::read_to_string("/proc/self/statm").ok()?;
    let pages: usize = statm.split_whitespace().nth(field)?.parse().ok()?;
    u64::try_from(pages * page_size()).ok()
}

fn open_files() -> Option<u64> {
    let listed = fs::read_dir("/proc/self/fd").ok()?.count();
    // One of them is the listing itself.
    u64::try_from(listed.saturating_sub(1)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_has_memory_files_and_used_a_processor() {
        let (mapped, resident) = (memory(0).unwrap(), memory(1).unwrap());
        assert!(
            resident > 100_000 && mapped >= resident,
            "{mapped} {resident}"
        );
        assert!(cpu_time() > Duration::ZERO);
        let before = open_files().unwrap();
        let held: Vec<_> = (0..50)
            .map(|_| fs::File::open("/proc/self/stat").unwrap())
            .collect();
        // Other tests in this process open and close files as well.
        assert!(open_files().unwrap() > before + 25);
        drop(held);
    }
}
