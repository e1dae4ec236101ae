//! Computes the maintenance windows in which updates of nodes may begin.

use cronexpr::parse_crontab;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

use crate::api::RolloutWindow;
use crate::node::printable;

/// State of the maintenance windows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Windows {
    /// Whether updates may begin: there are no windows, or one is open.
    pub is_open: bool,
    /// When `is_open` changes, if it does.
    pub until: Option<Timestamp>,
    /// What is wrong with windows that can never open.
    pub problems: Vec<String>,
}

impl Windows {
    /// Returns whether no window will ever open.
    #[must_use]
    pub fn never_open(&self) -> bool {
        !self.is_open && self.until.is_none() && !self.problems.is_empty()
    }
}

/// Returns whether any of these windows is open.
#[must_use]
pub fn windows(windows: &[RolloutWindow], now: Timestamp) -> Windows {
    let mut found = Windows {
        is_open: windows.is_empty(),
        ..Windows::default()
    };
    let mut opens: Option<Timestamp> = None;
    for (place, window) in windows.iter().enumerate() {
        match look(window, now) {
            Ok(Look::Closes(at)) => {
                found.is_open = true;
                found.until = found.until.max(Some(at));
            }
            Ok(Look::Opens(at)) => opens = Some(opens.map_or(at, |earlier| earlier.min(at))),
            Err(problem) => {
                let text = format!("spec.rollout.windows[{place}] never opens: {problem}");
                found.problems.push(printable(&text));
            }
        }
    }
    if !found.is_open {
        found.until = opens;
    }
    found
}

enum Look {
    Opens(Timestamp),
    Closes(Timestamp),
}

fn look(window: &RolloutWindow, now: Timestamp) -> Result<Look, String> {
    const NEVER: &str = "its schedule matches no time in the next four years";
    let zone = TimeZone::get(&window.time_zone).map_err(|error| error.to_string())?;
    // Uses local times as if they were UTC: in zones whose clock changes by half an hour, the library does not terminate.
    // A local time that the clock skips moves by the length of the gap; of one that occurs twice, the first counts.
    let schedule = parse_crontab(&format!("{} UTC", window.schedule));
    // The library shows the schedule with a marker below it, on lines of their own, and then says what is wrong.
    let schedule = schedule.map_err(|error| {
        let text = error.to_string();
        let why = text.lines().last().unwrap_or_default().trim();
        format!("its schedule {:?} is not valid: {why}", window.schedule)
    })?;
    let duration = SignedDuration::from_mins(window.duration_minutes.into());
    let earliest = now.saturating_sub(duration).unwrap_or(now);
    let mut local = TimeZone::UTC.to_timestamp(zone.to_datetime(earliest));
    // After a clock change, some openings may already be over.
    for _ in 0..MOST_OVER {
        let from = local.map_err(|error| error.to_string())?;
        // The library's message names the time, so it would differ at each call.
        let next = schedule.find_next(from).map_err(|_| NEVER)?;
        let opens = zone.to_timestamp(next.datetime());
        let opens = opens.map_err(|error| error.to_string())?;
        let closes = opens.saturating_add(duration).unwrap_or(Timestamp::MAX);
        if opens > now {
            return Ok(Look::Opens(opens));
        }
        if closes > now {
            return Ok(Look::Closes(closes));
        }
        local = Ok(next.timestamp());
    }
    Err(NEVER.to_owned())
}

/// How many openings may be over: one a minute, in the hours by which a clock may go back.
const MOST_OVER: usize = 24 * 60;

#[cfg(test)]
mod tests {
    use super::*;

    /// Describes the state of windows at that time. Each window is its schedule, time zone and minutes.
    fn at(now: &str, list: &[(&str, &str, u32)]) -> String {
        let list = list
            .iter()
            .map(|&(schedule, time_zone, duration_minutes)| RolloutWindow {
                schedule: schedule.to_owned(),
                time_zone: time_zone.to_owned(),
                duration_minutes,
            });
        let list: Vec<_> = list.collect();
        let found = windows(&list, now.parse().unwrap());
        let until = found
            .until
            .map_or_else(|| "never".to_owned(), |until| until.to_string());
        format!(
            "{} until {until}",
            if found.is_open { "open" } else { "closed" }
        )
    }

