//! YAML to events, with aliases replaced by what they name.

use std::collections::HashMap;
use std::io::Read;
use std::rc::Rc;

use granit_parser as granit;
use granit_parser::{ErrorKind, FallibleBufferedInput, Parser};

use super::characters::{Characters, Shared};
use super::encoding::Text;
use super::error::{Mark, Problem};
use super::events::{Event, Events, Scalar, Stop, Style};

/// What bounds memory and time.
#[derive(Clone, Copy)]
pub(super) struct Limits {
    /// Bytes of one token.
    pub text: usize,
    /// Bytes kept of one document's nodes with anchors.
    pub anchored: usize,
    /// Bytes that aliases of one document may add.
    pub aliased: usize,
}

/// What a recorded event costs besides what is in it.
const RECORDED: usize = 96;

type Recorded = Rc<[(Event, Mark)]>;

/// A node with an anchor that has not ended yet.
struct Recording {
    anchor: usize,
    depth: isize,
    events: Vec<(Event, Mark)>,
}

pub(super) struct Yaml<R: Read> {
    parser: Parser<'static, FallibleBufferedInput<Characters<R>>>,
    shared: Rc<Shared>,
    limits: Limits,
    recordings: Vec<Recording>,
    anchors: HashMap<usize, Recorded>,
    replay: Option<(Recorded, usize)>,
    anchored: usize,
    aliased: usize,
    /// Where the last event was.
    last: Mark,
}

impl<R: Read> Yaml<R> {
    pub fn new(text: Text<R>, limits: Limits) -> Self {
        let shared = Rc::new(Shared::default());
        let characters = Characters::new(text, limits.text, Rc::clone(&shared));
        Self {
            parser: Parser::new_from_fallible_iter(characters),
            shared,
            limits,
            recordings: Vec::new(),
            anchors: HashMap::new(),
            replay: None,
            anchored: 0,
            aliased: 0,
            last: Mark { line: 1, column: 1 },
        }
    }

    fn parse(&mut self) -> Result<(granit::Event<'static>, Mark), Stop> {
        let parsed = self.parser.next();
        if let Some(problem) = self.shared.failure.borrow_mut().take() {
            // The other problems are of bytes, and name their own place.
            let mark = matches!(problem, Problem::TextTooLong).then_some(self.last);
            return Err(Stop { problem, mark });
        }
        self.shared.pending.set(0);
        match parsed {
            Some(Ok((event, span))) => {
                self.last = place(&span.start);
                Ok((event, self.last))
            }
            Some(Err(error)) => {
                let problem = match error.kind() {
                    ErrorKind::RecursionLimitExceeded => Problem::TooDeep,
                    _ => Problem::syntax(&error.info()),
                };
                Err(Stop {
                    problem,
                    mark: Some(place(error.marker())),
                })
            }
            None => Ok((granit::Event::StreamEnd, self.last)),
        }
    }

    /// The next event of what an alias names.
    fn replayed(&mut self) -> Option<(Event, Mark)> {
        let (recorded, at) = self.replay.as_mut()?;
        let event = recorded.get(*at).cloned();
        *at += 1;
        if event.is_none() {
            self.replay = None;
        }
        event
    }

    fn start_replay(&mut self, anchor: usize, mark: Mark) -> Result<(), Stop> {
        let stop = |problem| Stop {
            problem,
            mark: Some(mark),
        };
        let recorded = self
            .anchors
            .get(&anchor)
            .ok_or_else(|| stop(Problem::AliasInItself))?;
        self.aliased += recorded
            .iter()
            .map(|(event, _)| event.cost())
            .sum::<usize>();
        if self.aliased > self.limits.aliased {
            return Err(stop(Problem::Aliases));
        }
        self.replay = Some((Rc::clone(recorded), 0));
        Ok(())
    }

