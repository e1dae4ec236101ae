//! Logins to OpenSSH's own server, with keys that its own tools and OpenSSL have made.

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use testbed::cleanup::Guardian;
use zeroize::Zeroizing;

use crate::index::Secret;
use crate::node::{NodeError, PASSPHRASE, PRIVATE_KEY, Reason, Session, check_private_key};

const WORDS: &str = "correct horse";

/// A real sshd for the account that runs the tests.
struct Server {
    guardian: Guardian,
    sshd: Child,
    port: u16,
    user: String,
}

impl Drop for Server {
    fn drop(&mut self) {
        // The guardian ends it too, whatever becomes of this.
        let _ = Guardian::stop(&mut self.sshd);
    }
}

fn run(program: &str, folder: &Path, arguments: &[&str]) -> String {
    let output = Command::new(program)
        .args(arguments)
        .current_dir(folder)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{program} {arguments:?}: {output:?}"
    );
    String::from_utf8(output.stdout).unwrap()
}

impl Server {
    fn start(config: &str) -> Self {
        let guardian = Guardian::temp("sshd").unwrap();
        let folder = guardian.dir().to_owned();
        let user = run("id", &folder, &["-un"]).trim().to_owned();
        if user == "root" {
            // sshd asks for it; where it never ran as a service nobody made it.
            fs::create_dir_all("/run/sshd").unwrap();
        }
        run(
            "ssh-keygen",
            &folder,
            &["-q", "-N", "", "-t", "rsa", "-b", "2048", "-f", "host"],
        );
        fs::write(folder.join("authorized_keys"), "").unwrap();
        let path = |file: &str| folder.join(file).display().to_string();
        // Free at this moment; where somebody else takes it, sshd ends and the test with it.
        let port = TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap()
            .port();
        let text = format!(
            "ListenAddress 127.0.0.1:{port}\nHostKey {}\nAuthorizedKeysFile {}\nForceCommand echo in\nPidFile none\n\
             StrictModes no\nUsePAM no\nPermitRootLogin prohibit-password\nPasswordAuthentication no\n\
             UseDNS no\nMaxStartups 1000\n{config}\n",
            path("host"),
            path("authorized_keys")
        );
        fs::write(folder.join("sshd_config"), text).unwrap();
        let mut sshd = guardian
            .command(Path::new("/usr/sbin/sshd"))
            .args(["-D", "-e", "-f"])
            .arg(folder.join("sshd_config"))
            .stdin(Stdio::null())
            .stderr(fs::File::create(folder.join("log")).unwrap())
            .spawn()
            .unwrap();
        let started = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            let ended = sshd.try_wait().unwrap();
            let log = || fs::read_to_string(folder.join("log")).unwrap();
            assert!(ended.is_none(), "{}", log());
            assert!(started.elapsed() < Duration::from_secs(20), "{}", log());
            std::thread::yield_now();
        }
        Self {
            guardian,
            sshd,
            port,
            user,
        }
    }

    /// Lets that public key in, and nothing else.
    fn authorize(&self, public: &str) {
        fs::write(self.guardian.dir().join("authorized_keys"), public).unwrap();
    }

    fn shake_hands(&self) -> Result<Session, NodeError> {
        let stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        Session::shake_hands(stream, "the server", &[]).map(|(session, _)| session)
    }

    fn log_in(&self, text: &[u8], passphrase: Option<&str>) -> Result<Session, NodeError> {
        let mut data = [(PRIVATE_KEY.to_owned(), Zeroizing::new(text.to_vec()))].to_vec();
        if let Some(passphrase) = passphrase {
            let bytes = Zeroizing::new(format!("{passphrase}\n").into_bytes());
            data.push((PASSPHRASE.to_owned(), bytes));
        }
        let secret = Secret {
            data: data.into_iter().collect(),
        };
        let key = check_private_key(Some(&secret), "ns")?;
        let session = self.shake_hands()?;
        session.login(&self.user, &key)?;
        Ok(session)
    }

    fn login(&self, text: &[u8], passphrase: Option<&str>) -> Result<String, NodeError> {
        let mut session = self.log_in(text, passphrase)?;
        let output = session.run("whatever", Duration::from_secs(60))?;
        Ok(output.stdout)
    }
}

/// A key as `ssh-keygen` writes it, and how OpenSSL would write it in other formats.
fn made(
    folder: &Path,
    number: usize,
    kind: &[&str],
    format: &str,
    passphrase: &str,
) -> (Vec<u8>, String) {
    let file = format!("key-{number}");
    let keygen = [kind, &["-q", "-a", "2", "-C", "x", "-f", &file]].concat();
    let new = |more: &[&str]| run("ssh-keygen", folder, &[&keygen, more].concat());
    match format {
        "OpenSSH" => drop(new(&["-N", passphrase])),
        // PKCS#1 for RSA, SEC1 for ECDSA.
        "PEM" => drop(new(&["-N", passphrase, "-m", "PEM"])),
        "PKCS8" => drop(new(&["-N", passphrase, "-m", "PKCS8"])),
        other => panic!("{other}"),
    }
    let text = fs::read(folder.join(&file)).unwrap();
    let public = fs::read_to_string(folder.join(format!("{file}.pub"))).unwrap();
    (text, public)
}

