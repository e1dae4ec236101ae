//! From when on logs are wanted, as `kubectl logs` and `oc adm must-gather` have it.

use std::str::FromStr;

use jiff::{SignedDuration, Timestamp};

/// Such a time before now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Since(SignedDuration);

impl Since {
    /// When that was.
    pub fn before(self, now: Timestamp) -> Timestamp {
        // Longer ago than there is a date for is all there is.
        now.checked_sub(self.0).unwrap_or(Timestamp::MIN)
    }
}

impl FromStr for Since {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let duration: Option<SignedDuration> = text.trim().parse().ok();
        match duration.filter(SignedDuration::is_positive) {
            Some(duration) => Ok(Self(duration)),
            None => Err("not a duration such as 5s, 2m, 3h or 1h30m".to_owned()),
        }
    }
}

/// A date, a time of the day and its zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SinceTime(pub Timestamp);

impl FromStr for SinceTime {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let time = text.trim().parse().map(Self);
        time.map_err(|_| {
            "not a time by RFC 3339 such as 2026-01-31T03:00:00Z or 2026-01-31T04:00:00+01:00"
                .to_owned()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_those_of_go() {
        let now: Timestamp = "2026-01-31T03:00:00Z".parse().unwrap();
        let before = |text: &str| {
            let since: Since = text.parse().unwrap();
            since.before(now).to_string()
        };
        for text in ["3h", "3h0m0s", "180m", "2h60m"] {
            assert_eq!(before(text), "2026-01-31T00:00:00Z", "{text}");
        }
        assert_eq!(before("1.5h"), "2026-01-31T01:30:00Z");
        assert_eq!(before("500ms"), "2026-01-31T02:59:59.5Z");
        assert_eq!(before("8760h"), "2025-01-31T03:00:00Z");
        for bad in ["", "3", "0s", "-3h", "yesterday"] {
            assert!(bad.parse::<Since>().is_err(), "{bad}");
        }
    }

    #[test]
    fn times_have_a_zone() {
        let time = |text: &str| text.parse::<SinceTime>().map(|time| time.0.to_string());
        let utc = Ok("2026-01-31T03:00:00Z".to_owned());
        assert_eq!(time("2026-01-31T03:00:00Z"), utc);
        assert_eq!(time("2026-01-31T04:00:00+01:00"), utc);
        for bad in ["", "3h", "2026-01-31", "2026-01-31T03:00:00"] {
            assert!(time(bad).is_err(), "{bad}");
        }
    }
}