    /// Keeps the event for every anchor whose node it belongs to.
    fn record(&mut self, event: &Event, mark: Mark) -> Result<(), Stop> {
        let cost = RECORDED + event.cost();
        for recording in &mut self.recordings {
            recording.depth += event.depth();
            recording.events.push((event.clone(), mark));
            self.anchored += cost;
        }
        if self.anchored > self.limits.anchored {
            return Err(Stop {
                problem: Problem::Aliases,
                mark: Some(mark),
            });
        }
        while let Some(recording) = self.recordings.pop_if(|recording| recording.depth <= 0) {
            self.anchors
                .insert(recording.anchor, recording.events.into());
        }
        Ok(())
    }

    fn deliver(&mut self, event: Event, mark: Mark) -> Result<(Event, Mark), Stop> {
        if !self.recordings.is_empty() {
            self.record(&event, mark)?;
        }
        Ok((event, mark))
    }
}

impl<R: Read> Events for Yaml<R> {
    fn next(&mut self) -> Result<(Event, Mark), Stop> {
        loop {
            if let Some((event, mark)) = self.replayed() {
                return self.deliver(event, mark);
            }
            let (event, mark) = self.parse()?;
            let (event, anchor) = match event {
                granit::Event::Alias(anchor) => {
                    self.start_replay(anchor, mark)?;
                    continue;
                }
                granit::Event::DocumentStart(..) => {
                    self.anchors.clear();
                    self.anchored = 0;
                    self.aliased = 0;
                    (Event::DocumentStart, 0)
                }
                granit::Event::DocumentEnd => (Event::DocumentEnd, 0),
                granit::Event::StreamEnd => (Event::End, 0),
                granit::Event::MappingStart(_, anchor, _) => (Event::MapStart, anchor),
                granit::Event::MappingEnd => (Event::MapEnd, 0),
                granit::Event::SequenceStart(_, anchor, _) => (Event::SeqStart, anchor),
                granit::Event::SequenceEnd => (Event::SeqEnd, 0),
                granit::Event::Scalar(text, style, anchor, tag) => {
                    let style = understand(style, tag.as_deref());
                    let text = text.into_owned();
                    (Event::Scalar(Scalar { text, style }), anchor)
                }
                // Comments and the like.
                _ => continue,
            };
            if anchor != 0 {
                self.recordings.push(Recording {
                    anchor,
                    depth: 0,
                    events: Vec::new(),
                });
            }
            return self.deliver(event, mark);
        }
    }
}

fn understand(style: granit::ScalarStyle, tag: Option<&granit::Tag>) -> Style {
    match tag {
        None if style == granit::ScalarStyle::Plain => Style::Plain,
        None => Style::Text,
        // kubectl takes what has a tag of its own as text too.
        Some(tag) => match tag.core_suffix() {
            Some("null") => Style::Null,
            Some("bool") => Style::Bool,
            Some("int") => Style::Int,
            Some("float") => Style::Float,
            Some("merge") => Style::Plain,
            _ => Style::Text,
        },
    }
}

