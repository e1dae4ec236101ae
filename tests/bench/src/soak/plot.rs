//! Curves, as a line of text each and as a picture.

use std::fmt::Write;

use super::sample::{Curve, Series};

/// Characters of a line of text.
const COLUMNS: usize = 72;
const BLOCKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// In pixels.
const WIDTH: f64 = 760.0;
const PANEL: f64 = 110.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 16.0;
const TOP: f64 = 26.0;

/// A line for each curve, from nothing up to its highest value.
pub fn text(series: &Series) -> String {
    let mut text = String::new();
    for curve in &series.curves {
        let (low, high) = range(curve);
        let line: String = columns(&curve.values)
            .iter()
            .map(|value| BLOCKS[level(*value, high)])
            .collect();
        // Writing to a String does not fail.
        let _ = writeln!(
            text,
            "  {:<16} {line}  {low:.0} to {high:.0} {}",
            curve.name, curve.unit
        );
    }
    text
}

/// The highest value in each of the columns.
fn columns(values: &[f64]) -> Vec<f64> {
    let columns = COLUMNS.min(values.len());
    (0..columns)
        .map(|column| {
            let part =
                &values[values.len() * column / columns..values.len() * (column + 1) / columns];
            part.iter().copied().fold(0.0, f64::max)
        })
        .collect()
}

#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "between 0 and 7"
)]
fn level(value: f64, high: f64) -> usize {
    if high <= 0.0 {
        return 0;
    }
    ((value / high * 8.0).ceil() as usize).clamp(1, 8) - 1
}

fn range(curve: &Curve) -> (f64, f64) {
    let values = || curve.values.iter().copied();
    (
        values().fold(f64::MAX, f64::min),
        values().fold(0.0, f64::max),
    )
}

/// A panel for each curve over the same time, with a line at each restart of the API server. It stands by itself, and
/// follows the reader's choice of light or dark.
pub fn svg(series: &Series, restarts: &[f64]) -> String {
    let end = series.times.last().copied().unwrap_or(1.0).max(1.0);
    let x = |time: f64| LEFT + time / end * (WIDTH - LEFT - RIGHT);
    #[allow(clippy::cast_precision_loss, reason = "four panels")]
    let height = series.curves.len() as f64 * (PANEL + TOP) + 32.0;
    let mut svg = format!(
        r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" aria-label="What the operator takes over time" font-family="system-ui, sans-serif" font-size="12">
<style>
  :root {{ --ground: #ffffff; --ink: #1f2328; --quiet: #656d76; --rule: #d0d7de; --line: #0969da; }}
  @media (prefers-color-scheme: dark) {{ :root {{ --ground: #0d1117; --ink: #e6edf3; --quiet: #8d96a0; --rule: #30363d; --line: #58a6ff; }} }}
  .ground {{ fill: var(--ground) }} .title {{ fill: var(--ink) }} .tick {{ fill: var(--quiet) }}
  .rule {{ stroke: var(--rule) }} .restart {{ stroke: var(--quiet); stroke-dasharray: 2 3 }}
  .curve {{ fill: none; stroke: var(--line); stroke-width: 1.5; stroke-linejoin: round }}
</style>
<rect class="ground" width="100%" height="100%"/>
"#
    );
    for (number, curve) in series.curves.iter().enumerate() {
        #[allow(clippy::cast_precision_loss, reason = "four panels")]
        let top = TOP + number as f64 * (PANEL + TOP);
        panel(&mut svg, series, curve, restarts, top, &x);
    }
    let minutes = end / 60.0;
    let step = [0.5, 1.0, 5.0, 10.0]
        .into_iter()
        .find(|step| minutes / step <= 12.0)
        .unwrap_or(30.0);
    let mut minute = 0.0;
    while minute <= minutes {
        let _ = writeln!(
            svg,
            r#"<text class="tick" x="{:.1}" y="{:.1}" text-anchor="middle">{minute} min</text>"#,
            x(minute * 60.0),
            height - 12.0
        );
        minute += step;
    }
    svg.push_str("</svg>\n");
    svg
}

fn panel(
    svg: &mut String,
    series: &Series,
    curve: &Curve,
    restarts: &[f64],
    top: f64,
    x: &impl Fn(f64) -> f64,
) {
    let (_, high) = range(curve);
    let high = high.max(1.0) * 1.1;
    let bottom = top + PANEL;
    let y = |value: f64| bottom - value / high * PANEL;
    let _ = writeln!(
        svg,
        r#"<text class="title" x="{LEFT}" y="{:.1}">{} ({}){}</text>"#,
        top - 8.0,
        curve.name,
        curve.unit,
        if curve.is_memory {
            "; dashed: the API server was restarted"
        } else {
            ""
        }
    );
    for value in [0.0, high / 2.2, high / 1.1] {
        let _ = writeln!(
            svg,
            r#"<line class="rule" x1="{LEFT}" x2="{:.1}" y1="{y:.1}" y2="{y:.1}"/><text class="tick" x="{:.1}" y="{:.1}" text-anchor="end">{value:.0}</text>"#,
            WIDTH - RIGHT,
            LEFT - 6.0,
            y(value) + 4.0,
            y = y(value),
        );
    }
    for restart in restarts {
        let _ = writeln!(
            svg,
            r#"<line class="restart" x1="{x:.1}" x2="{x:.1}" y1="{top:.1}" y2="{bottom:.1}"/>"#,
            x = x(*restart),
        );
    }
    let points: Vec<String> = series
        .times
        .iter()
        .zip(&curve.values)
        .map(|(time, value)| format!("{:.1},{:.1}", x(*time), y(*value)))
        .collect();
    let _ = writeln!(
        svg,
        r#"<polyline class="curve" points="{}"/>"#,
        points.join(" ")
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_text_rises_with_the_values() {
        assert_eq!(
            [0.0, 1.0, 4.0, 8.0].map(|value| level(value, 8.0)),
            [0, 0, 3, 7]
        );
        assert_eq!(level(5.0, 0.0), 0);
        let many: Vec<f64> = (0..1000).map(f64::from).collect();
        let columns = columns(&many);
        assert_eq!(columns.len(), COLUMNS);
        assert!(
            columns.is_sorted() && columns.last() == Some(&999.0),
            "nothing is left out"
        );
        assert_eq!(super::columns(&[3.0]), [3.0]);
    }
}
