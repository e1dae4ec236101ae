//! Golden files of whole reports are in `snapshots/`; `INSTA_UPDATE=always cargo test report::` updates them.

mod caps;
mod golden;
mod hostile;
mod samples;
mod sentences;

use super::*;

fn text(report: &ReadinessReport, format: Format) -> String {
    rendered(report, format, false)
}

fn rendered(report: &ReadinessReport, format: Format, color: bool) -> String {
    let made = Timestamp::from_second(1_800_000_000).expect("a time");
    render(report, format, color, made).expect("plain data is written")
}
