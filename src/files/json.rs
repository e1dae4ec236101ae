//! JSON to events: any number of values, one after the other.

use std::io::Read;

use json_event_parser::{JsonEvent, LowLevelJsonParser};

use super::encoding::{Text, is_blank};
use super::error::{Mark, Problem};
use super::events::{Event, Events, Scalar, Stop, Style};

enum State {
    Between,
    Inside,
    AfterValue,
}

pub(super) struct Json<R> {
    text: Text<R>,
    parser: LowLevelJsonParser,
    buffer: String,
    at: usize,
    at_end: bool,
    limit: usize,
    state: State,
    depth: isize,
    /// Where `at` is.
    mark: Mark,
}

impl<R: Read> Json<R> {
    /// `limit` is the number of bytes that one text may have.
    pub fn new(text: Text<R>, limit: usize) -> Self {
        Self {
            text,
            parser: LowLevelJsonParser::new(),
            buffer: String::new(),
            at: 0,
            at_end: false,
            limit,
            state: State::Between,
            depth: 0,
            mark: Mark { line: 1, column: 1 },
        }
    }

    fn fill(&mut self) -> Result<(), Stop> {
        self.buffer.drain(..self.at);
        self.at = 0;
        // In doubles, because a text that is cut is looked at again from its start.
        let enough = 2 * self.buffer.len();
        loop {
            if self.buffer.len() > self.limit {
                return Err(self.stop(Problem::TextTooLong));
            }
            if !self.text.take(&mut self.buffer)? {
                self.at_end = true;
                return Ok(());
            }
            if self.buffer.len() >= enough {
                return Ok(());
            }
        }
    }

    fn stop(&self, problem: Problem) -> Stop {
        Stop {
            problem,
            mark: Some(self.mark),
        }
    }

    fn advance(&mut self, length: usize) {
        for byte in &self.buffer.as_bytes()[self.at..self.at + length] {
            if *byte == b'\n' {
                self.mark.line += 1;
                self.mark.column = 1;
            } else if byte & 0xC0 != 0x80 {
                self.mark.column += 1;
            }
        }
        self.at += length;
    }

    /// Goes to the next token, so that its place is known; false at the end.
    fn advance_to_token(&mut self) -> Result<bool, Stop> {
        loop {
            let rest = &self.buffer[self.at..];
            let token = rest.find(|character| !is_blank(character));
            let length = rest.len();
            match token {
                Some(distance) => {
                    self.advance(distance);
                    return Ok(true);
                }
                None if self.at_end => return Ok(false),
                None => {
                    self.advance(length);
                    self.fill()?;
                }
            }
        }
    }

    fn token(&mut self) -> Result<(Event, Mark), Stop> {
        loop {
            self.advance_to_token()?;
            let rest = &self.buffer.as_bytes()[self.at..];
            let result = self.parser.parse_next(rest, self.at_end);
            let consumed = result.consumed_bytes;
            let event = result.event.map(|event| {
                event
                    .map(understand)
                    .map_err(|error| Problem::syntax(&plain_words(error.message())))
            });
            let separators = rest[..consumed]
                .iter()
                .take_while(|byte| matches!(byte, b',' | b':' | b' ' | b'\n' | b'\t'))
                .count();
            let start = self.mark;
            self.advance(separators);
            let mark = if separators < consumed {
                self.mark
            } else {
                start
            };
            self.advance(consumed - separators);
            match event {
                Some(Ok(event)) => return Ok((event, mark)),
                Some(Err(problem)) => {
                    let mark = Some(mark);
                    return Err(Stop { problem, mark });
                }
                None if self.at_end => {
                    return Err(self.stop(Problem::syntax("it ends too early")));
                }
                None => self.fill()?,
            }
        }
    }
}

impl<R: Read> Events for Json<R> {
    fn next(&mut self) -> Result<(Event, Mark), Stop> {
        match self.state {
            State::Between => {
                if !self.advance_to_token()? {
                    return Ok((Event::End, self.mark));
                }
                self.parser = LowLevelJsonParser::new();
                self.state = State::Inside;
                Ok((Event::DocumentStart, self.mark))
            }
            State::AfterValue => {
                self.state = State::Between;
                Ok((Event::DocumentEnd, self.mark))
            }
            State::Inside => {
                let (event, mark) = self.token()?;
                self.depth += event.depth();
                if self.depth == 0 {
                    self.state = State::AfterValue;
                }
                Ok((event, mark))
            }
        }
    }
}

