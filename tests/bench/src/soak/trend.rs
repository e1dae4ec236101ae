//! A process's resource use, and whether it grows.

use std::time::Duration;

use crate::figures::{median, megabytes};
use crate::process::Sample;
use crate::report::{Row, rows};

/// Returns memory, open files and threads, each with its trend.
#[allow(clippy::cast_precision_loss, reason = "counts of files and threads")]
pub fn trends(samples: &[Sample], interval: Duration) -> Vec<Row> {
    let values = |field: &dyn Fn(&Sample) -> f64| samples.iter().map(field).collect::<Vec<_>>();
    let memory = values(&|sample| megabytes(sample.anonymous));
    let per_minute = slope(&memory) * 60.0 / interval.as_secs_f64() * 1000.0;
    let files = values(&|sample| sample.files as f64);
    let threads = values(&|sample| sample.threads as f64);
    rows! {
        "soak: anonymous memory, last quarter" => last(&memory), "MB";
        "soak: anonymous memory, last quarter beside the second" => growth(&memory), "%", at_most 10.0;
        "soak: anonymous memory, slope after the first quarter" => per_minute, "kB/min";
        "soak: open files, last quarter" => last(&files), "open files";
        "soak: open files at the end over the most of the second quarter" =>
            end_over_second_quarter(&files), "open files", at_most 0.0;
        "soak: threads, last quarter" => last(&threads), "threads";
        "soak: threads at the end over the most of the second quarter" =>
            end_over_second_quarter(&threads), "threads", at_most 0.0;
    }
}

fn quarter(values: &[f64], number: usize) -> &[f64] {
    &values[values.len() * (number - 1) / 4..values.len() * number / 4]
}

/// The median of the last quarter.
fn last(values: &[f64]) -> f64 {
    median(quarter(values, 4))
}

/// Returns by how many percent the last quarter's median exceeds the second's. The first quarter is warm-up.
fn growth(values: &[f64]) -> f64 {
    (last(values) / median(quarter(values, 2)) - 1.0) * 100.0
}

/// Returns the least-squares slope per sample, without the first quarter.
#[allow(clippy::cast_precision_loss, reason = "counts of samples")]
fn slope(values: &[f64]) -> f64 {
    let values = &values[values.len() / 4..];
    let count = values.len() as f64;
    let mean_place = (count - 1.0) / 2.0;
    let mean = values.iter().sum::<f64>() / count;
    let (mut together, mut square) = (0.0, 0.0);
    for (place, value) in values.iter().enumerate() {
        let place = place as f64 - mean_place;
        together += place * (value - mean);
        square += place.powi(2);
    }
    together / square
}

/// Returns the median of the last twentieth minus the maximum of the second quarter.
fn end_over_second_quarter(values: &[f64]) -> f64 {
    let end = median(&values[values.len() - (values.len() / 20).max(1)..]);
    let most = quarter(values, 2).iter().copied().fold(f64::MIN, f64::max);
    end - most
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_is_seen_and_movement_is_not() {
        let close = |left: f64, right: f64| (left - right).abs() < 1e-9;
        let flat = [1.0, 99.0, 5.0, 5.0, 5.0, 5.0, 5.0, 5.0];
        assert!(close(growth(&flat), 0.0) && close(slope(&flat), 0.0));
        let peak = [1.0, 1.0, 9.0, 5.0, 5.0, 5.0, 5.0, 5.0];
        assert!(close(end_over_second_quarter(&peak), -4.0));
        let leak = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0];
        // Of two values, the lower one is the median.
        assert!(
            close(growth(&leak), (7.0 / 3.0 - 1.0) * 100.0),
            "{}",
            growth(&leak)
        );
        assert!(close(slope(&leak), 1.0));
        assert!(close(end_over_second_quarter(&leak), 4.0));
    }
}
