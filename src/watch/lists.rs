//! Asks for new lists of all kinds that the verdict depends on: what cannot be taken back rests on one.

use std::time::{Duration, Instant};

use tokio::sync::watch;

/// How far lists are apart at first, and while they are asked for again and again.
const FIRST: Duration = Duration::from_secs(10);
const LONGEST: Duration = Duration::from_secs(300);
/// After this long without one, the next one comes at once again.
const QUIET: Duration = Duration::from_secs(600);

/// What lists are wanted for. Each has its own pauses: a node that cannot be released must not hold up the gate.
#[derive(Clone, Copy, Debug)]
pub enum Wish {
    /// To open the gate.
    Gate,
    /// To take something off a node.
    Nodes,
}

/// Who wants lists.
#[derive(Debug)]
pub struct Lists {
    asked: watch::Sender<()>,
    /// "While the gate opens and closes in turn, lists are 10 s apart, doubling to five minutes": when they were last asked
    /// for, and how far the next ones are from these, by [`Wish`].
    last: [Option<(Instant, Duration)>; 2],
}

impl Lists {
    /// Creates it at the start, when every kind is listed anyway.
    pub(super) fn new() -> Self {
        Self {
            asked: watch::Sender::default(),
            last: [None; 2],
        }
    }

    pub(super) fn subscribe(&self) -> watch::Receiver<()> {
        self.asked.subscribe()
    }

    /// Asks for lists that begin at `since` or later, unless they are on their way. Returns when to ask again if it is too
    /// early.
    pub fn want(&mut self, wish: Wish, since: Instant, now: Instant) -> Option<Instant> {
        if (self.last.iter().flatten()).any(|(last, _)| *last >= since) {
            return None;
        }
        let last = &mut self.last[wish as usize];
        let apart = match *last {
            Some((last, apart)) if now < last + apart => return Some(last + apart),
            Some((last, apart)) if now < last + QUIET => (apart * 2).min(LONGEST),
            Some(_) | None => FIRST,
        };
        *last = Some((now, apart));
        self.asked.send_replace(());
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_lists_come_at_once_and_those_that_follow_ever_later() {
        let mut lists = Lists::new();
        let mut asked = lists.subscribe();
        let (start, mut last) = (Instant::now(), 0);
        let after = |seconds| start + Duration::from_secs(seconds);
        for (since, now, due) in [
            (0, 0, None),
            (0, 5, None),
            (6, 6, Some(10)),
            (6, 10, None),
            (11, 11, Some(30)),
            (11, 30, None),
            (31, 69, Some(70)),
            (31, 70, None),
            (71, 150, None),
            (151, 310, None),
            // Five minutes apart from here on.
            (311, 609, Some(610)),
            (311, 610, None),
            (611, 910, None),
            // Quiet for ten minutes.
            (1_510, 1_510, None),
            (1_511, 1_511, Some(1_520)),
        ] {
            let wait = lists.want(Wish::Gate, after(since), after(now));
            assert_eq!(wait, due.map(after), "since {since}, at {now}");
            if asked.has_changed().unwrap() {
                asked.mark_unchanged();
                last = now;
            }
            assert!(due.is_some() || last >= since, "at {now}");
        }
    }

    #[test]
    fn who_wants_lists_again_and_again_does_not_hold_up_the_other() {
        let mut lists = Lists::new();
        let asked = lists.subscribe();
        let start = Instant::now();
        let after = |seconds| start + Duration::from_secs(seconds);
        for at in [0, 10, 30, 70] {
            assert_eq!(lists.want(Wish::Nodes, after(at), after(at)), None);
        }
        let early = lists.want(Wish::Nodes, after(71), after(71));
        assert_eq!(early, Some(after(150)));
        assert_eq!(lists.want(Wish::Gate, after(70), after(71)), None);
        assert_eq!(lists.want(Wish::Gate, after(72), after(72)), None);
        assert!(asked.has_changed().unwrap());
        // The same lists serve both.
        assert_eq!(lists.want(Wish::Nodes, after(72), after(73)), None);
    }
}
