//! Items of a typed list that do not say what they are, until the list says it. `kubectl` prints the kind of a list
//! after its items, so these wait on disk.

use std::io::{self, BufReader, BufWriter, IntoInnerError, Seek};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tempfile::SpooledTempFile;

/// Lists up to this size need no file.
const IN_MEMORY: usize = 1024 * 1024;

/// Kubernetes allows no longer names.
const MAX_NAME: usize = 253;

/// What an object says that it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Identity {
    pub api_version: Option<String>,
    pub kind: Option<String>,
}

impl Identity {
    pub fn of(fields: &Map<String, Value>) -> Self {
        // What cannot be a name would only garble messages.
        let name = |key| {
            let name = fields.get(key)?.as_str()?;
            let fits = (1..=MAX_NAME).contains(&name.len());
            (fits && name.bytes().all(|byte| byte.is_ascii_graphic())).then(|| name.to_owned())
        };
        Self {
            api_version: name("apiVersion"),
            kind: name("kind"),
        }
    }

    pub fn is_list(&self) -> bool {
        let kind = self.kind.as_ref();
        kind.is_some_and(|kind| kind.ends_with("List"))
    }

    /// Both, where both are known.
    pub fn whole(&self) -> Option<(&str, &str)> {
        Some((self.api_version.as_deref()?, self.kind.as_deref()?))
    }

    /// What an item of a list with this identity is, where it does not say so itself.
    pub fn of_item(&self, item: Self) -> Self {
        let kind = self.kind.as_ref();
        let kind = kind.and_then(|kind| kind.strip_suffix("List"));
        match kind {
            Some(kind) if !kind.is_empty() && self.api_version.is_some() => Self {
                api_version: item.api_version.or_else(|| self.api_version.clone()),
                kind: item.kind.or_else(|| Some(kind.to_owned())),
            },
            _ => item,
        }
    }
}

/// A mapping that may be an object.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Mapping {
    /// Which item it is.
    pub path: String,
    pub fields: Map<String, Value>,
    /// Whether all fields are there; else it was too large.
    pub is_whole: bool,
}

/// The items of one list.
pub(super) struct Items {
    /// What the list says of itself before its items.
    pub list: Identity,
    /// The first item that is no object at all.
    pub misfit: Option<String>,
    /// How many wait.
    pub waiting: u64,
    spool: BufWriter<SpooledTempFile>,
}

impl Items {
    pub fn of(list: Identity) -> Self {
        Self {
            list,
            misfit: None,
            waiting: 0,
            spool: BufWriter::new(SpooledTempFile::new(IN_MEMORY)),
        }
    }

    /// Keeps an item until the list's end.
    pub fn wait(&mut self, item: &Mapping) -> io::Result<()> {
        self.waiting += 1;
        Ok(serde_json::to_writer(&mut self.spool, item)?)
    }

    /// Those that wait, in the order in which they came.
    pub fn recall(self) -> io::Result<impl Iterator<Item = serde_json::Result<Mapping>>> {
        let spool = self.spool.into_inner();
        let mut file = spool.map_err(IntoInnerError::into_error)?;
        file.rewind()?;
        Ok(serde_json::Deserializer::from_reader(BufReader::new(file)).into_iter())
    }
}
