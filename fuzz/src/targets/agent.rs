//! What the agent on a node reads: requests, its journal, packed programs.

use std::io::{self, Write};

use protocol::Request;
use protocol::order::{key, start_order};
use protocol::validate::validate;
use windows_storage_agent::journal::{Contents, Journal, bad_end, recover, undo_file};
use windows_storage_agent::plan::{Observed, plan};
use windows_storage_agent::scripts::{Ran, commands, resolved};
use windows_storage_agent::unpack::{self, Announced};

/// A request: what is accepted has only files of its own folders, and an order to start in.
pub fn agent_request(bytes: &[u8]) {
    let Ok(request) = serde_json::from_slice::<Request>(bytes) else {
        return;
    };
    let text = serde_json::to_string(&request).unwrap();
    assert_eq!(serde_json::from_str::<Request>(&text).unwrap(), request);
    if validate(&request).is_err() {
        return;
    }
    for file in &request.files {
        let packed = file.packed.as_ref().map(|packed| &packed.path);
        let paths = [Some(&file.path), file.upload.as_ref(), packed];
        for path in paths.into_iter().flatten() {
            let path = path.to_lowercase();
            assert!(path.starts_with(r"c:\"), "{path}");
            // Neither out of the folder nor to a stream, a device or another name of the same file. Windows takes dots at
            // the end of a part for `..` or drops them; at its beginning, as in `..con`, they are of the name.
            let name = &path[3..];
            assert!(!name.contains(':') && !name.contains('/'), "{path}");
            let mut parts = name.split('\\');
            let is_literal = |part: &str| !part.is_empty() && !part.ends_with(['.', ' ']);
            assert!(parts.all(is_literal), "{path}");
        }
        let path = file.path.to_lowercase();
        let of_agent = path.starts_with(r"c:\k\windows-storage\");
        assert!(path.starts_with(r"c:\k\") && !of_agent, "{path}");
    }
    let order = start_order(&request.services).unwrap();
    assert_eq!(order.len(), request.services.len());
    for (number, service) in order.iter().enumerate() {
        for dependency in &service.dependencies {
            let mut before = order[..number].iter();
            let is_before = before.any(|other| key(&other.name) == key(dependency));
            assert!(is_before, "{dependency} comes too late");
        }
    }
    let _ = plan(&request, &Observed::default());
    let said = |_: &_| Ran {
        printed: b" 10.0.0.1\r\n".to_vec(),
        ..Ran::default()
    };
    if let Ok(commands) = commands(&request, said) {
        let services = resolved(&request, &commands).services;
        let mut scripts = services
            .iter()
            .map(|service| &service.powershell_pre_scripts);
        assert!(scripts.all(Vec::is_empty));
    }
}

/// The journal that an agent finds: there is a way to go on or back from whatever it says.
pub fn journal(bytes: &[u8]) {
    let Ok(journal) = serde_json::from_slice::<Journal>(bytes) else {
        return;
    };
    let text = serde_json::to_string(&journal).unwrap();
    assert_eq!(serde_json::from_str::<Journal>(&text).unwrap(), journal);
    let recovery = recover(&journal);
    let _ = bad_end(&journal, recovery, &["a".to_owned()]);
    for change in &journal.change.files {
        let sums = [None, Some("0"), change.previous_sha256.as_deref()];
        for current in sums {
            for set_aside in sums {
                for upload in sums {
                    let there = Contents {
                        current,
                        set_aside,
                        upload,
                    };
                    let _ = undo_file(change, there);
                }
            }
        }
    }
}

/// What packed content is written to.
struct Bounded {
    left: u64,
}

impl Write for Bounded {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        let length = u64::try_from(buffer.len()).unwrap();
        self.left = self.left.checked_sub(length).unwrap();
        Ok(buffer.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A packed program, after two bytes with its announced size: never more than that is written.
pub fn unpack(bytes: &[u8]) {
    let Some((size, packed)) = bytes.split_first_chunk::<2>() else {
        return;
    };
    let size = u64::from(u16::from_le_bytes(*size));
    let announced = Announced {
        size,
        sha256: "no sum",
    };
    let content = Bounded { left: size };
    assert!(unpack::unpack(packed, content, announced).is_err());
}
