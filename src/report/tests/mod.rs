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
    render(report, format, color).expect("plain data is written")
}
