//! Text to characters, with a bound on what one event of YAML may take.

use std::cell::{Cell, RefCell};
use std::io::Read;
use std::rc::Rc;

use granit_parser::ErrorKind;

use super::encoding::Text;
use super::error::Problem;

/// What the parser's input shares with us, because the parser owns it.
#[derive(Default)]
pub(super) struct Shared {
    /// Bytes handed to the parser since its last event.
    pub pending: Cell<usize>,
    /// What is wrong with the text, if its end is not its end.
    pub failure: RefCell<Option<Problem>>,
}

/// Text as the parser of YAML takes it.
pub(super) struct Characters<R> {
    text: Text<R>,
    piece: String,
    ready: Vec<char>,
    at: usize,
    limit: usize,
    shared: Rc<Shared>,
}

impl<R: Read> Characters<R> {
    /// `limit` is the number of bytes that the parser may take for one event.
    pub fn new(text: Text<R>, limit: usize, shared: Rc<Shared>) -> Self {
        Self {
            text,
            piece: String::new(),
            ready: Vec::new(),
            at: 0,
            limit,
            shared,
        }
    }

    #[cold]
    fn refill(&mut self) -> Option<Result<char, ErrorKind>> {
        self.piece.clear();
        let result = self.text.take(&mut self.piece).and_then(|more| {
            let pending = self.shared.pending.get() + self.piece.len();
            self.shared.pending.set(pending);
            if pending > self.limit {
                Err(Problem::TextTooLong)
            } else {
                Ok(more)
            }
        });
        match result {
            Ok(false) => None,
            Ok(true) => {
                self.ready.clear();
                self.ready.extend(self.piece.chars());
                self.at = 1;
                self.ready.first().copied().map(Ok)
            }
            Err(problem) => {
                *self.shared.failure.borrow_mut() = Some(problem);
                // Never shown: the problem itself is.
                Some(Err(ErrorKind::UnexpectedEof))
            }
        }
    }
}

impl<R: Read> Iterator for Characters<R> {
    type Item = Result<char, ErrorKind>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        match self.ready.get(self.at) {
            Some(character) => {
                self.at += 1;
                Some(Ok(*character))
            }
            None => self.refill(),
        }
    }
}
