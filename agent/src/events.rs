//! Events that the agent writes to the Windows event log. Event IDs must not change: administrators use them in filters and
//! alerts.

use protocol::Outcome;

/// The severity, as Windows numbers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum Level {
    /// `EVENTLOG_ERROR_TYPE`
    Error = 1,
    /// `EVENTLOG_WARNING_TYPE`
    Warning = 2,
    /// `EVENTLOG_INFORMATION_TYPE`
    Information = 4,
}

/// An event that matters to administrators.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The agent's service has started.
    Started,
    /// The agent's service cannot start.
    NotStarted,
    /// The agent's service stops.
    Stopped,
    /// A request changed the node.
    Updated,
    /// A change failed and was rolled back.
    RolledBack,
    /// A request failed.
    Failed,
}

impl Event {
    /// Returns the event ID. IDs up to 1000 are in the message table that Windows provides for all programs.
    pub fn id(self) -> u32 {
        match self {
            Self::Started => 100,
            Self::Stopped => 101,
            Self::NotStarted => 102,
            Self::Updated => 200,
            Self::RolledBack => 201,
            Self::Failed => 202,
        }
    }

    /// Returns the severity.
    pub fn level(self) -> Level {
        match self {
            Self::Started | Self::Stopped | Self::Updated => Level::Information,
            Self::RolledBack => Level::Warning,
            Self::NotStarted | Self::Failed => Level::Error,
        }
    }

    /// Returns the event for the end of a request, if any. `failures` is the number of consecutive failures; only the first
    /// one is reported.
    pub fn of(outcome: Outcome, failures: u32) -> Option<Self> {
        match outcome {
            Outcome::Applied => Some(Self::Updated),
            Outcome::RolledBack if failures == 1 => Some(Self::RolledBack),
            Outcome::Failed if failures == 1 => Some(Self::Failed),
            Outcome::Unchanged | Outcome::RolledBack | Outcome::Failed => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_failure_is_told_once_and_numbers_stay() {
        let id = |outcome, failures| Event::of(outcome, failures).map(Event::id);
        assert_eq!(id(Outcome::Applied, 0), Some(200));
        assert_eq!(id(Outcome::RolledBack, 1), Some(201));
        assert_eq!(id(Outcome::Failed, 1), Some(202));
        assert_eq!(id(Outcome::Failed, 2), None);
        assert_eq!(id(Outcome::Unchanged, 0), None);
        assert_eq!((Event::Started.id(), Event::Stopped.id()), (100, 101));
    }
}
