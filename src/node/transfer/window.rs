//! Limits how many bytes of a file are in flight at a time.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// How much of a file is on its way at most, in memory until it is acknowledged: OpenSSH takes no more of a channel's data
/// before it has carried it out (`CHAN_SES_WINDOW_DEFAULT` in its `channels.h`, 2 MiB). Less than that, so that no packet is
/// sent by half, which nothing else could follow.
const LARGEST_WINDOW: usize = (2 << 20) - (256 << 10);
/// Enough for 10 MB/s over a round trip of 25 ms.
const SMALLEST_WINDOW: usize = 256 << 10;
/// How many bytes a millisecond a link is thought to carry. More on its way than that only lies in the server's memory, and
/// slows it down.
const RATE: usize = 80_000;
/// What all that begins to be sent may take of the process's memory, as long as that leaves each the smallest window. What
/// is on its way already when others begin stays what it is.
const BUDGET: usize = 16 << 20;
/// Files that this process is sending.
static SENDING: AtomicUsize = AtomicUsize::new(0);

/// One of them, until it is dropped.
pub struct Sending;

impl Sending {
    /// Counted from now on.
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

/// How much of a file may be on its way now, where it takes so long to hear of it.
pub fn window(round_trip: Duration) -> usize {
    share(SENDING.load(Ordering::Relaxed), round_trip)
}

/// The same for each of so many files.
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
