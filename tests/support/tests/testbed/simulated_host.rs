//! Simulated hosts answer like real ones: the same script runs against the real agent, under Wine behind OpenSSH, and
//! against a simulated host, and the answers are compared.

use std::fs;
use std::io::{Read, Write};
use std::net::{IpAddr, TcpStream};
use std::path::Path;
use std::time::{Duration, Instant};

use protocol::paths::{AGENT_EXE, BOOTSTRAP_DIR, INCOMING_DIR, to_sftp};
use protocol::{Packed, Request};
use serde_json::{Value, json};
use simulated_host::{File, SimulatedFleet};
use ssh2::{ErrorCode, OpenFlags, OpenType, Session};
use testbed::parts::part;
use testbed::windows_host::Fleet;

const PIPE: &str = "csi-proxy-filesystem-v1";

/// A session and the answers so far.
struct Script {
    session: Session,
    answers: Vec<(String, Value)>,
}

impl Script {
    fn login(address: IpAddr, port: u16, user: &str, key: &str) -> Self {
        let mut session = Session::new().unwrap();
        session.set_timeout(120_000);
        session.set_tcp_stream(TcpStream::connect((address, port)).unwrap());
        session.handshake().unwrap();
        session
            .userauth_pubkey_memory(user, None, key, None)
            .unwrap();
        Self {
            session,
            answers: Vec::new(),
        }
    }

    fn note(&mut self, what: &str, answer: Value) {
        self.answers.push((what.to_owned(), answer));
    }

    /// Records the SFTP status of an operation: 0 for success.
    fn sftp(&mut self, what: &str, work: impl FnOnce(&ssh2::Sftp) -> Result<(), ssh2::Error>) {
        let sftp = self.session.sftp().unwrap();
        let code = match work(&sftp) {
            Ok(()) => 0,
            Err(error) => match error.code() {
                ErrorCode::SFTP(code) => code,
                ErrorCode::Session(code) => panic!("{what}: {code} {error}"),
            },
        };
        self.note(what, json!(code));
    }

    fn exists(&mut self, path: &str) {
        self.sftp(&format!("stat {path}"), |sftp| {
            sftp.stat(Path::new(path)).map(drop)
        });
    }

    fn upload(&mut self, path: &str, content: &[u8]) {
        self.sftp(&format!("upload {path}"), |sftp| {
            let flags = OpenFlags::WRITE | OpenFlags::CREATE | OpenFlags::TRUNCATE;
            let path = to_sftp(path);
            let mut file = sftp.open_mode(Path::new(&path), flags, 0o644, OpenType::File)?;
            file.write_all(content).unwrap();
            file.close()
        });
    }

    /// Runs a command and records its answer with its exit status.
    fn run(&mut self, command: &str) {
        let mut channel = self.session.channel_session().unwrap();
        channel.exec(command).unwrap();
        let mut text = String::new();
        channel.read_to_string(&mut text).unwrap();
        channel.wait_close().unwrap();
        let status = channel.exit_status().unwrap();
        let answer = serde_json::from_str(text.lines().last().unwrap_or_default());
        let answer = answer.map_or_else(
            // How a shell reports a missing program differs between shells.
            |_| json!({"answered": false, "success": status == 0}),
            |mut answer| {
                without_accidents(&mut answer);
                json!({"answer": answer, "status": status})
            },
        );
        self.note(command, answer);
    }

    fn apply(&mut self, request: &Request) {
        let path = format!(r"{INCOMING_DIR}\{}.json", request.id);
        self.upload(&path, &serde_json::to_vec(request).unwrap());
        self.run(&format!("{AGENT_EXE} apply --request {path} --timeout 100"));
    }
}

/// Removes process IDs and times, which differ from run to run, and messages, which may contain details of Windows.
fn without_accidents(answer: &mut Value) {
    match answer {
        Value::Object(fields) => {
            for accident in [
                "processId",
                "finished",
                "interruptionMilliseconds",
                "message",
            ] {
                fields.remove(accident);
            }
            fields.values_mut().for_each(without_accidents);
        }
        Value::Array(items) => items.iter_mut().for_each(without_accidents),
        _ => {}
    }
}

fn sha256(content: &[u8]) -> String {
    File::new(content).sha256()
}

fn request(id: &str, sha256: &str, upload: Option<&str>) -> Request {
    let flags = [
        r"-log_file=C:\var\log\csi-proxy\csi-proxy.log",
        "-logtostderr=false",
        "-windows-service",
        "-v=2",
    ];
    Request {
        id: id.to_owned(),
        attempt: String::new(),
        sha256: sha256.to_owned(),
        upload: upload.map(|name| format!(r"{INCOMING_DIR}\{name}")),
        packed: None,
        flags: flags.map(str::to_owned).to_vec(),
        replace_foreign: false,
        pipes: vec![PIPE.to_owned()],
        stop_timeout_seconds: 30,
        start_timeout_seconds: 60,
    }
}

