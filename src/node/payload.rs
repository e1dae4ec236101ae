//! The programs that the operator installs on Windows nodes.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use serde::Deserialize;
use sha2::{Digest, Sha256};

/// The SHA-256 of `payload.json`, which contains those of the programs. Set if the operator was built for one payload only,
/// like the image's: changed files beside it then cannot bring other programs to nodes.
const BUILT_FOR: Option<&str> = option_env!("WINDOWS_STORAGE_PAYLOAD_SHA256");

/// A problem with the payload folder.
#[derive(Debug, thiserror::Error)]
pub enum PayloadError {
    /// A file cannot be read.
    #[error("cannot read {path}: {1}; `make payload` builds the programs for Windows nodes, --payload-dir says where they are", path = .0.display())]
    Read(PathBuf, std::io::Error),
    /// The manifest does not parse.
    #[error("{path} is not a payload manifest: {1}", path = .0.display())]
    Manifest(PathBuf, serde_json::Error),
    /// A file has another SHA-256, the first of the two, than it should have.
    #[error("{path} has sha256 {1}, not {2}, which the operator was built for or payload.json pins, so it goes to no node; the folder was changed or damaged, build it or deploy the image again", path = .0.display())]
    Changed(PathBuf, String, String),
}

/// A program for Windows nodes, checked against its pinned hash.
#[derive(Clone, Deserialize)]
pub struct Program {
    /// Its version, as its builder names it.
    pub version: String,
    /// The SHA-256 of the program itself, in lower-case hexadecimal.
    pub sha256: String,
    file: String,
    /// The compressed file that is transferred instead, if there is one.
    pub packed: Option<PackedProgram>,
    #[serde(skip)]
    folder: PathBuf,
    /// The copy that nodes are served from at the moment.
    #[serde(skip)]
    in_use: Arc<Mutex<Weak<Vec<u8>>>>,
}

/// A compressed program.
#[derive(Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PackedProgram {
    file: String,
    sha256: String,
    /// The size of the program itself, in bytes.
    pub unpacked_size: u64,
}

impl Program {
    /// Returns the transferred file. Concurrent callers share one copy. Once it is dropped, the next caller reads and checks
    /// the file again: it is large, and rarely needed.
    pub fn read(&self) -> Result<Arc<Vec<u8>>, PayloadError> {
        // Locked while the file is read, so that others wait for this copy. A panic in another thread leaves nothing half
        // done.
        let mut in_use = self.in_use.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(content) = in_use.upgrade() {
            return Ok(content);
        }
        let (file, sha256) = match &self.packed {
            Some(packed) => (&packed.file, &packed.sha256),
            None => (&self.file, &self.sha256),
        };
        let content = Arc::new(read(&self.folder.join(file), Some(sha256))?);
        *in_use = Arc::downgrade(&content);
        Ok(content)
    }
}

/// All programs for a node, as `payload.json` lists them.
#[derive(Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Payload {
    /// csi-proxy.
    pub csi_proxy: Program,
    /// The agent.
    pub agent: Program,
}

impl Payload {
    /// Reads `payload.json` in that folder and the files to transfer, and checks their hashes.
    pub fn load(folder: &Path) -> Result<Self, PayloadError> {
        Self::load_built_for(BUILT_FOR, folder)
    }

    fn load_built_for(pinned: Option<&str>, folder: &Path) -> Result<Self, PayloadError> {
        let path = folder.join("payload.json");
        let text = read(&path, pinned)?;
        let mut payload: Self =
            serde_json::from_slice(&text).map_err(|cause| PayloadError::Manifest(path, cause))?;
        for program in [&mut payload.csi_proxy, &mut payload.agent] {
            folder.clone_into(&mut program.folder);
            program.read()?;
        }
        Ok(payload)
    }
}

fn read(path: &Path, pinned: Option<&str>) -> Result<Vec<u8>, PayloadError> {
    let content =
        std::fs::read(path).map_err(|cause| PayloadError::Read(path.to_owned(), cause))?;
    let found = sha256_hex(&content);
    match pinned.filter(|pinned| *pinned != found) {
        None => Ok(content),
        Some(pinned) => {
            let pinned = pinned.to_owned();
            Err(PayloadError::Changed(path.to_owned(), found, pinned))
        }
    }
}

