//! How often unknown tokens may be asked about: anybody can make them up, and the API server must not feel it.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

/// From all addresses together, and from each.
const ALL: Rate = Rate {
    burst: 10,
    every: Duration::from_millis(200),
};
const ONE_PEER: Rate = Rate {
    burst: 5,
    every: Duration::from_millis(500),
};
/// Addresses that are remembered. More of them at one time share the rate of all.
const PEERS: usize = 256;

/// So many at once, and then one more with each interval.
#[derive(Clone, Copy)]
struct Rate {
    burst: u32,
    every: Duration,
}

/// A token bucket, as the moment at which it will be full.
#[derive(Clone, Copy)]
struct Bucket(Instant);

impl Bucket {
    /// The bucket when one more was taken, unless it is empty.
    fn taken(self, rate: Rate, now: Instant) -> Option<Self> {
        let full = self.0.max(now) + rate.every;
        (full <= now + rate.every * rate.burst).then_some(Self(full))
    }
}

/// The buckets.
#[derive(Default)]
pub struct Pace {
    all: Option<Bucket>,
    peers: HashMap<IpAddr, Bucket>,
}

impl Pace {
    /// Whether one more may be asked about now, for that address. One address alone cannot use up what there is for all.
    pub fn allows(&mut self, peer: IpAddr, now: Instant) -> bool {
        self.peers.retain(|_, bucket| bucket.0 > now);
        let full = Bucket(now);
        let own = self.peers.get(&peer).copied().unwrap_or(full);
        let own = own.taken(ONE_PEER, now);
        let all = self.all.unwrap_or(full).taken(ALL, now);
        let (Some(own), Some(all)) = (own, all) else {
            return false;
        };
        self.all = Some(all);
        if self.peers.len() < PEERS || self.peers.contains_key(&peer) {
            self.peers.insert(peer, own);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(number: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, number])
    }

    fn allowed(pace: &mut Pace, number: u8, now: Instant) -> usize {
        (0..100).filter(|_| pace.allows(peer(number), now)).count()
    }

    #[test]
    fn unknown_tokens_have_a_rate_and_one_peer_does_not_use_up_all_of_it() {
        let start = Instant::now();
        let mut pace = Pace::default();
        assert_eq!(allowed(&mut pace, 1, start), 5);
        assert_eq!(allowed(&mut pace, 2, start), 5);
        assert_eq!(allowed(&mut pace, 3, start), 0, "the burst of all");
        let later = start + Duration::from_secs(1);
        assert_eq!(allowed(&mut pace, 1, later), 2);
        assert_eq!(allowed(&mut pace, 3, later), 3, "of five a second");
        let much_later = later + Duration::from_secs(60);
        assert_eq!(allowed(&mut pace, 1, much_later), 5);
        assert_eq!(pace.peers.len(), 1, "who was long ago is forgotten");
    }
}
