//! Checks how a named pipe with an answering server differs from one of which only the name exists.

use std::fs::File;
use std::io::{self, Read, Write};
use std::thread;
use std::time::{Duration, Instant};

use windows_storage_agent::probe::Probe;
use windows_sys::Win32::Storage::FileSystem::FILE_FLAG_FIRST_PIPE_INSTANCE;

use crate::lab::{ANY, Attempt};
use crate::windows::pipes::{Listener, connect, instance};
use crate::windows::probe;

const NAME: &str = "windows-storage-verify";
const PATH: &str = r"\\.\pipe\windows-storage-verify";
/// The first bytes that a grpc-go server sends.
const GREETING: [u8; 15] = [0, 0, 6, 4, 0, 0, 0, 0, 0, 0, 5, 0, 0, 64, 0];

pub const ALL: &[Attempt] = &[
    ("pipe.absent", "closed", |_| Ok(probed(NAME))),
    ("pipe.server-greets", "greets, own process", |_| {
        served(&GREETING)
    }),
    ("pipe.server-is-silent", "silent, own process", |_| {
        served(&[])
    }),
    ("pipe.all-instances-taken", "busy", |_| {
        let _server = instance(PATH, FILE_FLAG_FIRST_PIPE_INSTANCE, 0)?;
        let _client = client()?;
        Ok(probed(NAME))
    }),
    ("pipe.second-first-instance", "error 5", |_| {
        let _first = instance(PATH, FILE_FLAG_FIRST_PIPE_INSTANCE, 0)?;
        instance(PATH, FILE_FLAG_FIRST_PIPE_INSTANCE, 0)?;
        Ok("made".to_owned())
    }),
    ("pipe.name-kept-by-a-client", ANY, |_| {
        let server = instance(PATH, FILE_FLAG_FIRST_PIPE_INSTANCE, 0)?;
        let _client = client()?;
        drop(server);
        Ok(probed(NAME))
    }),
    ("pipe.server-again-beside-a-client", ANY, |_| {
        let server = instance(PATH, FILE_FLAG_FIRST_PIPE_INSTANCE, 0)?;
        let _client = client()?;
        drop(server);
        instance(PATH, FILE_FLAG_FIRST_PIPE_INSTANCE, 0)?;
        Ok("made".to_owned())
    }),
];

fn client() -> io::Result<File> {
    connect(PATH, Instant::now() + Duration::from_secs(1))
}

fn probed(name: &str) -> String {
    let names = [name.to_owned()];
    let probes = probe::all(names.iter(), Duration::from_secs(1));
    let server = |id: Option<u32>| match id {
        Some(id) if id == std::process::id() => "own process",
        Some(_) => "another process",
        None => "process not known",
    };
    match probes.get(name) {
        None | Some(Probe::Closed) => "closed".to_owned(),
        Some(Probe::Kept) => "name kept".to_owned(),
        Some(Probe::Busy) => "busy".to_owned(),
        Some(Probe::Silent(id)) => format!("silent, {}", server(*id)),
        Some(Probe::Greets(id)) => format!("greets, {}", server(*id)),
    }
}

/// Returns what probing finds where a server accepts a client and sends these bytes, without a buffer as csi-proxy does.
fn served(says: &'static [u8]) -> io::Result<String> {
    let mut listener = Listener::with_buffer(0)?;
    let name = listener.path().trim_start_matches(r"\\.\pipe\").to_owned();
    let server = thread::spawn(move || {
        let mut client = listener.accept()?;
        client.write_all(says)?;
        // Wait until the client has closed the pipe.
        client.read_to_end(&mut Vec::new())
    });
    let seen = probed(&name);
    let _ = server.join();
    Ok(seen)
}
