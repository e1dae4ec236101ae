//! The part of SFTP version 3 that uploads and reads files, on a simulated disk, as Windows' own server implements it.
//!
//! Source: draft-ietf-secsh-filexfer-02.

use std::collections::BTreeMap;

use super::disk::{Disk, Refusal};
use super::profile::Profile;
use super::sharing::Access;

const INIT: u8 = 1;
const VERSION: u8 = 2;
const OPEN: u8 = 3;
const CLOSE: u8 = 4;
const READ: u8 = 5;
const WRITE: u8 = 6;
const LSTAT: u8 = 7;
const FSTAT: u8 = 8;
const OPENDIR: u8 = 11;
const READDIR: u8 = 12;
const REMOVE: u8 = 13;
const MKDIR: u8 = 14;
const RMDIR: u8 = 15;
const STAT: u8 = 17;
const STATUS: u8 = 101;
const HANDLE: u8 = 102;
const DATA: u8 = 103;
const NAME: u8 = 104;
const ATTRS: u8 = 105;

const OK: u32 = 0;
const END: u32 = 1;
const NO_SUCH_FILE: u32 = 2;
const PERMISSION_DENIED: u32 = 3;
const FAILURE: u32 = 4;
const BAD_MESSAGE: u32 = 5;
const UNSUPPORTED: u32 = 8;
/// Flag of OPEN.
const OPEN_WRITE: u32 = 2;
/// Maximum bytes that one read returns, in all versions (`process_read` in `sftp-server.c`).
const MOST_READ: u32 = 100 * 1024;
/// Requests that start with a path.
const WITH_PATH: [u8; 7] = [OPEN, STAT, LSTAT, OPENDIR, REMOVE, MKDIR, RMDIR];
/// Longer than any packet that a client sends.
const LONGEST: usize = 256 * 1024;

/// One SFTP channel.
#[derive(Debug)]
pub struct Sftp {
    profile: Profile,
    received: Vec<u8>,
    handles: BTreeMap<u32, Opened>,
    /// Names of opened folders that have not been returned yet.
    names: BTreeMap<u32, Vec<String>>,
    opened: u32,
}

#[derive(Debug)]
struct Opened {
    path: String,
    /// The disk's handle; `None` for a folder.
    on_disk: Option<u64>,
}

/// One request packet.
#[derive(Debug)]
pub struct Packet(Vec<u8>);

impl Packet {
    /// Returns the name of the request.
    pub fn name(&self) -> &'static str {
        match self.0.first() {
            Some(&INIT) => "sftp init",
            Some(&OPEN) if self.opens_to_write() => "sftp open",
            Some(&OPEN) => "sftp open to read",
            Some(&READ) => "sftp read",
            Some(&FSTAT) => "sftp fstat",
            Some(&OPENDIR) => "sftp opendir",
            Some(&READDIR) => "sftp readdir",
            Some(&CLOSE) => "sftp close",
            Some(&WRITE) => "sftp write",
            Some(&(STAT | LSTAT)) => "sftp stat",
            Some(&REMOVE) => "sftp remove",
            Some(&MKDIR) => "sftp mkdir",
            Some(&RMDIR) => "sftp rmdir",
            _ => "sftp other",
        }
    }

    fn opens_to_write(&self) -> bool {
        let mut rest = &self.0[1..];
        let flags = number(&mut rest).and_then(|_| {
            path(&mut rest)?;
            number(&mut rest)
        });
        flags.is_some_and(|flags| flags & OPEN_WRITE != 0)
    }
}

impl Sftp {
    /// Creates a channel of this version's server.
    pub fn new(profile: Profile) -> Self {
        Self {
            profile,
            received: Vec::new(),
            handles: BTreeMap::new(),
            names: BTreeMap::new(),
            opened: 0,
        }
    }

    /// Ends the channel and closes all open files.
    pub fn end(&mut self, disk: &mut Disk) {
        let opened = std::mem::take(&mut self.handles).into_values();
        for opened in opened.filter_map(|opened| opened.on_disk) {
            disk.close(opened);
        }
    }

    /// Adds received bytes.
    pub fn receive(&mut self, data: &[u8]) {
        self.received.extend_from_slice(data);
    }