/// Runs everything in the life of a node: a fresh install, a second check, an upgrade, a damaged file, a missing one.
fn live(script: &mut Script, agent: &[u8], old: &[u8], [new, packed]: [&[u8]; 2]) {
    let status = format!("{AGENT_EXE} status --pipe {PIPE}");
    let program = format!(r"{BOOTSTRAP_DIR}\agent.exe");
    let folder = to_sftp(BOOTSTRAP_DIR);
    script.run(&status);
    script.exists(&to_sftp(AGENT_EXE));
    script.exists("/C:/windows");
    script.upload(&program, agent);
    script.sftp("mkdir", |sftp| sftp.mkdir(Path::new(&folder), 0o755));
    script.sftp("mkdir again", |sftp| sftp.mkdir(Path::new(&folder), 0o755));
    script.upload(&program, agent);
    let to = to_sftp(&program);
    script.run(&format!(
        "{program} install --sha256 {}",
        sha256(b"another")
    ));
    script.exists(&to_sftp(AGENT_EXE));
    script.run(&format!("{program} install --sha256 {}", sha256(agent)));
    script.sftp("remove", |sftp| sftp.unlink(Path::new(&to)));
    script.sftp("remove again", |sftp| sftp.unlink(Path::new(&to)));
    script.run(&status);

    script.upload(&format!(r"{INCOMING_DIR}\old.part"), old);
    script.apply(&request("old", &sha256(old), Some("old.part")));
    script.exists(&to_sftp(&format!(r"{INCOMING_DIR}\old.part")));
    script.run(&status);
    script.apply(&request("old", &sha256(old), None));
    for (id, arrives) in [
        ("request-half", Some(&packed[..packed.len() / 2])),
        ("request-absent", None),
        ("request-packed", Some(packed)),
    ] {
        let path = format!(r"{INCOMING_DIR}\csi-proxy-{id}.zst");
        if let Some(arrives) = arrives {
            script.upload(&path, arrives);
        }
        let mut request = request(id, &sha256(new), Some("csi-proxy-unpacked.part"));
        request.packed = Some(Packed {
            path: path.clone(),
            unpacked_size: new.len() as u64,
        });
        script.apply(&request);
        for left in [path, format!(r"{INCOMING_DIR}\csi-proxy-unpacked.part")] {
            script.exists(&to_sftp(&left));
        }
        script.exists(&to_sftp(&format!(r"{INCOMING_DIR}\{id}.json")));
    }
    script.run(&status);
    script.upload(&format!(r"{INCOMING_DIR}\old.part"), old);
    script.apply(&request("old", &sha256(old), Some("old.part")));
    script.upload(&format!(r"{INCOMING_DIR}\new.part"), new);
    script.apply(&request("new", &sha256(new), Some("new.part")));
    script.run(&status);

    script.upload(&format!(r"{INCOMING_DIR}\torn.part"), &old[..old.len() / 2]);
    script.apply(&request("torn", &sha256(old), Some("torn.part")));
    script.apply(&request("gone", &sha256(old), Some("nothing.part")));
    script.apply(&request("unnamed", &sha256(old), None));
    script.run(&format!(
        r"{AGENT_EXE} apply --request {INCOMING_DIR}\nothing.json"
    ));
    script.run(&status);
}

#[test]
fn a_simulated_host_says_what_a_real_one_says() {
    let payload = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/payload");
    let agent = fs::read(payload.join("windows-storage-agent.exe")).unwrap();
    let old = fs::read(part("csi-proxy-1.1.3").unwrap()).unwrap();
    let new = fs::read(part("csi-proxy-1.3.0").unwrap()).unwrap();
    let packed = fs::read(payload.join("csi-proxy.exe.zst")).unwrap();

    let fleet = Fleet::new().unwrap();
    let host = fleet.add_host("real").unwrap();
    let key = fleet.private_key_openssh();
    let mut real = Script::login(host.address(), host.port(), fleet.user(), key);
    live(&mut real, &agent, &old, [&new, &packed]);

    let fleet = SimulatedFleet::new().unwrap();
    let host = fleet.add_host("simulated").unwrap();
    let key = fleet.private_key().unwrap();
    let mut simulated = Script::login(host.address(), host.port(), fleet.user(), &key);
    live(&mut simulated, &agent, &old, [&new, &packed]);

    assert_eq!(real.answers.len(), simulated.answers.len());
    let pairs = real.answers.iter().zip(&simulated.answers);
    let differences: Vec<_> = pairs
        .filter(|(real, simulated)| real != simulated)
        .collect();
    assert!(differences.is_empty(), "{differences:#?}");
}

/// As on Windows, where a session's job ends. What a killed program had just started would wait under Wine for ever.
#[test]
fn what_a_session_runs_ends_with_sshd() {
    let fleet = Fleet::new().unwrap();
    let host = fleet.add_host("host").unwrap();
    let key = fleet.private_key_openssh();
    let script = Script::login(host.address(), host.port(), fleet.user(), key);
    let inner = r"C:\windows\system32\cmd.exe /c for";
    let mut channel = script.session.channel_session().unwrap();
    channel
        .exec(&format!("{inner} /l %i in (1,0,2) do rem"))
        .unwrap();
    let begin = Instant::now();
    while host.processes_of(inner).unwrap().is_empty() {
        assert!(begin.elapsed() < Duration::from_secs(120));
    }
    host.stop_sshd().unwrap();
    assert_eq!(host.processes_of(inner).unwrap(), [0; 0]);
}
