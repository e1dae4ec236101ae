//! Renders a report as text for a terminal.

use std::iter::repeat_n;

use unicode_width::UnicodeWidthStr;

use super::blocks::{Block, Span, Style};
use crate::visible::visible;

/// The space between two columns.
const GAP: usize = 3;
/// The indentation of a group's content.
const INDENT: usize = 2;

/// Draws the blocks as lines.
pub(super) fn draw(blocks: &[Block], color: bool) -> String {
    let text = String::new();
    let mut terminal = Terminal { text, color };
    terminal.blocks(0, blocks);
    terminal.text
}

struct Terminal {
    text: String,
    color: bool,
}

impl Terminal {
    fn blocks(&mut self, indent: usize, blocks: &[Block]) {
        let mut is_first = true;
        for block in blocks {
            match block {
                Block::Title(title) => {
                    self.text.push('\n');
                    self.line(0, &[Span::new(Style::Strong, title.to_uppercase())]);
                }
                Block::Label(_) => {}
                Block::Text(spans) => self.line(indent, spans),
                Block::Group { name, what, blocks } => {
                    if !is_first {
                        self.text.push('\n');
                    }
                    let what = what.iter().map(|what| format!(": {what}."));
                    let what = Span::plain(what.collect::<String>());
                    self.line(indent, &[Span::new(Style::Strong, name), what]);
                    self.blocks(indent + INDENT, blocks);
                }
                Block::Table { header, rows, .. } => self.table(indent, header, rows),
                Block::List(notes) => {
                    for note in notes {
                        let bullet = Span::new(Style::Warning, "* ");
                        self.line(indent, &[bullet, Span::plain(&note.message)]);
                        let place = format!("{}: {}", note.code, note.places);
                        self.line(indent + INDENT, &[Span::plain(place)]);
                        if let Some(command) = &note.command {
                            let arrow = Span::plain("→ ");
                            let command = Span::new(Style::Strong, command);
                            self.line(indent + INDENT, &[arrow, command]);
                        }
                    }
                }
            }
            is_first = matches!(block, Block::Title(_));
        }
    }

    fn line(&mut self, indent: usize, spans: &[Span]) {
        self.text.extend(repeat_n(' ', indent));
        for span in spans {
            self.put(span.style, &visible(&span.text));
        }
        self.text.push('\n');
    }

    fn put(&mut self, style: Style, text: &str) {
        let plain = console::Style::new().force_styling(self.color && !text.is_empty());
        let style = match style {
            Style::Plain | Style::Name | Style::RowName => plain,
            Style::Strong => plain.bold(),
            Style::Good => plain.green(),
            Style::Bad => plain.red(),
            Style::Warning => plain.yellow(),
        };
        self.text += &style.apply_to(text).to_string();
    }

    /// Renders a table like kubectl, with columns aligned by display width.
    fn table(&mut self, indent: usize, header: &[&str], rows: &[Vec<Span>]) {
        let header = header.iter();
        let header = header.map(|name| (Style::Strong, name.to_uppercase()));
        let rows = rows.iter().map(|row| {
            let cell = |cell: &Span| match &*cell.text {
                "" => (cell.style, "-".to_owned()),
                text => (cell.style, visible(text)),
            };
            row.iter().map(cell).collect()
        });
        let rows: Vec<Vec<(Style, String)>> =
            std::iter::once(header.collect()).chain(rows).collect();
        let columns = rows.first().map_or(0, Vec::len);
        let width = |column: usize| rows.iter().map(|row| row[column].1.width()).max();
        let widths: Vec<usize> = (0..columns).filter_map(width).collect();
        for row in &rows {
            let mut pad = indent;
            for ((style, text), width) in row.iter().zip(&widths) {
                self.text.extend(repeat_n(' ', pad));
                self.put(*style, text);
                pad = width - text.width() + GAP;
            }
            self.text.push('\n');
        }
    }
}