    /// Returns the next complete request, or `Err` for an impossible length, which ends the channel.
    pub fn next(&mut self) -> Result<Option<Packet>, ()> {
        let Some((length, rest)) = self.received.split_first_chunk::<4>() else {
            return Ok(None);
        };
        let length = u32::from_be_bytes(*length) as usize;
        if length == 0 || length > LONGEST {
            return Err(());
        }
        if rest.len() < length {
            return Ok(None);
        }
        let packet = rest[..length].to_vec();
        self.received.drain(..4 + length);
        Ok(Some(Packet(packet)))
    }

    /// Carries out a request and returns the bytes of the answer.
    pub fn carry_out(&mut self, disk: &mut Disk, packet: &Packet) -> Vec<u8> {
        let (kind, mut rest) = (packet.0[0], &packet.0[1..]);
        if kind == INIT {
            return framed(&[VERSION, 0, 0, 0, 3]);
        }
        let id = number(&mut rest).unwrap_or_default();
        let answer = self
            .answer(disk, kind, &mut rest, id)
            .unwrap_or_else(|| status(id, BAD_MESSAGE));
        framed(&answer)
    }

    fn answer(&mut self, disk: &mut Disk, kind: u8, rest: &mut &[u8], id: u32) -> Option<Vec<u8>> {
        let done = |result: Result<(), Refusal>| status(id, result.map_or_else(code, |()| OK));
        if WITH_PATH.contains(&kind) {
            let path = path(&mut &**rest)?;
            if path.chars().count() > self.profile.longest_path {
                return Some(status(id, BAD_MESSAGE));
            }
        }
        Some(match kind {
            OPEN => {
                let path = path(rest)?;
                let access = if number(rest)? & OPEN_WRITE == 0 {
                    Access::SFTP_READ
                } else {
                    Access::sftp_write(self.profile)
                };
                match disk.open(&path, access) {
                    Ok(opened) => self.open(id, path, Some(opened)),
                    Err(refusal) => status(id, code(refusal)),
                }
            }
            CLOSE => {
                let handle = handle(rest)?;
                self.names.remove(&handle);
                match self.handles.remove(&handle) {
                    Some(opened) => {
                        opened.on_disk.map(|opened| disk.close(opened));
                        status(id, OK)
                    }
                    None => status(id, FAILURE),
                }
            }
            WRITE => {
                let handle = handle(rest)?;
                let offset = (u64::from(number(rest)?) << 32) | u64::from(number(rest)?);
                let data = text(rest)?;
                match self.handles.get(&handle) {
                    Some(opened) => done(disk.write(&opened.path, offset, data)),
                    None => status(id, FAILURE),
                }
            }
            STAT | LSTAT => attributes(disk, &path(rest)?, id),
            FSTAT => match self.handles.get(&handle(rest)?) {
                Some(opened) => attributes(disk, &opened.path, id),
                None => status(id, FAILURE),
            },
            READ => {
                let handle = handle(rest)?;
                let offset = (u64::from(number(rest)?) << 32) | u64::from(number(rest)?);
                let most = number(rest)?.min(MOST_READ);
                let opened = self.handles.get(&handle);
                let file = opened.and_then(|opened| disk.file(&opened.path));
                let part = file.map(|file| file.read(offset, most));
                match part {
                    Some(part) if part.is_empty() => status(id, END),
                    Some(part) => {
                        let mut answer = started(DATA, id);
                        put_text(&mut answer, &part);
                        answer
                    }
                    None => status(id, FAILURE),
                }
            }
            OPENDIR => {
                let path = path(rest)?;
                match disk.names(&path) {
                    Some(names) => {
                        let answer = self.open(id, path, None);
                        self.names.insert(self.opened, names);
                        answer
                    }
                    None => status(id, code(Refusal::NotFound)),
                }
            }
            READDIR => self.next_names(disk, handle(rest)?, id),
            REMOVE => done(disk.remove(&path(rest)?)),
            MKDIR => done(disk.make_folder(&path(rest)?)),
            RMDIR => done(disk.remove_folder(&path(rest)?)),
            _ => status(id, UNSUPPORTED),
        })
    }