/// Returns a SHA-256 in lower-case hexadecimal.
pub fn sha256_hex(content: &[u8]) -> String {
    Sha256::digest(content)
        .iter()
        .fold(String::with_capacity(64), |mut text, byte| {
            use std::fmt::Write;
            // Writing to a String does not fail.
            let _ = write!(text, "{byte:02x}");
            text
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Payload {
        /// Returns a payload whose files are deleted once it is loaded.
        pub(crate) fn of_test() -> Self {
            Self::load(folder(&sha256_hex(b"agent")).path()).unwrap()
        }
    }

    fn folder(agent_sum: &str) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("a.exe"), b"agent").unwrap();
        std::fs::write(folder.path().join("c.exe"), b"proxy").unwrap();
        let manifest = format!(
            r#"{{"csiProxy":{{"file":"c.exe","version":"v1.3.0","sha256":"{}"}},"agent":{{"file":"a.exe","version":"v2","sha256":"{agent_sum}"}}}}"#,
            sha256_hex(b"proxy")
        );
        std::fs::write(folder.path().join("payload.json"), manifest).unwrap();
        folder
    }

    #[test]
    fn a_payload_is_read_whole_and_refused_where_a_file_has_not_its_pinned_hash() {
        let folder = folder(&sha256_hex(b"agent"));
        let payload = Payload::load(folder.path()).unwrap();
        assert_eq!(*payload.agent.read().unwrap(), b"agent");
        assert_eq!(payload.csi_proxy.version, "v1.3.0");
        // Also if the file is changed later.
        std::fs::write(folder.path().join("a.exe"), b"evil!").unwrap();
        let refused = [
            payload.agent.read().err(),
            Payload::load(folder.path()).err(),
        ];
        for error in refused {
            assert!(matches!(error, Some(PayloadError::Changed(..))));
        }
        let missing = Payload::load(Path::new("/nonexistent")).err().unwrap();
        assert!(missing.to_string().contains("make payload"), "{missing}");
    }

    #[test]
    fn an_operator_that_was_built_for_one_payload_takes_no_other() {
        let folder = folder(&sha256_hex(b"agent"));
        let text = std::fs::read(folder.path().join("payload.json")).unwrap();
        let pinned = sha256_hex(&text);
        assert!(Payload::load_built_for(Some(&pinned), folder.path()).is_ok());
        // Both program and manifest are changed: they match each other, but not the operator.
        std::fs::write(folder.path().join("a.exe"), b"evil!").unwrap();
        let changed = String::from_utf8(text).unwrap();
        let changed = changed.replace(&sha256_hex(b"agent"), &sha256_hex(b"evil!"));
        std::fs::write(folder.path().join("payload.json"), changed).unwrap();
        assert!(Payload::load_built_for(None, folder.path()).is_ok());
        assert!(matches!(
            Payload::load_built_for(Some(&pinned), folder.path()),
            Err(PayloadError::Changed(..))
        ));
    }

    #[test]
    fn those_who_need_it_at_once_share_one_copy() {
        let folder = folder(&sha256_hex(b"agent"));
        let payload = Payload::load(folder.path()).unwrap();
        let (one, other) = (payload.agent.clone(), payload.agent.clone());
        let copies = [one.read().unwrap(), other.read().unwrap()];
        assert!(Arc::ptr_eq(&copies[0], &copies[1]));
        let copy = Arc::downgrade(&copies[0]);
        drop(copies);
        assert!(copy.upgrade().is_none(), "nobody needs it any more");
        // The next read gets the current content.
        std::fs::write(folder.path().join("a.exe"), b"evil!").unwrap();
        assert!(one.read().is_err());
    }

    #[test]
    fn of_a_packed_program_only_what_travels_is_read() {
        let folder = folder(&sha256_hex(b"agent"));
        let manifest = |sum: &str| {
            let text = format!(
                r#"{{"csiProxy":{{"file":"absent","version":"v1","sha256":"of the program",
                    "packed":{{"file":"c.exe","format":"zstd","sha256":"{sum}","unpackedSize":7}}}},
                   "agent":{{"file":"a.exe","version":"v2","sha256":"{}"}}}}"#,
                sha256_hex(b"agent")
            );
            std::fs::write(folder.path().join("payload.json"), text).unwrap();
            Payload::load(folder.path())
        };
        let csi_proxy = manifest(&sha256_hex(b"proxy")).unwrap().csi_proxy;
        assert_eq!(csi_proxy.sha256, "of the program");
        assert_eq!(*csi_proxy.read().unwrap(), b"proxy");
        assert_eq!(csi_proxy.packed.unwrap().unpacked_size, 7);
        assert!(matches!(
            manifest(&sha256_hex(b"another")),
            Err(PayloadError::Changed { .. })
        ));
    }
}
