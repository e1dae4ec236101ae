//! Items of a typed list that do not say what they are, until the list says it. `kubectl` prints the kind of a list
//! after its items, so these wait on disk.

use std::io::{BufRead, BufReader, BufWriter, Seek, SeekFrom, Write};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tempfile::SpooledTempFile;

use super::error::{Mark, Problem};

/// Lists up to this size need no file.
const IN_MEMORY: usize = 1024 * 1024;

/// What an object says that it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Identity {
    pub api_version: Option<String>,
    pub kind: Option<String>,
}

impl Identity {
    /// What the items of a list are by the list's own apiVersion and kind; nothing if that does not say it.
    pub fn of_items(&self) -> Option<Self> {
        let kind = self.kind.as_ref()?.strip_suffix("List")?;
        if kind.is_empty() {
            return None;
        }
        Some(Self {
            api_version: Some(self.api_version.clone()?),
            kind: Some(kind.to_owned()),
        })
    }

    pub fn is_list(&self) -> bool {
        self.kind
            .as_ref()
            .is_some_and(|kind| kind.ends_with("List"))
    }

    pub fn says_something(&self) -> bool {
        self.api_version.is_some() || self.kind.is_some()
    }

    pub fn is_whole(&self) -> bool {
        self.api_version.is_some() && self.kind.is_some()
    }

    pub fn or(self, other: &Self) -> Self {
        Self {
            api_version: self.api_version.or_else(|| other.api_version.clone()),
            kind: self.kind.or_else(|| other.kind.clone()),
        }
    }
}

/// An object that does not say what it is.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Waiting {
    pub path: String,
    pub line: u64,
    pub column: u64,
    pub api_version: Option<String>,
    pub kind: Option<String>,
    /// Nothing if it was too large.
    pub fields: Option<Map<String, Value>>,
}

/// The items of one list.
#[derive(Default)]
pub(super) struct Siblings {
    /// The list's identity, where it comes before the items.
    pub list: Identity,
    spool: Option<BufWriter<SpooledTempFile>>,
    pub waiting: u64,
    /// The first item that is no object at all, and where it is.
    pub misfit: Option<(String, Mark)>,
}

impl Siblings {
    pub fn of(list: Identity) -> Self {
        Self {
            list,
            ..Self::default()
        }
    }

    pub fn wait(&mut self, item: &Waiting) -> Result<(), Problem> {
        let spool = self
            .spool
            .get_or_insert_with(|| BufWriter::new(SpooledTempFile::new(IN_MEMORY)));
        let written = serde_json::to_writer(&mut *spool, item)
            .map_err(std::io::Error::from)
            .and_then(|()| spool.write_all(b"\n"));
        self.waiting += 1;
        written.map_err(Problem::Spool)
    }

    /// Those that wait, in the order in which they came.
    pub fn recall(self) -> Result<impl Iterator<Item = Result<Waiting, Problem>>, Problem> {
        let mut file = match self.spool {
            None => None,
            Some(spool) => {
                let mut file = spool
                    .into_inner()
                    .map_err(|error| Problem::Spool(error.into_error()))?;
                file.seek(SeekFrom::Start(0)).map_err(Problem::Spool)?;
                Some(BufReader::with_capacity(64 * 1024, file))
            }
        };
        let mut line = Vec::new();
        Ok(std::iter::from_fn(move || {
            line.clear();
            match file.as_mut()?.read_until(b'\n', &mut line) {
                Ok(0) => None,
                Ok(_) => Some(
                    serde_json::from_slice(&line).map_err(|error| Problem::Spool(error.into())),
                ),
                Err(error) => Some(Err(Problem::Spool(error))),
            }
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(api_version: &str, kind: &str) -> Identity {
        Identity {
            api_version: Some(api_version.to_owned()),
            kind: Some(kind.to_owned()),
        }
    }

    #[test]
    fn a_typed_list_says_what_its_items_are() {
        let items = |kind| identity("v1", kind).of_items();
        assert_eq!(items("PodList"), Some(identity("v1", "Pod")));
        assert_eq!(items("List"), None);
        assert_eq!(items("Pod"), None);
        assert_eq!(Identity::default().of_items(), None);
    }

    #[test]
    fn what_waits_comes_back_in_order_in_memory_and_on_disk() {
        for count in [0, 3, 20_000] {
            let item = |number: u64| Waiting {
                path: format!("items[{number}]"),
                line: number,
                column: 3,
                api_version: None,
                kind: None,
                fields: number
                    .is_multiple_of(2)
                    .then(|| Map::from_iter([("a".to_owned(), "x".repeat(100).into())])),
            };
            let mut siblings = Siblings::default();
            for number in 0..count {
                siblings.wait(&item(number)).unwrap();
            }
            let mut recalled = siblings.recall().unwrap();
            for number in 0..count {
                assert_eq!(recalled.next().unwrap().unwrap(), item(number));
            }
            assert!(recalled.next().is_none());
        }
    }
}