fn place(marker: &granit::Marker) -> Mark {
    Mark {
        line: marker.line() as u64,
        column: marker.col() as u64 + 1,
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use super::*;

    const LIMITS: Limits = Limits {
        text: 256 * 1024,
        anchored: 10_000,
        aliased: 20_000,
    };

    /// The events in short, and the error if it ends with one.
    fn events(text: &str) -> (String, Option<String>) {
        let mut yaml = Yaml::new(Text::new(text.as_bytes()), LIMITS);
        let mut all = String::new();
        loop {
            match yaml.next() {
                Ok((Event::End, _)) => return (all, None),
                Ok((event, _)) => match event {
                    Event::DocumentStart => all.push('<'),
                    Event::DocumentEnd => all.push('>'),
                    Event::MapStart => all.push('{'),
                    Event::MapEnd => all.push('}'),
                    Event::SeqStart => all.push('['),
                    Event::SeqEnd => all.push(']'),
                    Event::Scalar(scalar) if scalar.style == Style::Plain => {
                        all.push_str(&scalar.text);
                        all.push(' ');
                    }
                    Event::Scalar(scalar) => {
                        let _ = write!(all, "{:?}{:?} ", scalar.style, scalar.text);
                    }
                    Event::End => {}
                },
                Err(stop) => {
                    let mark = stop.mark.unwrap_or_default();
                    let error = format!("{}:{}: {}", mark.line, mark.column, stop.problem);
                    return (all, Some(error));
                }
            }
        }
    }

    fn good(text: &str) -> String {
        let (events, error) = events(text);
        assert_eq!(error, None, "{text}");
        events
    }

    fn bad(text: &str) -> String {
        events(text).1.unwrap()
    }

    #[test]
    fn documents_and_styles() {
        assert_eq!(
            good("a: [1, '2', \"3\"]\n---\n- !!str 4\n- !!int '5'\n- !mine 6\n- |\n  7\n"),
            "<{a [1 Text\"2\" Text\"3\" ]}><[Text\"4\" Int\"5\" Text\"6\" Text\"7\\n\" ]>"
        );
        assert_eq!(good(""), "");
        assert_eq!(good("# nothing\n"), "");
    }

    #[test]
    fn an_alias_is_replaced_by_what_it_names() {
        assert_eq!(good("a: &x 1\nb: *x\n"), "<{a 1 b 1 }>");
        assert_eq!(
            good("- &outer\n  k: &inner [1]\n- *inner\n- *outer\n"),
            "<[{k [1 ]}[1 ]{k [1 ]}]>"
        );
        assert_eq!(good("- &x 1\n- &y [*x]\n- *y\n"), "<[1 [1 ][1 ]]>");
        // The later anchor of a name wins.
        assert_eq!(good("- &x 1\n- &x 2\n- *x\n"), "<[1 2 2 ]>");
    }

    #[test]
    fn an_alias_that_names_nothing_or_itself_is_an_error() {
        assert!(bad("a: *x\n").starts_with("1:4: "), "{}", bad("a: *x\n"));
        assert!(bad("a: &x 1\n---\nb: *x\n").starts_with("3:4: "));
        assert!(bad("&x [*x]\n").contains("inside of what it names"));
    }

    #[test]
    fn aliases_do_not_blow_up() {
        let mut laughs = "a0: &a0 [ha, ha]\n".to_owned();
        for level in 1..30 {
            let below = level - 1;
            let _ = writeln!(laughs, "a{level}: &a{level} [*a{below}, *a{below}]");
        }
        assert!(bad(&laughs).contains("aliases expand"));
        let many = format!("x: &x [ha, ha]\ny: [{}]\n", "*x,".repeat(1000));
        assert!(bad(&many).contains("aliases expand"));
    }

    #[test]
    fn what_has_an_anchor_is_kept_within_a_bound() {
        let text = |count| format!("&x [{}]\n", "a,".repeat(count));
        good(&text(LIMITS.anchored / (RECORDED + 33) - 3));
        assert!(bad(&text(LIMITS.anchored / RECORDED)).contains("aliases expand"));
        // Each document has its own.
        good(&format!("--- {}", text(40)).repeat(20));
    }

    #[test]
    fn errors_say_where() {
        assert!(bad("a: b\nc: d: e\n").starts_with("2:5: mapping values are not allowed"));
        assert!(bad("a: 'b\n").starts_with("2:1: "));
        assert!(bad("a:\n\t- b\n").starts_with("2:2: "));
    }

    #[test]
    fn one_text_has_a_bound() {
        for start in [
            "a: ", "a: '", "a: \"", "a: |\n  ", "a: >\n  ", "# ", "&", "%", "? ",
        ] {
            let text = format!("{start}{}", "x".repeat(2 * LIMITS.text));
            let (_, error) = events(&text);
            assert!(error.is_some(), "{start}");
        }
        assert!(bad(&format!("a: {}", "x".repeat(2 * LIMITS.text))).contains("a single text"));
    }

    #[test]
    fn deep_nesting_ends() {
        assert!(bad(&"[".repeat(100_000)).contains("nested deeper"));
        assert!(bad(&"- ".repeat(100_000)).contains("nested deeper"));
    }
}
