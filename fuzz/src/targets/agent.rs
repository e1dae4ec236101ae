//! What the agent on a node reads: requests, its journal, packed programs.

use std::io::{self, Write};

use protocol::Request;
use protocol::validate::validate;
use windows_storage_agent::journal::Journal;
use windows_storage_agent::unpack;
use windows_storage_agent::wanted::{Observed, Wanted, plan};

/// A request: what is accepted has only files of the agent's folder, and one program with plain flags.
pub fn agent_request(bytes: &[u8]) {
    let Ok(request) = serde_json::from_slice::<Request>(bytes) else {
        return;
    };
    let text = serde_json::to_string(&request).unwrap();
    assert_eq!(serde_json::from_str::<Request>(&text).unwrap(), request);
    if validate(&request).is_err() {
        return;
    }
    let packed = request.packed.as_ref().map(|packed| &packed.path);
    for path in request.upload.iter().chain(packed) {
        let path = path.to_lowercase();
        // Neither out of the folder nor to a stream, a device or another name of the same file. Windows takes dots at
        // the end of a part for `..` or drops them; at its beginning, as in `..con`, they are of the name.
        let name = path
            .strip_prefix(r"c:\k\windows-storage\incoming\")
            .unwrap();
        assert!(!name.contains(':') && !name.contains('/'), "{path}");
        let mut parts = name.split('\\');
        let is_literal = |part: &str| !part.is_empty() && !part.ends_with(['.', ' ']);
        assert!(parts.all(is_literal), "{path}");
    }
    let command = request.command();
    let mut words = command.split(' ');
    assert_eq!(words.next(), Some(r"C:\k\csi-proxy.exe"));
    assert!(words.all(|word| word.starts_with('-')), "{command}");
    assert!(!command.contains(['"', '\t', '\n', '\0']), "{command}");
    let _ = plan(&Wanted::of(&request), &Observed::default());
}

/// The journal that an agent finds: there is a way to go on or back from whatever it says.
pub fn journal(bytes: &[u8]) {
    let Ok(journal) = serde_json::from_slice::<Journal>(bytes) else {
        return;
    };
    let text = serde_json::to_string(&journal).unwrap();
    assert_eq!(serde_json::from_str::<Journal>(&text).unwrap(), journal);
    let _ = journal.bad_end(journal.recovery(), Some("a".to_owned()));
    let (request, before) = (&journal.request, &journal.before);
    let sums = [None, Some("0"), before.sha256.as_deref()];
    for current in sums {
        for set_aside in sums {
            let (back, _) = Wanted::before(request, before, None, current, set_aside);
            let node = Observed {
                sha256: current.map(str::to_owned),
                from_sha256: set_aside.map(str::to_owned),
                ..Observed::default()
            };
            assert!(plan(&back, &node).is_ok(), "{back:?}");
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
    let content = Bounded { left: size };
    assert!(unpack::unpack(packed, content, size, "no sum").is_err());
}
