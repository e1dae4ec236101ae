//! What a report is made of for people: a terminal draws it as lines, a browser as a page. Texts are as the cluster has
//! them; who draws them writes out what is hidden in them.

/// How a piece of text is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Style {
    Plain,
    /// A name in the cluster.
    Name,
    /// The name of what a row of a table is about.
    RowName,
    /// A heading.
    Strong,
    /// As it should be.
    Good,
    /// At fault.
    Bad,
    /// To be looked at.
    Warning,
}

/// A piece of text.
#[derive(Clone, Debug)]
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

    /// One of two words, in the style of what is as it should be or of what is not.
    pub(super) fn state(is_good: bool, good: &str, bad: &str) -> Self {
        if is_good {
            Self::new(Style::Good, good)
        } else {
            Self::new(Style::Bad, bad)
        }
    }
}

/// A finding, and where it is.
#[derive(Clone, Debug)]
pub(super) struct Note {
    /// What it is and what to do.
    pub(super) message: String,
    /// Its word for machines.
    pub(super) code: String,
    /// Where.
    pub(super) places: String,
}

/// A part of a report.
#[derive(Clone, Debug)]
pub(super) enum Block {
    /// Begins a section.
    Title(&'static str),
    /// Says what comes next, where there is room for that.
    Label(&'static str),
    /// A paragraph or a line.
    Text(Vec<Span>),
    /// Something by name, what is the matter with it, and the rest that there is to say of it.
    Group {
        name: String,
        what: String,
        blocks: Vec<Block>,
    },
    /// A table; an empty cell has nothing to say.
    Table {
        label: String,
        header: Vec<Span>,
        rows: Vec<Vec<Span>>,
    },
    /// Findings.
    List(Vec<Note>),
}

impl Block {
    /// A text without any style.
    pub(super) fn text(text: impl Into<String>) -> Self {
        Self::Text(vec![Span::plain(text)])
    }
}

/// The blocks after that one; nothing where there are none.
pub(super) fn under(
    first: Block,
    blocks: impl IntoIterator<Item = Block>,
) -> impl Iterator<Item = Block> {
    let mut blocks = blocks.into_iter().peekable();
    let first = blocks.peek().is_some().then_some(first);
    first.into_iter().chain(blocks)
}
