//! Limits how many bytes of a file are in flight.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// The most bytes of a file in flight, in memory until they are acknowledged. OpenSSH accepts no more of a channel's
/// data before it has processed it (`CHAN_SES_WINDOW_DEFAULT` in its `channels.h`, 2 MiB). The limit is lower, so that
/// no packet is sent partly, which would block everything else.
const LARGEST_WINDOW: usize = (2 << 20) - (256 << 10);
/// Enough for 10 MB/s with a round trip of 25 ms.
const SMALLEST_WINDOW: usize = 256 << 10;
/// Assumed bandwidth of a link, in bytes per millisecond. More in flight than that only fills the server's memory, and
/// slows it down.
const RATE: usize = 80_000;
/// Memory for all windows of the process, in bytes, as long as each file gets at least the smallest window. Windows
/// that are already in flight do not shrink when other transfers begin.
const BUDGET: usize = 16 << 20;
/// Number of files that this process is sending.
static SENDING: AtomicUsize = AtomicUsize::new(0);

/// Counts one file as being sent until it is dropped.
pub struct Sending;

impl Sending {
    /// Begins to count.
    pub fn begin() -> Self {
        SENDING.fetch_add(1, Ordering::Relaxed);
        Self
    }
}

impl Drop for Sending {
    fn drop(&mut self) {
        SENDING.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Returns how many bytes of a file may be in flight now, with this round trip.
pub fn window(round_trip: Duration) -> usize {
    share(SENDING.load(Ordering::Relaxed), round_trip)
}

/// Returns the same for a given number of files.
fn share(files: usize, round_trip: Duration) -> usize {
    let milliseconds = usize::try_from(round_trip.as_millis()).unwrap_or(usize::MAX);
    (BUDGET / files.max(1))
        .min(milliseconds.saturating_mul(RATE))
        .clamp(SMALLEST_WINDOW, LARGEST_WINDOW)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FAR: Duration = Duration::from_millis(100);

    #[test]
    fn all_that_is_sent_shares_what_it_may_take_of_memory() {
        assert_eq!(share(0, FAR), LARGEST_WINDOW);
        for files in 1..=BUDGET / SMALLEST_WINDOW {
            let taken = files * share(files, FAR);
            assert!(taken <= BUDGET, "{files} files take {taken}");
        }
        assert_eq!(share(1_000, FAR), SMALLEST_WINDOW);
    }

    #[test]
    fn no_more_is_on_its_way_than_the_link_can_carry() {
        assert_eq!(share(1, Duration::ZERO), SMALLEST_WINDOW);
        assert_eq!(share(1, Duration::from_millis(10)), 800_000);
        assert_eq!(share(1, Duration::MAX), LARGEST_WINDOW);
    }
}
