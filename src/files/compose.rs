//! Events to values, within bounds.

use std::cell::Cell;
use std::rc::Rc;

use serde_json::{Map, Value};

use super::error::{Mark, Problem};
use super::events::{Event, Events, Scalar, Stop, Style};
use super::progress::Pulse;
use super::{MAX_DEPTH, scalars};

/// The events of one source; it watches the depth and reports progress.
pub(super) struct Stream<'a, 'p> {
    events: Box<dyn Events + 'a>,
    depth: usize,
    bytes: Rc<Cell<u64>>,
    pub pulse: &'a mut Pulse<'p>,
}

/// What may still be kept of one object, in bytes.
pub(super) struct Allowance {
    left: usize,
    fits: bool,
}

impl Allowance {
    pub fn within(limit: usize) -> Self {
        Self {
            left: limit,
            fits: true,
        }
    }

    fn spend(&mut self, cost: usize) -> bool {
        match self.left.checked_sub(cost) {
            Some(left) => self.left = left,
            None => self.fits = false,
        }
        self.fits
    }
}

/// A mapping as it grows. When it becomes too large, what it holds is dropped.
pub(super) struct Fields {
    map: Option<Map<String, Value>>,
    merged: Vec<Map<String, Value>>,
}

impl Fields {
    pub fn new() -> Self {
        Self {
            map: Some(Map::new()),
            merged: Vec::new(),
        }
    }

    pub fn drop_all(&mut self) {
        self.map = None;
        self.merged.clear();
    }

    pub fn are_kept(&self) -> bool {
        self.map.is_some()
    }

    pub fn has(&self, key: &str) -> bool {
        self.map.as_ref().is_some_and(|map| map.contains_key(key))
    }

    pub fn get(&self, key: &str) -> Option<&Value> {
        self.map.as_ref()?.get(key)
    }

    /// The mapping; nothing if it was too large.
    pub fn finish(self) -> Option<Map<String, Value>> {
        let mut map = self.map?;
        for merged in self.merged {
            for (key, value) in merged {
                map.entry(key).or_insert(value);
            }
        }
        Some(map)
    }

    fn merge(&mut self, value: Value) -> Result<(), Problem> {
        match value {
            Value::Object(map) => self.merged.push(map),
            Value::Array(values) => {
                for value in values {
                    let Value::Object(map) = value else {
                        return Err(Problem::MergeNotMapping);
                    };
                    self.merged.push(map);
                }
            }
            _ => return Err(Problem::MergeNotMapping),
        }
        Ok(())
    }
}

impl<'a, 'p> Stream<'a, 'p> {
    pub fn new(
        events: Box<dyn Events + 'a>,
        bytes: Rc<Cell<u64>>,
        pulse: &'a mut Pulse<'p>,
    ) -> Self {
        Self {
            events,
            depth: 0,
            bytes,
            pulse,
        }
    }

    pub fn next(&mut self) -> Result<(Event, Mark), Stop> {
        let (event, mark) = self.events.next()?;
        self.pulse.beat(self.bytes.get());
        self.depth = self.depth.saturating_add_signed(event.depth());
        if self.depth > MAX_DEPTH {
            return Err(at(mark)(Problem::TooDeep));
        }
        Ok((event, mark))
    }

    /// Passes over the node that this event starts.
    pub fn skip(&mut self, first: &Event) -> Result<(), Stop> {
        let mut open = first.depth();
        while open > 0 {
            open += self.next()?.0.depth();
        }
        Ok(())
    }

    /// The next key of a mapping; nothing at its end.
    pub fn key(&mut self) -> Result<Option<(Scalar, Mark)>, Stop> {
        match self.next()? {
            (Event::MapEnd, _) => Ok(None),
            (Event::Scalar(key), mark) => Ok(Some((key, mark))),
            (_, mark) => Err(at(mark)(Problem::KeyNotText)),
        }
    }

    /// The node that this event starts; nothing if it is too large.
    pub fn compose(
        &mut self,
        first: Event,
        mark: Mark,
        allowance: &mut Allowance,
    ) -> Result<Option<Value>, Stop> {
        if !allowance.spend(first.cost()) {
            self.skip(&first)?;
            return Ok(None);
        }
        match first {
            Event::Scalar(scalar) => scalars::value(scalar).map(Some).map_err(at(mark)),
            Event::SeqStart => {
                let mut values = Some(Vec::new());
                loop {
                    let (event, mark) = self.next()?;
                    if event == Event::SeqEnd {
                        return Ok(values.map(Value::Array));
                    }
                    match (self.compose(event, mark, allowance)?, &mut values) {
                        (Some(value), Some(values)) => values.push(value),
                        _ => values = None,
                    }
                }
            }
            Event::MapStart => {
                let mut fields = Fields::new();
                while let Some((key, at_key)) = self.key()? {
                    let (event, mark) = self.next()?;
                    self.field(&mut fields, key, at_key, event, mark, allowance)?;
                }
                Ok(fields.finish().map(Value::Object))
            }
            // A parser does not end a node that it has not started.
            Event::DocumentStart
            | Event::DocumentEnd
            | Event::MapEnd
            | Event::SeqEnd
            | Event::End => Err(at(mark)(Problem::syntax("it ends too early"))),
        }
    }

    /// Puts the value that this event starts under its key.
    pub fn field(
        &mut self,
        fields: &mut Fields,
        key: Scalar,
        at_key: Mark,
        first: Event,
        mark: Mark,
        allowance: &mut Allowance,
    ) -> Result<(), Stop> {
        if fields.has(&key.text) {
            return Err(at(at_key)(Problem::DuplicateKey(key.text)));
        }
        let fits = allowance.spend(key.text.len());
        let value = self.compose(first, mark, allowance)?;
        let (Some(value), true) = (value, fits) else {
            fields.drop_all();
            return Ok(());
        };
        if is_merge(&key) {
            return fields.merge(value).map_err(at(at_key));
        }
        if let Some(map) = &mut fields.map {
            map.insert(key.text, value);
        }
        Ok(())
    }
}

fn is_merge(key: &Scalar) -> bool {
    key.text == "<<" && key.style == Style::Plain
}

pub(super) fn at(mark: Mark) -> impl Fn(Problem) -> Stop {
    move |problem| Stop {
        problem,
        mark: Some(mark),
    }
}
