//! What a process takes of the machine, from second to second.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};

const INTERVAL: Duration = Duration::from_secs(1);

/// Looks at a process until it is told to finish.
pub struct Sampler {
    stop: mpsc::Sender<()>,
    thread: JoinHandle<Result<Series>>,
}

/// All that was seen.
#[derive(Clone, Debug)]
pub struct Series {
    /// In seconds since the first sample.
    pub times: Vec<f64>,
    /// A value for each time.
    pub curves: [Curve; 4],
}

/// One quantity.
#[derive(Clone, Debug)]
pub struct Curve {
    pub name: &'static str,
    pub unit: &'static str,
    /// It moves a little always; else it is a count.
    pub is_memory: bool,
    pub values: Vec<f64>,
    times: Vec<f64>,
}

impl Sampler {
    /// Samples that process, and the tasks that it tells at that address.
    pub fn start(pid: u32, address: String) -> Self {
        let (stop, stopped) = mpsc::channel();
        let thread = std::thread::spawn(move || sample(pid, &address, &stopped));
        Self { stop, thread }
    }

    /// What was seen.
    pub fn finish(self) -> Result<Series> {
        // One that has failed says so itself.
        let _ = self.stop.send(());
        let joined = self.thread.join();
        joined.map_err(|_| anyhow!("the sampler panicked"))?
    }
}

fn sample(pid: u32, address: &str, stopped: &mpsc::Receiver<()>) -> Result<Series> {
    let curve = |name, unit| Curve {
        name,
        unit,
        is_memory: unit == "MB",
        values: Vec::new(),
        times: Vec::new(),
    };
    let mut curves = [
        curve("resident memory", "MB"),
        curve("open files", "files"),
        curve("threads", "threads"),
        curve("tasks", "tasks"),
    ];
    let mut times = Vec::new();
    let start = Instant::now();
    while stopped.recv_timeout(INTERVAL) == Err(RecvTimeoutError::Timeout) {
        let values = [
            resident(pid)?,
            entries(pid, "fd")?,
            entries(pid, "task")?,
            tasks(address)?,
        ];
        let now = start.elapsed().as_secs_f64();
        times.push(now);
        for (curve, value) in curves.iter_mut().zip(values) {
            curve.values.push(value);
            curve.times.push(now);
        }
    }
    ensure!(times.len() >= 8, "too short to say anything");
    Ok(Series { times, curves })
}

/// In MB.
fn resident(pid: u32) -> Result<f64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kibibytes = line.and_then(|rest| rest.trim().strip_suffix("kB"));
    let kibibytes: f64 = kibibytes.context("VmRSS")?.trim().parse()?;
    Ok(kibibytes * 1024.0 / 1e6)
}

#[allow(clippy::cast_precision_loss, reason = "counts of files")]
fn entries(pid: u32, of: &str) -> Result<f64> {
    Ok(fs::read_dir(format!("/proc/{pid}/{of}"))?.count() as f64)
}

fn tasks(address: &str) -> Result<f64> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(Duration::from_secs(30)))?;
    let request = format!("GET /metrics HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let marker = "\nwindows_storage_runtime_tasks ";
    let (_, rest) = answer.split_once(marker).context("no metric of tasks")?;
    Ok(rest.lines().next().unwrap_or_default().trim().parse()?)
}

impl Curve {
    fn quarter(&self, number: usize) -> &[f64] {
        let length = self.values.len();
        &self.values[length * (number - 1) / 4..length * number / 4]
    }

    /// The median of the last quarter.
    pub fn last_quarter(&self) -> f64 {
        median(self.quarter(4))
    }

    /// By how many percent the last quarter's median is above the second's. The first is warm-up.
    pub fn growth(&self) -> f64 {
        let before = median(self.quarter(2));
        (self.last_quarter() / before - 1.0) * 100.0
    }

    /// The least-squares slope after the first quarter, in units a minute.
    #[allow(clippy::cast_precision_loss, reason = "counts of samples")]
    pub fn slope_per_minute(&self) -> f64 {
        let from = self.values.len() / 4;
        let (times, values) = (&self.times[from..], &self.values[from..]);
        let count = times.len() as f64;
        let (mean_time, mean_value) = (
            times.iter().sum::<f64>() / count,
            values.iter().sum::<f64>() / count,
        );
        let (mut together, mut square) = (0.0, 0.0);
        for (time, value) in times.iter().zip(values) {
            together += (time - mean_time) * (value - mean_value);
            square += (time - mean_time).powi(2);
        }
        together / square * 60.0
    }

    /// How far the median of the last twentieth is above the most that was seen in the second quarter; below zero where
    /// it is below.
    pub fn end_over_second_quarter(&self) -> f64 {
        let length = self.values.len();
        let end = median(&self.values[length - (length / 20).max(1)..]);
        end - self.quarter(2).iter().copied().fold(f64::MIN, f64::max)
    }
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curve(values: &[f64]) -> Curve {
        #[allow(clippy::cast_precision_loss, reason = "small")]
        let times = (0..values.len()).map(|second| second as f64).collect();
        Curve {
            name: "x",
            unit: "MB",
            is_memory: true,
            values: values.to_vec(),
            times,
        }
    }

    #[test]
    fn what_grows_is_seen_and_what_only_moves_is_not() {
        let close = |left: f64, right: f64| (left - right).abs() < 1e-9;
        let flat = curve(&[1.0, 99.0, 5.0, 5.0, 5.0, 5.0, 5.0, 5.0]);
        assert!(close(flat.growth(), 0.0) && close(flat.slope_per_minute(), 0.0));
        let peak = curve(&[1.0, 1.0, 9.0, 5.0, 5.0, 5.0, 5.0, 5.0]);
        assert!(close(peak.end_over_second_quarter(), -4.0));
        let leak = curve(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]);
        assert!(close(leak.growth(), 100.0), "{}", leak.growth());
        assert!(close(leak.slope_per_minute(), 60.0));
        assert!(close(leak.end_over_second_quarter(), 4.0));
    }
}