fn understand(event: JsonEvent<'_>) -> Event {
    let scalar = |text: &str, style| {
        Event::Scalar(Scalar {
            text: text.to_owned(),
            style,
        })
    };
    match event {
        JsonEvent::String(text) | JsonEvent::ObjectKey(text) => Event::Scalar(Scalar {
            text: text.into_owned(),
            style: Style::Text,
        }),
        JsonEvent::Number(text) => scalar(&text, Style::Json),
        JsonEvent::Boolean(true) => scalar("true", Style::Json),
        JsonEvent::Boolean(false) => scalar("false", Style::Json),
        JsonEvent::Null => scalar("null", Style::Json),
        JsonEvent::StartArray => Event::SeqStart,
        JsonEvent::EndArray => Event::SeqEnd,
        JsonEvent::StartObject => Event::MapStart,
        JsonEvent::EndObject => Event::MapEnd,
        JsonEvent::Eof => Event::End,
    }
}

/// The parser's message in the middle of a sentence.
fn plain_words(message: &str) -> String {
    let mut characters = message.chars();
    characters.next().map_or_else(String::new, |first| {
        first.to_lowercase().chain(characters).collect()
    })
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use super::*;

    fn events(text: &str) -> (String, Option<String>) {
        let mut json = Json::new(Text::new(text.as_bytes()), 256 * 1024);
        let mut all = String::new();
        loop {
            match json.next() {
                Ok((Event::End, _)) => return (all, None),
                Ok((Event::Scalar(scalar), mark)) => {
                    let _ = write!(all, "{}@{}:{} ", scalar.text, mark.line, mark.column);
                }
                Ok((event, _)) => all.push_str(match event {
                    Event::DocumentStart => "<",
                    Event::DocumentEnd => ">",
                    Event::MapStart => "{",
                    Event::MapEnd => "}",
                    Event::SeqStart => "[",
                    _ => "]",
                }),
                Err(stop) => {
                    let mark = stop.mark.unwrap_or_default();
                    let error = format!("{}:{}: {}", mark.line, mark.column, stop.problem);
                    return (all, Some(error));
                }
            }
        }
    }

    #[test]
    fn values_one_after_the_other() {
        assert_eq!(
            events("{\"a\":[1, true],\n \"b\" : null}\n{} [] 12 \"x\""),
            (
                "<{a@1:2 [1@1:7 true@1:10 ]b@2:2 null@2:8 }><{}><[]><12@3:7 ><x@3:10 >".to_owned(),
                None
            )
        );
        assert_eq!(events(" \n"), (String::new(), None));
    }

    #[test]
    fn errors_say_where() {
        for (text, place) in [
            ("{\"a\": 1,}", "1:9: "),
            ("{\"a\": 1", "1:8: "),
            ("{\n\"a\" 1}", "2:5: "),
            ("{a: 1}", "1:2: "),
            ("[1 2]", "1:4: "),
            ("{} ,", "1:4: "),
            ("]", "1:1: "),
            ("\"abc", "1:1: "),
            ("[nul]", "1:2: "),
            ("[\"\\q\"]", "1:2: "),
            ("[\"\\ud800\"]", "1:2: "),
            ("{'a': 1}", "1:2: "),
            ("[1e]", "1:2: "),
        ] {
            let error = events(text).1.unwrap();
            assert!(error.starts_with(place), "{text}: {error}");
        }
    }

    #[test]
    fn escapes_are_undone() {
        assert_eq!(events("\"\\u00e9\\ud83d\\ude00\\n\"").0, "<é😀\n@1:1 >");
    }

    #[test]
    fn a_text_longer_than_a_piece_is_whole_and_one_beyond_the_bound_an_error() {
        let long = "x".repeat(200 * 1024);
        let (events_of_long, error) = events(&format!("[\"{long}\", 1]"));
        assert_eq!(error, None);
        assert!(events_of_long.contains(&format!("<[{long}@1:2 1@1:")));
        let longer = "x".repeat(600 * 1024);
        let error = events(&format!("[1,\n\"{longer}\"]")).1.unwrap();
        assert!(error.starts_with("2:1: a single text"), "{error}");
    }
}
