//! Computes the delays between retries.

use std::time::Duration;

/// Returns the delay after this many consecutive failures: it doubles each time, from `first` up to `longest`, and is never
/// less than `first`, plus or minus a fifth so that many clients that fail together do not retry together.
pub fn pause(failures: u32, first: Duration, longest: Duration) -> Duration {
    spread(failures, first, longest, rand::random())
}

/// Returns the interval plus or minus a tenth, so that periodic tasks that started together drift apart.
pub fn jittered(interval: Duration) -> Duration {
    interval.mul_f64(0.9 + 0.2 * rand::random::<f64>())
}

fn spread(failures: u32, first: Duration, longest: Duration, random: f64) -> Duration {
    let doubled = first
        .saturating_mul(1 << failures.saturating_sub(1).min(16))
        .min(longest.max(first));
    doubled.mul_f64(0.8 + 0.4 * random)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_is_kept_by_a_tenth_and_not_by_all_alike() {
        let interval = Duration::from_secs(100);
        let pauses: Vec<Duration> = (0..100).map(|_| jittered(interval)).collect();
        assert!(
            pauses
                .iter()
                .all(|pause| (90..=110).contains(&pause.as_secs()))
        );
        assert!(pauses.iter().any(|pause| *pause != pauses[0]));
    }

    #[test]
    fn pauses_grow_to_a_limit_and_never_vanish() {
        let (first, longest) = (Duration::from_secs(2), Duration::from_secs(300));
        let middle = |failures| spread(failures, first, longest, 0.5);
        assert_eq!(middle(1), first);
        assert_eq!(middle(2), first * 2);
        assert_eq!(middle(30), longest);
        assert!(spread(u32::MAX, first, longest, 1.0) <= longest.mul_f64(1.2));
        assert!(spread(1, first, longest, 0.0) >= first.mul_f64(0.8));
        assert_eq!(
            spread(9, first, Duration::ZERO, 0.5),
            first,
            "an end that is too low is no hot loop"
        );
        assert!(spread(0, first, longest, 0.0) >= first.mul_f64(0.8));
    }
}
