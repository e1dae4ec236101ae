//! Events that the agent writes to the Windows event log. Event IDs must not change: administrators use them in filters and
//! alerts.

use protocol::Outcome;

const ERROR: u16 = 1;
const WARNING: u16 = 2;
const INFORMATION: u16 = 4;

/// An event that matters to administrators.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// The event ID. IDs up to 1000 are in the message table that Windows provides for all programs.
    pub id: u32,
    /// The severity, as Windows numbers it.
    pub level: u16,
}

impl Event {
    /// The agent's service has started.
    pub const STARTED: Self = Self::new(100, INFORMATION);
    /// The agent's service stops.
    pub const STOPPED: Self = Self::new(101, INFORMATION);
    /// The agent's service cannot start.
    pub const NOT_STARTED: Self = Self::new(102, ERROR);
    /// A request changed the node.
    pub const UPDATED: Self = Self::new(200, INFORMATION);
    /// A change failed and was rolled back.
    pub const ROLLED_BACK: Self = Self::new(201, WARNING);
    /// A request failed.
    pub const FAILED: Self = Self::new(202, ERROR);

    const fn new(id: u32, level: u16) -> Self {
        Self { id, level }
    }

    /// Returns the event for the end of a request, if any. `failures` is the number of consecutive failures; only the first
    /// one is reported.
    pub fn of(outcome: Outcome, failures: u32) -> Option<Self> {
        match outcome {
            Outcome::Applied => Some(Self::UPDATED),
            Outcome::RolledBack if failures == 1 => Some(Self::ROLLED_BACK),
            Outcome::Failed if failures == 1 => Some(Self::FAILED),
            Outcome::Unchanged | Outcome::RolledBack | Outcome::Failed => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_failure_is_told_once_and_numbers_stay() {
        let id = |outcome, failures| Event::of(outcome, failures).map(|event| event.id);
        assert_eq!(id(Outcome::Applied, 0), Some(200));
        assert_eq!(id(Outcome::RolledBack, 1), Some(201));
        assert_eq!(id(Outcome::Failed, 1), Some(202));
        assert_eq!(id(Outcome::Failed, 2), None);
        assert_eq!(id(Outcome::Unchanged, 0), None);
        assert_eq!((Event::STARTED.id, Event::STOPPED.id), (100, 101));
    }
}
