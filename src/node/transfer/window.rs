//! How much of a file may be on its way at one time.

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
/// How long what is on its way may take to arrive, by what the link has carried so far: libssh2 hands all of it to the
/// socket before it takes an acknowledgement, and gives that up after [`OPERATION`](crate::node::connect::OPERATION).
const ON_ITS_WAY: Duration = Duration::from_secs(10);
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

/// What a link has carried.
#[derive(Clone, Copy, Debug)]
pub struct Carried {
    /// What was acknowledged, in bytes.
    pub bytes: usize,
    /// How long that took.
    pub took: Duration,
}

/// How much of a file may be on its way now, where it takes so long to hear of it.
pub fn window(round_trip: Duration, carried: Carried) -> usize {
    share(SENDING.load(Ordering::Relaxed), round_trip, carried)
}

/// The same for each of so many files.
fn share(files: usize, round_trip: Duration, carried: Carried) -> usize {
    let milliseconds = |time: Duration| usize::try_from(time.as_millis()).unwrap_or(usize::MAX);
    let soon = carried.bytes.saturating_mul(milliseconds(ON_ITS_WAY));
    (BUDGET / files.max(1))
        .min(milliseconds(round_trip).saturating_mul(RATE))
        .min(soon / milliseconds(carried.took).max(1))
        .clamp(SMALLEST_WINDOW, LARGEST_WINDOW)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::connect::OPERATION;

    const FAR: Duration = Duration::from_millis(100);
    const MUCH: Carried = Carried {
        bytes: 1 << 20,
        took: FAR,
    };

    #[test]
    fn all_that_is_sent_shares_what_it_may_take_of_memory() {
        assert_eq!(share(0, FAR, MUCH), LARGEST_WINDOW);
        for files in 1..=BUDGET / SMALLEST_WINDOW {
            let taken = files * share(files, FAR, MUCH);
            assert!(taken <= BUDGET, "{files} files take {taken}");
        }
        assert_eq!(share(1_000, FAR, MUCH), SMALLEST_WINDOW);
    }

    #[test]
    fn no_more_is_on_its_way_than_the_link_can_carry() {
        assert_eq!(share(1, Duration::ZERO, MUCH), SMALLEST_WINDOW);
        assert_eq!(share(1, Duration::from_millis(10), MUCH), 800_000);
        assert_eq!(share(1, Duration::MAX, MUCH), LARGEST_WINDOW);
    }

    #[test]
    fn what_is_on_its_way_over_a_slow_link_arrives_in_time() {
        for rate in [6_000, 30_000, 100_000] {
            for seconds in [1, 7, 100] {
                let carried = Carried {
                    bytes: rate * seconds,
                    took: Duration::from_secs(seconds as u64),
                };
                let limit = OPERATION.as_secs() as usize;
                let window = share(1, FAR, carried);
                assert!(
                    window / rate < limit * 3 / 4,
                    "{window} bytes at {rate} bytes a second"
                );
            }
        }
        // Nothing is known yet, or it is fast.
        let first = Carried {
            bytes: 0,
            took: Duration::ZERO,
        };
        assert_eq!(share(1, FAR, first), SMALLEST_WINDOW);
        let fast = Carried {
            bytes: SMALLEST_WINDOW,
            took: FAR,
        };
        assert_eq!(share(1, FAR, fast), LARGEST_WINDOW);
    }
}
