//! The durations of a lease, and their limits.

use std::time::Duration;

/// How much client-go jitters the pause between two attempts; a renewal must be possible even after the longest pause.
/// Source: `JitterFactor` in `leaderelection.go`.
const JITTER: f64 = 1.2;

/// The durations of an election. The defaults are OpenShift's: 137 s, 107 s and 26 s, with which an API server may be
/// unavailable for a minute without a change of leader (library-go, `LeaderElectionDefaulting`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timings {
    /// How long other candidates wait after the last observed renewal.
    pub(crate) lease_duration: Duration,
    /// How long a leader acts after the start of its last successful renewal.
    pub(crate) renew_deadline: Duration,
    /// The pause between two checks of the lease, and between two renewals.
    pub(crate) retry_period: Duration,
}

impl Default for Timings {
    fn default() -> Self {
        Self {
            lease_duration: Duration::from_secs(137),
            renew_deadline: Duration::from_secs(107),
            retry_period: Duration::from_secs(26),
        }
    }
}

/// Durations with which two processes could lead at once, or none for long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TimingsError {
    /// The Lease stores whole seconds.
    #[error("the lease duration must be whole seconds, from 1 s to a day")]
    LeaseDuration,
    /// A leader that cannot renew must stop before another begins.
    #[error(
        "the renew deadline must be shorter than the lease duration, so that a leader stops before the next one starts"
    )]
    RenewDeadline,
    /// There must be attempts before the deadline.
    #[error(
        "the retry period must be at least 100 ms, and {JITTER} times it shorter than the renew deadline"
    )]
    RetryPeriod,
}

impl Timings {
    /// The longest lease duration.
    const DAY: Duration = Duration::from_secs(24 * 60 * 60);

    /// Checks that the durations fit each other.
    pub fn new(
        lease_duration: Duration,
        renew_deadline: Duration,
        retry_period: Duration,
    ) -> Result<Self, TimingsError> {
        let is_whole = lease_duration.subsec_nanos() == 0 && !lease_duration.is_zero();
        if !is_whole || lease_duration > Self::DAY {
            return Err(TimingsError::LeaseDuration);
        }
        if renew_deadline >= lease_duration {
            return Err(TimingsError::RenewDeadline);
        }
        // At most a day here, so it cannot overflow.
        let is_short = retry_period < Self::DAY && retry_period.mul_f64(JITTER) < renew_deadline;
        if !is_short || retry_period < Duration::from_millis(100) {
            return Err(TimingsError::RetryPeriod);
        }
        Ok(Self {
            lease_duration,
            renew_deadline,
            retry_period,
        })
    }

    /// Returns the duration that is stored in the Lease.
    pub(super) fn lease_seconds(&self) -> i32 {
        // At most a day.
        i32::try_from(self.lease_duration.as_secs()).unwrap_or(i32::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timings(lease: u64, renew: u64, retry: u64) -> Result<Timings, TimingsError> {
        let milliseconds = Duration::from_millis;
        Timings::new(
            milliseconds(lease),
            milliseconds(renew),
            milliseconds(retry),
        )
    }

    #[test]
    fn the_defaults_fit_each_other() {
        assert_eq!(timings(137_000, 107_000, 26_000), Ok(Timings::default()));
        assert_eq!(Timings::default().lease_seconds(), 137);
    }

    #[test]
    fn times_by_which_two_could_lead_are_refused() {
        assert_eq!(timings(4_000, 3_999, 500).map(drop), Ok(()));
        assert_eq!(timings(86_400_000, 3_999, 500).map(drop), Ok(()));
        for (lease, renew, retry, refused) in [
            (0, 0, 0, TimingsError::LeaseDuration),
            (1_500, 1_000, 500, TimingsError::LeaseDuration),
            (86_401_000, 1_000, 500, TimingsError::LeaseDuration),
            (4_000, 4_000, 500, TimingsError::RenewDeadline),
            (4_000, 5_000, 500, TimingsError::RenewDeadline),
            (4_000, 3_000, 2_500, TimingsError::RetryPeriod),
            (4_000, 3_000, 99, TimingsError::RetryPeriod),
            (4_000, 3_000, u64::MAX, TimingsError::RetryPeriod),
        ] {
            assert_eq!(
                timings(lease, renew, retry),
                Err(refused),
                "{lease} {renew} {retry}"
            );
        }
    }
}
