//! Generates random event sequences of small clusters from the grammar in `generate/objects.yaml`.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde_json::{Map, Value};

use crate::cases::over;
use crate::run::key;

/// The templates, by name.
static TEMPLATES: LazyLock<Value> =
    LazyLock::new(|| serde_yaml::from_str(include_str!("generate/objects.yaml")).unwrap());

#[derive(Clone, Debug)]
pub enum Event {
    Upsert(Value),
    Delete(Value),
}

pub fn events(count: usize, seed: u64) -> Vec<Event> {
    let mut random = Random {
        rng: StdRng::seed_from_u64(seed),
        bound: Vec::new(),
    };
    random.bind(&TEMPLATES["cluster"]);
    let mut there: BTreeMap<String, Value> = BTreeMap::new();
    let mut life = Vec::new();
    while life.len() < count {
        let nth = random.below(there.len().max(1));
        if !there.is_empty() && life.len() > 3 && random.chance(10) {
            let gone = there.keys().nth(nth).cloned().unwrap();
            life.extend(there.remove(&gone).map(Event::Delete));
        } else if !there.is_empty() && random.chance(3) {
            // A restarted watch repeats known objects.
            life.extend(there.values().nth(nth).cloned().map(Event::Upsert));
        } else {
            let name = match life.len() {
                0 if random.chance(95) => "plain-node",
                1 if random.chance(60) => "node",
                2 if random.chance(60) => "csi-node",
                _ => "object",
            };
            let object = random.named(name);
            there.insert(key(&object), object.clone());
            life.push(Event::Upsert(object));
        }
    }
    life
}

/// Expands templates.
struct Random {
    rng: StdRng,
    /// The values bound by each enclosing `let`, innermost last.
    bound: Vec<Value>,
}

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.rng.random_range(0..limit)
    }

    fn chance(&mut self, percent: u64) -> bool {
        self.rng.random_range(0..100) < percent
    }

    fn bind(&mut self, values: &Value) {
        let values = self.expand(values);
        self.bound.push(values);
    }

    /// Returns a field, such as `a.b`, of the bound value with this name, or else of its expanded template.
    fn named(&mut self, path: &str) -> Value {
        let mut parts = path.split('.');
        let name = parts.next().unwrap();
        let mut bound = self.bound.iter().rev();
        let mut value = match bound.find_map(|values| values.get(name)).cloned() {
            Some(value) => value,
            None => self.expand(&TEMPLATES[name]),
        };
        for part in parts {
            value = value[part].take();
        }
        assert!(!value.is_null(), "there is no {path}");
        value
    }

    fn expand(&mut self, template: &Value) -> Value {
        match template {
            Value::String(text) => self.expand_text(text.clone()),
            Value::Array(items) => {
                let items = items.iter().map(|item| self.expand(item));
                items.filter(|item| !item.is_null()).collect()
            }
            Value::Object(fields) => self.expand_object(fields),
            other => other.clone(),
        }
    }

    fn expand_text(&mut self, mut text: String) -> Value {
        while let Some(end) = text.find('>') {
            let start = text[..end].rfind('<').unwrap();
            let value = self.named(&text[start + 1..end]);
            if end - start + 1 == text.len() {
                return value;
            }
            text.replace_range(start..=end, value.as_str().unwrap());
        }
        text.into()
    }

    fn expand_object(&mut self, fields: &Map<String, Value>) -> Value {
        let of = fields.get("of").unwrap_or(&Value::Null);
        if let Some(choices) = fields.get("one of").and_then(Value::as_array) {
            let chosen = self.below(choices.len());
            self.expand(&choices[chosen])
        } else if let Some(choices) = fields.get("weighted").and_then(Value::as_array) {
            let choices = choices
                .iter()
                .flat_map(|choice| (0..choice[0].as_u64().unwrap()).map(move |_| &choice[1]));
            let choices: Vec<&Value> = choices.collect();
            let chosen = self.below(choices.len());
            self.expand(choices[chosen])
        } else if let Some(percent) = fields.get("chance") {
            let percent = self.expand(percent).as_u64().unwrap();
            if self.chance(percent) {
                self.expand(of)
            } else {
                Value::Null
            }
        } else if let Some(range) = fields.get("times") {
            let [least, most] = [0, 1].map(|end| range[end].as_u64().unwrap());
            let mut items: Vec<Value> = Vec::new();
            for _ in 0..self.rng.random_range(least..=most) {
                let item = self.expand(of);
                if !items.contains(&item) {
                    items.push(item);
                }
            }
            items.into()
        } else if let Some(parts) = fields.get("all of").and_then(Value::as_array) {
            let mut parts = parts.iter().map(|part| self.expand(part));
            let first = parts.next().unwrap();
            parts.filter(|part| !part.is_null()).fold(first, over)
        } else if let Some(values) = fields.get("let") {
            self.bind(values);
            let inside = self.expand(&fields["in"]);
            self.bound.pop();
            inside
        } else {
            let fields = fields
                .iter()
                .map(|(name, value)| (name.clone(), self.expand(value)));
            let fields: Map<String, Value> = fields.filter(|(_, value)| !value.is_null()).collect();
            fields.into()
        }
    }
}
