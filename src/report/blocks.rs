//! The building blocks of a report for people. The terminal and HTML renderers draw them and escape hidden characters in
//! their texts.

/// The meaning of a piece of text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Style {
    Plain,
    /// The name of an object in the cluster.
    Name,
    /// The name of a table row's object.
    RowName,
    /// A heading.
    Strong,
    /// In order.
    Good,
    /// Faulty.
    Bad,
    /// Needs attention.
    Warning,
}

/// A piece of text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) style: Style,
    pub(super) text: String,
}

impl Span {
    pub(super) fn new(style: Style, text: impl Into<String>) -> Self {
        let text = text.into();
        Self { style, text }
    }

    pub(super) fn plain(text: impl Into<String>) -> Self {
        Self::new(Style::Plain, text)
    }

    /// Returns `good` or `bad` in the matching style.
    pub(super) fn state(is_good: bool, good: &str, bad: &str) -> Self {
        if is_good {
            Self::new(Style::Good, good)
        } else {
            Self::new(Style::Bad, bad)
        }
    }
}

/// A finding and its places.
#[derive(Clone, Debug)]
pub(super) struct Note {
    /// The problem and what to do, as a sentence.
    pub(super) message: String,
    /// The finding's code.
    pub(super) code: String,
    /// The objects or nodes.
    pub(super) places: String,
    /// The next command.
    pub(super) command: Option<String>,
}

/// A building block of a report.
#[derive(Clone, Debug)]
pub(super) enum Block {
    /// Starts a section.
    Title(&'static str),
    /// A heading for the next block, if there is room.
    Label(&'static str),
    /// A paragraph or a line.
    Text(Vec<Span>),
    /// A named object, its problem, and details.
    Group {
        name: String,
        what: Option<String>,
        blocks: Vec<Block>,
    },
    /// A table. Cells may be empty.
    Table {
        label: String,
        header: Vec<&'static str>,
        rows: Vec<Vec<Span>>,
    },
    /// A list of findings.
    List(Vec<Note>),
}

impl Block {
    /// Creates an unstyled text.
    pub(super) fn text(text: impl Into<String>) -> Self {
        Self::Text(vec![Span::plain(text)])
    }
}

/// Returns `first` followed by `blocks`, or nothing if there are no blocks.
pub(super) fn under(
    first: Block,
    blocks: impl IntoIterator<Item = Block>,
) -> impl Iterator<Item = Block> {
    let mut blocks = blocks.into_iter().peekable();
    let first = blocks.peek().is_some().then_some(first);
    first.into_iter().chain(blocks)
}
