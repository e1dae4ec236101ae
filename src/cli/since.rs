//! Parses the start time of logs, as `kubectl logs` and `oc adm must-gather` do.

use jiff::{SignedDuration, Timestamp};

/// So long ago.
pub fn since(text: &str) -> Result<Timestamp, String> {
    let duration: Option<SignedDuration> = text.trim().parse().ok();
    match duration.filter(SignedDuration::is_positive) {
        // Longer ago than there is a date for is all there is.
        Some(duration) => Ok(Timestamp::now()
            .checked_sub(duration)
            .unwrap_or(Timestamp::MIN)),
        None => Err("not a duration such as 5s, 2m, 3h or 1h30m".to_owned()),
    }
}

/// A date, a time of the day and its zone.
pub fn since_time(text: &str) -> Result<Timestamp, String> {
    let wrong = "not a time by RFC 3339 such as 2026-01-31T03:00:00Z or 2026-01-31T04:00:00+01:00";
    text.trim().parse().map_err(|_| wrong.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_those_of_go() {
        for (text, seconds) in [
            ("3h", 10_800),
            ("3h0m0s", 10_800),
            ("2h60m", 10_800),
            ("1.5h", 5_400),
            ("8760h", 31_536_000),
        ] {
            let begin = since(text).unwrap();
            let ago = Timestamp::now().duration_since(begin);
            assert!((seconds..seconds + 60).contains(&ago.as_secs()), "{text}");
        }
        for bad in ["", "3", "0s", "-3h", "yesterday"] {
            assert!(since(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn times_have_a_zone() {
        let utc = since_time("2026-01-31T03:00:00Z").unwrap();
        assert_eq!(utc.to_string(), "2026-01-31T03:00:00Z");
        assert_eq!(since_time("2026-01-31T04:00:00+01:00"), Ok(utc));
        for bad in ["", "3h", "2026-01-31", "2026-01-31T03:00:00"] {
            assert!(since_time(bad).is_err(), "{bad}");
        }
    }
}
