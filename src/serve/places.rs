//! Places for connections. Whoever comes last always gets one: what an honest client wants takes milliseconds, so it is
//! the oldest connection of whoever holds most that makes way.

use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;

/// Why a connection was ended here.
#[derive(Debug, thiserror::Error)]
pub enum Ended {
    /// It has had its time.
    #[error("it took longer than {} s", .0.as_secs())]
    TooLong(Duration),
    /// Another one needed its place.
    #[error("it made way for another connection")]
    MadeWay,
}

/// How many connections may hold a place at one time.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// In all.
    pub all: usize,
    /// From one address.
    pub of_one_peer: usize,
}

/// The places of one server.
#[derive(Clone)]
pub struct Places {
    bounds: Bounds,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    last: u64,
    /// The oldest first.
    taken: Vec<Taken>,
}

struct Taken {
    number: u64,
    peer: IpAddr,
    /// When this is dropped, who holds the place has to leave.
    _stays: oneshot::Sender<()>,
}

/// A place, for as long as it is not dropped.
pub struct Place {
    number: u64,
    has_to_leave: oneshot::Receiver<()>,
    state: Arc<Mutex<State>>,
}

impl Places {
    /// All of them free.
    pub fn new(bounds: Bounds) -> Self {
        Self {
            bounds,
            state: Arc::default(),
        }
    }

    /// A place for a connection from that address.
    pub fn take(&self, peer: IpAddr) -> Place {
        let mut state = lock(&self.state);
        state.make_room(peer, self.bounds);
        state.last += 1;
        let number = state.last;
        let (stays, has_to_leave) = oneshot::channel();
        state.taken.push(Taken {
            number,
            peer,
            _stays: stays,
        });
        Place {
            number,
            has_to_leave,
            state: Arc::clone(&self.state),
        }
    }
}

impl State {
    fn held_by(&self, peer: IpAddr) -> usize {
        self.taken.iter().filter(|taken| taken.peer == peer).count()
    }

    fn make_room(&mut self, peer: IpAddr, bounds: Bounds) {
        let from = if self.held_by(peer) >= bounds.of_one_peer {
            Some(peer)
        } else if self.taken.len() >= bounds.all {
            // Of several that hold as many, the one whose connection is the oldest: the last to be looked at.
            let peers = self.taken.iter().rev().map(|taken| taken.peer);
            peers.max_by_key(|peer| self.held_by(*peer))
        } else {
            None
        };
        if let Some(oldest) =
            from.and_then(|from| self.taken.iter().position(|taken| taken.peer == from))
        {
            self.taken.remove(oldest);
        }
    }
}

impl Place {
    /// Does the work of a connection, for as long as it may have its place.
    pub async fn hold<F: Future>(mut self, limit: Duration, work: F) -> Result<F::Output, Ended> {
        tokio::select! {
            done = tokio::time::timeout(limit, work) => done.map_err(|_| Ended::TooLong(limit)),
            _ = &mut self.has_to_leave => Err(Ended::MadeWay),
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut state = lock(&self.state);
        state.taken.retain(|taken| taken.number != self.number);
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: Bounds = Bounds {
        all: 4,
        of_one_peer: 3,
    };

    fn peer(number: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, number])
    }

    /// Whether it has to leave.
    fn leaves(place: &mut Place) -> bool {
        place.has_to_leave.try_recv() == Err(oneshot::error::TryRecvError::Closed)
    }

    #[test]
    fn one_peer_is_in_nobody_elses_way() {
        let places = Places::new(SMALL);
        let mut honest = places.take(peer(1));
        let mut greedy: Vec<Place> = (0..10).map(|_| places.take(peer(2))).collect();
        assert!(!leaves(&mut honest));
        let stay = greedy.iter_mut().map(|place| !leaves(place));
        assert_eq!(stay.collect::<Vec<_>>()[6..], [false, true, true, true]);
        // All places are taken: who holds most makes way.
        let mut another = places.take(peer(3));
        assert!(leaves(&mut greedy[7]) && !leaves(&mut honest) && !leaves(&mut another));
        let mut fourth = places.take(peer(4));
        assert!(leaves(&mut greedy[8]) && !leaves(&mut honest) && !leaves(&mut fourth));
        // All hold one: the oldest.
        let mut fifth = places.take(peer(5));
        assert!(leaves(&mut honest) && !leaves(&mut greedy[9]) && !leaves(&mut fifth));
        assert_eq!(lock(&places.state).taken.len(), SMALL.all);
    }

    #[tokio::test]
    async fn a_place_is_free_again_when_its_work_or_its_time_is_over() {
        let places = Places::new(SMALL);
        let (short, long) = (Duration::from_millis(1), Duration::from_secs(60));
        let done = places.take(peer(1)).hold(long, async { 7 }).await;
        assert_eq!(done.unwrap(), 7);
        let never = std::future::pending::<()>();
        let ended = places.take(peer(1)).hold(short, never).await;
        assert!(matches!(ended, Err(Ended::TooLong(_))));
        assert!(lock(&places.state).taken.is_empty());
        let place = places.take(peer(1));
        let held = tokio::spawn(place.hold(long, std::future::pending::<()>()));
        let _others: Vec<Place> = (0..3).map(|_| places.take(peer(1))).collect();
        assert!(matches!(held.await.unwrap(), Err(Ended::MadeWay)));
    }
}
