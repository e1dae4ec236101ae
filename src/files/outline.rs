//! Finds the field that a line of YAML belongs to, in text that need not parse.

/// How much of a line is examined.
const LONGEST: usize = 512;

/// The fields that a line may be nested in, by column.
#[derive(Default)]
pub(super) struct Outline {
    fields: Vec<Field>,
    /// The start of the current line.
    line: Vec<u8>,
}

struct Field {
    column: usize,
    below: Below,
}

/// What may be nested in a field.
#[derive(Clone, Copy, PartialEq)]
enum Below {
    /// Objects.
    Items,
    /// Parts of the field's own value.
    Parts,
    /// Unknown, because nothing should be nested here.
    Unclear,
}

impl Outline {
    /// Adds text that follows the text passed before.
    pub fn pass(&mut self, text: &[u8]) {
        let is_end = |byte: &u8| matches!(byte, b'\n' | b'\r');
        for piece in text.split_inclusive(is_end) {
            let room = LONGEST - self.line.len();
            self.line.extend(piece.iter().take(room));
            if piece.last().is_some_and(is_end) {
                let line = std::mem::take(&mut self.line);
                self.end_line(&line);
            }
        }
    }

    /// Whether a key at this point is certainly part of a field: it is the first in its line, and all enclosing fields can
    /// have nested content. Inside braces, nothing is certain.
    pub fn is_part_of_field(&self) -> bool {
        let line = Line::of(&self.line);
        let above = &self.fields[..self.above(&line)];
        let is_part = above
            .last()
            .is_some_and(|field| field.below == Below::Parts);
        let is_clear = above.iter().all(|field| field.below != Below::Unclear);
        is_part && is_clear && line.text.is_empty() && self.line.len() < LONGEST
    }

    fn end_line(&mut self, line: &[u8]) {
        let line = Line::of(line.trim_ascii_end());
        if line.start == 0 && line.text.starts_with(b"---") {
            self.fields.clear();
        } else if !matches!(line.text, [] | [b'#', ..]) {
            self.fields.truncate(self.above(&line));
            let (column, below) = (line.column, line.below());
            self.fields.push(Field { column, below });
        }
    }

    /// Returns how many of the fields enclose the line. Items in the same column as their field count as its siblings; for
    /// the items of a list, the result is the same.
    fn above(&self, line: &Line<'_>) -> usize {
        let start = line.start;
        self.fields.partition_point(|field| field.column < start)
    }
}

/// A line, possibly incomplete.
struct Line<'a> {
    /// The column of the first dash, or of the text if there is none.
    start: usize,
    /// The column of the text.
    column: usize,
    text: &'a [u8],
}

impl<'a> Line<'a> {
    fn of(line: &'a [u8]) -> Self {
        let start = line.iter().take_while(|byte| **byte == b' ').count();
        let mut text = &line[start..];
        while let Some(item) = text.strip_prefix(b"- ") {
            text = item.trim_ascii_start();
        }
        if text == b"-" {
            text = &[];
        }
        let column = line.len() - text.len();
        Self {
            start,
            column,
            text,
        }
    }

    /// Returns what is nested below this line: `Parts` only if the line is a field without an inline value.
    fn below(&self) -> Below {
        let colon = self.text.iter().rposition(|byte| *byte == b':');
        let (name, value) = self.text.split_at(colon.unwrap_or_default());
        let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_./:".contains(byte);
        let is_named = !name.is_empty() && name.iter().all(is_name);
        let block = value.strip_prefix(b": |").or(value.strip_prefix(b": >"));
        let is_block =
            block.is_some_and(|how| how.iter().all(|byte| b"+-123456789".contains(byte)));
        let is_whole = self.column + self.text.len() < LONGEST;
        match name {
            _ if !(is_named && is_whole && (is_block || value == b":")) => Below::Unclear,
            b"items" => Below::Items,
            _ => Below::Parts,
        }
    }
}