    #[test]
    fn a_window_is_open_from_its_time_on_for_its_minutes() {
        // 24 November 2026 is a Tuesday.
        let tuesday = &[("0 22 * * 2", "Europe/Berlin", 240)][..];
        // The first window that opens and the last one that closes count.
        let apart = &[("0 3 * * *", "UTC", 60), ("0 2 * * *", "UTC", 60)];
        let overlapping = &[("0 2 * * *", "UTC", 60), ("15 2 * * *", "UTC", 60)];
        // The window lasts longer than the time until it opens again.
        let long = &[("0 * * * *", "UTC", 120)];
        for (windows, now, expected) in [
            (tuesday, "24T20:59:59Z", "closed until 2026-11-24T21:00:00Z"),
            (tuesday, "24T21:00:00Z", "open until 2026-11-25T01:00:00Z"),
            (tuesday, "25T00:59:59Z", "open until 2026-11-25T01:00:00Z"),
            (tuesday, "25T01:00:00Z", "closed until 2026-12-01T21:00:00Z"),
            (&[], "24T00:00:00Z", "open until never"),
            (apart, "24T00:00:00Z", "closed until 2026-11-24T02:00:00Z"),
            (
                overlapping,
                "24T02:30:00Z",
                "open until 2026-11-24T03:15:00Z",
            ),
            (long, "24T12:00:00Z", "open until 2026-11-24T13:00:00Z"),
        ] {
            let found = at(&format!("2026-11-{now}"), windows);
            assert_eq!(found, expected, "{now} {windows:?}");
        }
    }

    #[test]
    fn a_change_of_the_clock_moves_what_follows_it() {
        // In Berlin, the time from 2:00 to 3:00 does not exist on 2027-03-28, and occurs twice on 2027-10-31.
        for (schedule, minutes, now, expected) in [
            (
                "30 1",
                120,
                "03-28T01:00:00Z",
                "open until 2027-03-28T02:30:00Z",
            ),
            (
                "30 1",
                120,
                "03-28T03:00:00Z",
                "closed until 2027-03-28T23:30:00Z",
            ),
            (
                "30 2",
                60,
                "03-28T00:00:00Z",
                "closed until 2027-03-28T01:30:00Z",
            ),
            (
                "30 2",
                30,
                "10-31T00:30:00Z",
                "open until 2027-10-31T01:00:00Z",
            ),
            (
                "30 2",
                30,
                "10-31T01:30:00Z",
                "closed until 2027-11-01T01:30:00Z",
            ),
            (
                "* *",
                1,
                "10-31T01:30:20Z",
                "closed until 2027-10-31T02:00:00Z",
            ),
        ] {
            let schedule = format!("{schedule} * * *");
            let window = [(&*schedule, "Europe/Berlin", minutes)];
            let found = at(&format!("2027-{now}"), &window);
            assert_eq!(found, expected, "{schedule} {now}");
        }
    }

    #[test]
    fn each_hour_of_a_year_has_an_answer_in_zones_whose_clocks_change_otherwise() {
        for zone in [
            "Australia/Lord_Howe",
            "America/St_Johns",
            "Africa/Casablanca",
            "Pacific/Apia",
        ] {
            for schedule in ["30 2 * * 0", "0 0 * * *", "15 1 * * *"] {
                let window = RolloutWindow {
                    schedule: schedule.to_owned(),
                    time_zone: zone.to_owned(),
                    duration_minutes: 90,
                };
                let mut now: Timestamp = "2026-01-01T00:10:00Z".parse().unwrap();
                for _ in 0..366 * 24 {
                    let found = windows(std::slice::from_ref(&window), now);
                    let until = found.until.unwrap();
                    let soon = now + SignedDuration::from_hours(8 * 24);
                    assert!(
                        until > now && until < soon,
                        "{zone} {schedule} {now}: {until}"
                    );
                    now += SignedDuration::from_hours(1);
                }
            }
        }
    }

    #[test]
    fn what_never_opens_is_told() {
        for (schedule, time_zone) in [
            ("0 0 30 2 *", "UTC"),
            ("0 22 * * 2", "Europe/Atlantis"),
            ("61 * * * *", "UTC"),
            ("* * * *", "UTC"),
            ("", ""),
            ("@daily", "UTC"),
        ] {
            let list = [(schedule, time_zone, 60)];
            assert_eq!(
                at("2026-11-24T00:00:00Z", &list),
                "closed until never",
                "{list:?}"
            );
            let window = RolloutWindow {
                schedule: schedule.to_owned(),
                time_zone: time_zone.to_owned(),
                duration_minutes: 60,
            };
            let problems = windows(&[window], Timestamp::UNIX_EPOCH).problems;
            assert!(
                problems[0].starts_with("spec.rollout.windows[0] never opens: "),
                "{problems:?}"
            );
            // Other windows open all the same.
            let list = [(schedule, time_zone, 60), ("0 0 * * *", "UTC", 60)];
            assert!(at("2026-11-24T00:00:00Z", &list).starts_with("open"));
        }
    }
}
