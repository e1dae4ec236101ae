//! Finds the field that a line of YAML belongs to, in text that need not parse.

/// So much of a line is looked at.
const LONGEST: usize = 512;

/// The fields that a line may stand below, by their columns.
#[derive(Default)]
pub(super) struct Outline {
    fields: Vec<Field>,
    /// The start of the line that is read.
    line: Vec<u8>,
}

struct Field {
    column: usize,
    below: Below,
}

/// What stands below a field.
#[derive(Clone, Copy, PartialEq)]
enum Below {
    /// What may be objects.
    Items,
    /// Parts of it.
    Parts,
    /// Nobody knows, as there should be nothing.
    Unclear,
}

impl Outline {
    /// Takes the text as it follows on what was taken before.
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

    /// Whether a key that follows is plainly a part of a field: it is the first in its line, and all that the line stands
    /// below are fields with room for it. Nothing is plain in braces.
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

    /// How many of the fields the line stands below. Items that start in the column of their field are taken to stand
    /// beside it: for those of a list that comes to the same.
    fn above(&self, line: &Line<'_>) -> usize {
        let start = line.start;
        self.fields.partition_point(|field| field.column < start)
    }
}

/// A line, or as much of it as is there.
struct Line<'a> {
    /// The column of its first dash, or else of its text.
    start: usize,
    /// The column of its text.
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

    /// What the lines below it are: parts only of a field whose value they are.
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
