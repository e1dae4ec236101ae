//! Buffers items of a typed list that have no kind of their own until the list's kind is known. `kubectl` prints the kind
//! of a list after its items, so the items wait on disk.

use std::io::{self, BufReader, BufWriter, IntoInnerError, Seek};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tempfile::SpooledTempFile;

/// Lists up to this size stay in memory.
const IN_MEMORY: usize = 1024 * 1024;

/// The longest name that Kubernetes allows.
const MAX_NAME: usize = 253;

/// An object's apiVersion and kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Identity {
    pub api_version: Option<String>,
    pub kind: Option<String>,
}

impl Identity {
    pub fn of(fields: &Map<String, Value>) -> Self {
        // Anything else is not a name and would only garble messages.
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

    /// Returns apiVersion and kind if both are known.
    pub fn whole(&self) -> Option<(&str, &str)> {
        Some((self.api_version.as_deref()?, self.kind.as_deref()?))
    }

    /// Returns the identity of an item of this list, filling in what the item itself lacks.
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
    /// The item's path in the document.
    pub path: String,
    pub fields: Map<String, Value>,
    /// Whether all fields were kept; false if the object was too large.
    pub is_whole: bool,
}

pub(super) struct Items {
    /// The list's identity as far as known before its items.
    pub list: Identity,
    /// The path of the first item that is not an object.
    pub misfit: Option<String>,
    /// The number of buffered items.
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

    /// Buffers an item until the end of the list.
    pub fn wait(&mut self, item: &Mapping) -> io::Result<()> {
        self.waiting += 1;
        Ok(serde_json::to_writer(&mut self.spool, item)?)
    }

    /// Returns the buffered items in order.
    pub fn recall(self) -> io::Result<impl Iterator<Item = serde_json::Result<Mapping>>> {
        let spool = self.spool.into_inner();
        let mut file = spool.map_err(IntoInnerError::into_error)?;
        file.rewind()?;
        Ok(serde_json::Deserializer::from_reader(BufReader::new(file)).into_iter())
    }
}