    /// Returns all names in one answer, then the end.
    fn next_names(&mut self, disk: &Disk, handle: u32, id: u32) -> Vec<u8> {
        let (Some(Opened { path: folder, .. }), Some(names)) =
            (self.handles.get(&handle), self.names.get_mut(&handle))
        else {
            return status(id, FAILURE);
        };
        if names.is_empty() {
            return status(id, END);
        }
        let names = std::mem::take(names);
        let mut answer = started(NAME, id);
        let count = u32::try_from(names.len()).unwrap_or(u32::MAX);
        answer.extend(count.to_be_bytes());
        for name in names {
            put_text(&mut answer, name.as_bytes());
            put_text(&mut answer, name.as_bytes());
            answer.extend(attributes_of(disk, &format!("{folder}/{name}")).unwrap_or_default());
        }
        answer
    }

    fn open(&mut self, id: u32, path: String, on_disk: Option<u64>) -> Vec<u8> {
        self.opened += 1;
        self.handles.insert(self.opened, Opened { path, on_disk });
        let mut answer = started(HANDLE, id);
        put_text(&mut answer, &self.opened.to_be_bytes());
        answer
    }
}

fn attributes(disk: &Disk, path: &str, id: u32) -> Vec<u8> {
    match attributes_of(disk, path) {
        Some(attributes) => {
            let mut answer = started(ATTRS, id);
            answer.extend(attributes);
            answer
        }
        None => status(id, code(Refusal::NotFound)),
    }
}

fn attributes_of(disk: &Disk, path: &str) -> Option<Vec<u8>> {
    /// Flags: a size, permissions and two times follow.
    const SIZE_PERMISSIONS_TIMES: u32 = 1 | 4 | 8;
    let (size, mode, time) = match disk.file(path) {
        Some(file) => (file.size(), 0o100_644_u32, file.time()),
        None if disk.is_folder(path) => (0, 0o040_755, 0),
        None => return None,
    };
    let mut attributes = SIZE_PERMISSIONS_TIMES.to_be_bytes().to_vec();
    attributes.extend(size.to_be_bytes());
    attributes.extend(mode.to_be_bytes());
    attributes.extend(time.to_be_bytes());
    attributes.extend(time.to_be_bytes());
    Some(attributes)
}

/// Returns the status code for a Windows error: `errno_from_Win32Error` in Win32-OpenSSH's `fileio.c` passes on errors
/// that it does not know, and `errno_to_portable` in `sftp-server.c` treats those as a failure.
fn code(refusal: Refusal) -> u32 {
    match refusal {
        Refusal::NotFound => NO_SUCH_FILE,
        Refusal::Denied => PERMISSION_DENIED,
        Refusal::Shared | Refusal::Exists | Refusal::Full | Refusal::Nonsense => FAILURE,
    }
}

fn started(kind: u8, id: u32) -> Vec<u8> {
    let mut answer = vec![kind];
    answer.extend(id.to_be_bytes());
    answer
}

fn status(id: u32, code: u32) -> Vec<u8> {
    let mut answer = started(STATUS, id);
    answer.extend(code.to_be_bytes());
    put_text(&mut answer, b"");
    put_text(&mut answer, b"");
    answer
}

fn framed(answer: &[u8]) -> Vec<u8> {
    let mut framed = Vec::with_capacity(answer.len() + 4);
    put_text(&mut framed, answer);
    framed
}

fn put_text(out: &mut Vec<u8>, text: &[u8]) {
    out.extend(u32::try_from(text.len()).unwrap_or(u32::MAX).to_be_bytes());
    out.extend_from_slice(text);
}

fn number(rest: &mut &[u8]) -> Option<u32> {
    let (number, after) = rest.split_first_chunk::<4>()?;
    *rest = after;
    Some(u32::from_be_bytes(*number))
}

fn text<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = number(rest)? as usize;
    let (text, after) = rest.split_at_checked(length)?;
    *rest = after;
    Some(text)
}

fn path(rest: &mut &[u8]) -> Option<String> {
    Some(String::from_utf8_lossy(text(rest)?).into_owned())
}

fn handle(rest: &mut &[u8]) -> Option<u32> {
    text(rest)?.try_into().ok().map(u32::from_be_bytes)
}
