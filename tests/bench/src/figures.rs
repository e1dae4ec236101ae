//! Arithmetic on measured numbers.

use std::time::Duration;

/// Converts bytes to megabytes (10⁶ bytes).
#[allow(clippy::cast_precision_loss, reason = "sizes are far below 2⁵² bytes")]
pub fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}

/// Converts a duration to milliseconds.
pub fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// Returns the `share` quantile, always one of the values, or 0 if there are none.
pub fn quantile(values: &[f64], share: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    #[allow(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "there are few values"
    )]
    let place = (share * sorted.len() as f64).ceil() as usize;
    let last = sorted.len().saturating_sub(1);
    sorted
        .get(place.saturating_sub(1).min(last))
        .copied()
        .unwrap_or_default()
}

/// Returns the median, always one of the values, or 0 if there are none.
pub fn median(values: &[f64]) -> f64 {
    quantile(values, 0.5)
}