#[test]
fn every_kind_of_key_logs_in_with_and_without_passphrase() {
    let server = Server::start("");
    let folder = server.guardian.dir();
    let rsa: &[&str] = &["-t", "rsa", "-b", "2048"];
    let cases: [(&[&str], &str); 11] = [
        (rsa, "OpenSSH"),
        (rsa, "PEM"),
        (rsa, "PKCS8"),
        (&["-t", "ecdsa", "-b", "256"], "OpenSSH"),
        (&["-t", "ecdsa", "-b", "256"], "PEM"),
        (&["-t", "ecdsa", "-b", "256"], "PKCS8"),
        (&["-t", "ecdsa", "-b", "384"], "OpenSSH"),
        (&["-t", "ecdsa", "-b", "384"], "PKCS8"),
        (&["-t", "ecdsa", "-b", "521"], "OpenSSH"),
        (&["-t", "ecdsa", "-b", "521"], "PEM"),
        (&["-t", "ed25519"], "OpenSSH"),
    ];
    for (number, (kind, format)) in cases.into_iter().enumerate() {
        let case = format!("{kind:?} {format}");
        let (open, public) = made(folder, 2 * number, kind, format, "");
        server.authorize(&public);
        assert_eq!(server.login(&open, None).unwrap(), "in\n", "{case}");
        assert_eq!(
            server.login(&open, Some("not needed")).unwrap(),
            "in\n",
            "{case}"
        );

        let (closed, public) = made(folder, 2 * number + 1, kind, format, WORDS);
        server.authorize(&public);
        assert_eq!(
            server.login(&closed, Some(WORDS)).unwrap(),
            "in\n",
            "{case} encrypted"
        );
        for (given, words) in [(None, "has none"), (Some("wrong"), "not opened by")] {
            let error = server.login(&closed, given).unwrap_err();
            assert_eq!(
                error.reason,
                Reason::InvalidPrivateKey,
                "{case} {given:?}: {error}"
            );
            assert!(error.message.contains(words), "{case} {given:?}: {error}");
        }
    }
}

#[test]
fn an_ed25519_key_of_openssl_logs_in() {
    let server = Server::start("");
    let folder = server.guardian.dir();
    run(
        "openssl",
        folder,
        &["genpkey", "-algorithm", "ed25519", "-out", "open"],
    );
    let pass = format!("pass:{WORDS}");
    run(
        "openssl",
        folder,
        &[
            "pkcs8", "-topk8", "-in", "open", "-out", "closed", "-passout", &pass,
        ],
    );
    // ssh-keygen before version 9.6 does not read this format: the public key's last 32 bytes are the key itself.
    let pem = fs::read(folder.join("open")).unwrap();
    let raw = openssl::pkey::PKey::private_key_from_pem(&pem)
        .unwrap()
        .raw_public_key()
        .unwrap();
    let mut blob = b"\0\0\0\x0bssh-ed25519\0\0\0\x20".to_vec();
    blob.extend(raw);
    server.authorize(&format!(
        "ssh-ed25519 {}\n",
        openssl::base64::encode_block(&blob)
    ));
    assert_eq!(server.login(&pem, None).unwrap(), "in\n");
    let closed = fs::read(folder.join("closed")).unwrap();
    assert_eq!(server.login(&closed, Some(WORDS)).unwrap(), "in\n");
    let error = server.login(&closed, Some("wrong")).unwrap_err();
    assert_eq!(error.reason, Reason::InvalidPrivateKey);
}

#[test]
fn a_server_with_only_weak_algorithms_is_refused() {
    for (config, weak) in [
        ("KexAlgorithms diffie-hellman-group14-sha1", true),
        ("Ciphers aes128-cbc,3des-cbc", true),
        ("Ciphers aes128-ctr\nMACs hmac-sha1", true),
        ("HostKeyAlgorithms ssh-rsa", true),
        ("Ciphers aes128-ctr\nMACs hmac-sha2-256", false),
        ("HostKeyAlgorithms rsa-sha2-256", false),
    ] {
        let server = Server::start(config);
        match server.shake_hands() {
            Ok(_) => assert!(!weak, "{config} was agreed on"),
            Err(error) => {
                assert!(weak, "{config}: {error}");
                assert_eq!(error.reason, Reason::Unreachable);
                assert!(
                    error.message.contains("no safe algorithms"),
                    "{config}: {error}"
                );
            }
        }
    }
}

#[test]
fn a_server_without_sftp_is_called_so() {
    let server = Server::start("");
    let (key, public) = made(server.guardian.dir(), 0, &["-t", "ed25519"], "OpenSSH", "");
    server.authorize(&public);
    let mut session = server.log_in(&key, None).unwrap();
    let error = session.upload("file", b"content").unwrap_err();
    assert_eq!(error.reason, Reason::TransferFailed);
    assert!(error.message.contains("Subsystem sftp"), "{error}");
}
