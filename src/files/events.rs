//! What YAML and JSON have in common: a stream of events.

use super::error::{Mark, Problem};

/// How a scalar is to be understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Style {
    /// It is text.
    Text,
    /// YAML without quotes: what it looks like.
    Plain,
    /// YAML with a tag that says it is a null.
    Null,
    /// YAML with a tag that says it is true or false.
    Bool,
    /// YAML with a tag that says it is a whole number.
    Int,
    /// YAML with a tag that says it is a number.
    Float,
    /// A number, true, false or null of JSON.
    Json,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Scalar {
    pub text: String,
    pub style: Style,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Event {
    DocumentStart,
    DocumentEnd,
    MapStart,
    MapEnd,
    SeqStart,
    SeqEnd,
    Scalar(Scalar),
    End,
}

impl Event {
    /// By how much it changes the depth.
    pub fn depth(&self) -> isize {
        match self {
            Self::MapStart | Self::SeqStart => 1,
            Self::MapEnd | Self::SeqEnd => -1,
            Self::DocumentStart | Self::DocumentEnd | Self::Scalar(_) | Self::End => 0,
        }
    }

    /// About what it costs to keep it: text, and a value around it. A mapping has room for eleven entries from the first.
    pub fn cost(&self) -> usize {
        match self {
            Self::Scalar(scalar) => 32 + scalar.text.len(),
            Self::MapStart => 256,
            _ => 32,
        }
    }
}

/// What is wrong, and where as far as known.
#[derive(Debug)]
pub(super) struct Stop {
    pub problem: Problem,
    pub mark: Option<Mark>,
}

impl From<Problem> for Stop {
    fn from(problem: Problem) -> Self {
        Self {
            problem,
            mark: None,
        }
    }
}

/// A source of events. After `End` and after an error nothing more is asked of it.
pub(super) trait Events {
    fn next(&mut self) -> Result<(Event, Mark), Stop>;
}
