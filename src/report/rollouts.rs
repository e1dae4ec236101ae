//! Renders the last rollouts as a table.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::blocks::{Block, Span};
use super::text;
use crate::api::PastRollout;
use crate::visible::visible;

/// How many characters of the hash to show.
const REVISION: usize = 12;

/// Renders the last rollouts, one per line.
#[must_use]
pub fn past_rollouts(history: &[PastRollout]) -> String {
    let row = |it: &PastRollout| {
        let time = |time: &Option<Time>| match time {
            Some(Time(time)) => format!("{time:.0}"),
            None => "-".to_owned(),
        };
        let is_superseded = it.completion_time.is_none() && history.last() != Some(it);
        let revision: String = it.revision.chars().take(REVISION).collect();
        let cells = [
            revision,
            it.version.clone(),
            time(&it.start_time),
            if is_superseded {
                "superseded".to_owned()
            } else {
                time(&it.completion_time)
            },
        ];
        cells.map(|cell| Span::plain(visible(&cell))).to_vec()
    };
    let header = ["REVISION", "CSI-PROXY", "STARTED", "COMPLETED"];
    let table = Block::Table {
        label: String::new(),
        header: header.map(Span::plain).to_vec(),
        rows: history.iter().map(row).collect(),
    };
    text::draw(&[table], false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rollout_is_a_line() {
        let history: Vec<PastRollout> = serde_json::from_str(
            r#"[{"revision":"0123456789abcdef","version":"v1.3.0","startTime":"2026-11-24T21:00:00Z","completionTime":"2026-11-25T01:30:00Z"},
                {"revision":"e","version":"v1.3.1","startTime":"2026-11-26T21:00:00Z"},
                {"revision":"f","version":"v1.4.0","startTime":"2026-12-01T21:00:00Z"}]"#,
        )
        .unwrap();
        let expected = "\
REVISION       CSI-PROXY   STARTED                COMPLETED
0123456789ab   v1.3.0      2026-11-24T21:00:00Z   2026-11-25T01:30:00Z
e              v1.3.1      2026-11-26T21:00:00Z   superseded
f              v1.4.0      2026-12-01T21:00:00Z   -
";
        assert_eq!(past_rollouts(&history), expected);
    }
}
