//! What the agent tells the event log of Windows. Administrators have filters and alerts on the numbers: they stay.

use protocol::Outcome;

/// How bad it is, as Windows numbers it.
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

/// Something that administrators want to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The agent's service is up.
    Started,
    /// It cannot come up.
    NotStarted,
    /// It stops.
    Stopped,
    /// A request has changed the node.
    Updated,
    /// A change did not work and was undone.
    RolledBack,
    /// A request failed.
    Failed,
}

impl Event {
    /// Its number. Those up to 1000 are in the table of messages that Windows has for everybody.
    #[must_use]
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

    /// How bad it is.
    #[must_use]
    pub fn level(self) -> Level {
        match self {
            Self::Started | Self::Stopped | Self::Updated => Level::Information,
            Self::RolledBack => Level::Warning,
            Self::NotStarted | Self::Failed => Level::Error,
        }
    }

    /// What the end of a request is to the event log, if anything: `failures` is how often it has ended badly in a row, and only
    /// the first time is told.
    #[must_use]
    pub fn of(outcome: Outcome, failures: u32) -> Option<Self> {
        match outcome {
            Outcome::Applied => Some(Self::Updated),
            Outcome::RolledBack if failures == 1 => Some(Self::RolledBack),
            Outcome::Failed if failures == 1 => Some(Self::Failed),
            Outcome::Unchanged | Outcome::RolledBack | Outcome::Failed | Outcome::Unknown => None,
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
