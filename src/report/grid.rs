//! Tables as kubectl prints them.

use unicode_width::UnicodeWidthStr;

use super::color::{Paint, Tone};

const GAP: usize = 3;

/// A cell of a table.
#[derive(Clone, Debug)]
pub(super) struct Cell {
    text: String,
    tone: Option<Tone>,
}

impl Cell {
    /// A cell; an empty one is shown as a dash.
    pub(super) fn new(text: impl Into<String>) -> Self {
        let text = text.into();
        let text = if text.is_empty() {
            "-".to_owned()
        } else {
            text
        };
        Self { text, tone: None }
    }

    /// The same in a tone.
    pub(super) fn tone(mut self, tone: Tone) -> Self {
        self.tone = Some(tone);
        self
    }
}

/// Writes a table whose columns are aligned by what is seen.
pub(super) fn write<const COLUMNS: usize>(
    out: &mut String,
    paint: Paint,
    indent: usize,
    header: [&str; COLUMNS],
    rows: &[[Cell; COLUMNS]],
) {
    let header = header.map(|name| Cell::new(name).tone(Tone::Strong));
    let mut widths = [0; COLUMNS];
    for row in std::iter::once(&header).chain(rows) {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.text.width());
        }
    }
    for row in std::iter::once(&header).chain(rows) {
        let mut pad = indent;
        for (cell, width) in row.iter().zip(widths) {
            out.extend(std::iter::repeat_n(' ', pad));
            match cell.tone {
                Some(tone) => out.push_str(&paint.paint(tone, &cell.text)),
                None => out.push_str(&cell.text),
            }
            pad = width - cell.text.width() + GAP;
        }
        out.push('\n');
    }
}
