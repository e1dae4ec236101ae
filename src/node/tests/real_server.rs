//! Logins to OpenSSH's own server, with keys from its own tools and from OpenSSL.

use std::fs;
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use testbed::cleanup::Guardian;
use testbed::control_plane::free_addresses;
use zeroize::Zeroizing;

use crate::api::PrivateKeySecretRef;
use crate::index::Secret;
use crate::node::{HostKey, NodeError, PrivateKey, Reason, Session, check_private_key};

const WORDS: &str = "correct-horse";

/// A real sshd, run by the account that runs the tests.
struct Server {
    guardian: Guardian,
    sshd: Child,
    port: u16,
    user: String,
}

impl Drop for Server {
    fn drop(&mut self) {
        // The guardian also stops it, whatever happens here.
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
            // sshd requires this folder, which does not exist if it never ran as a service.
            fs::create_dir_all("/run/sshd").unwrap();
        }
        generate(&folder, "host", &["-t", "rsa", "-b", "2048"], "");
        fs::write(folder.join("authorized_keys"), "").unwrap();
        let path = |file: &str| folder.join(file).display().to_string();
        let (key, authorized) = (path("host"), path("authorized_keys"));
        let [address] = free_addresses().unwrap();
        let text = format!(
            "ListenAddress {address}\nHostKey {key}\nAuthorizedKeysFile {authorized}\nForceCommand echo in\nPidFile none\n\
             StrictModes no\nUsePAM no\nPermitRootLogin prohibit-password\nPasswordAuthentication no\n\
             UseDNS no\nMaxStartups 1000\n{config}\n"
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
        let log = || fs::read_to_string(folder.join("log")).unwrap();
        // What accepts connections there may be another process that has taken the port.
        while !log().contains("Server listening on") {
            let ended = sshd.try_wait().unwrap();
            assert!(ended.is_none(), "{}", log());
            assert!(started.elapsed() < Duration::from_secs(120), "{}", log());
            std::thread::sleep(Duration::from_millis(5));
        }
        Self {
            guardian,
            sshd,
            port: address.port(),
            user,
        }
    }

    /// Authorizes only this public key.
    fn authorize(&self, public: &str) {
        fs::write(self.guardian.dir().join("authorized_keys"), public).unwrap();
    }

    fn shake_hands(&self) -> Result<Session, NodeError> {
        let stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        Session::shake_hands(stream, "the server", &[])
    }

    fn log_in(&self, text: &[u8], passphrase: Option<&str>) -> Result<Session, NodeError> {
        let passphrase = passphrase.map(|words| ("passphrase", format!("{words}\n").into_bytes()));
        let data = [("private-key.pem", text.to_vec())]
            .into_iter()
            .chain(passphrase);
        let data = data.map(|(name, bytes)| (name.to_owned(), Zeroizing::new(bytes)));
        let secret = Secret::Data(data.collect());
        let key = check_private_key(Some(&secret), "ns", &PrivateKeySecretRef::default())?;
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

/// Generates a key with `ssh-keygen`; returns it with its public half.
fn generate(folder: &Path, file: &str, options: &[&str], passphrase: &str) -> (Vec<u8>, String) {
    let common = ["-q", "-a", "2", "-C", "x", "-f", file, "-N", passphrase];
    run("ssh-keygen", folder, &[&common, options].concat());
    let text = fs::read(folder.join(file)).unwrap();
    let public = fs::read_to_string(folder.join(format!("{file}.pub"))).unwrap();
    (text, public)
}

#[test]
fn every_kind_of_key_logs_in_with_and_without_passphrase() {
    let server = Server::start("");
    let folder = server.guardian.dir();
    // Other formats than OpenSSH's own are PKCS#1 for RSA, SEC1 for ECDSA, and PKCS#8.
    for (number, options) in [
        "-t rsa -b 2048",
        "-t rsa -b 2048 -m PEM",
        "-t rsa -b 2048 -m PKCS8",
        "-t ecdsa -b 256",
        "-t ecdsa -b 256 -m PEM",
        "-t ecdsa -b 256 -m PKCS8",
        "-t ecdsa -b 384",
        "-t ecdsa -b 384 -m PKCS8",
        "-t ecdsa -b 521",
        "-t ecdsa -b 521 -m PEM",
        "-t ed25519",
    ]
    .into_iter()
    .enumerate()
    {
        let made = |file: &str, passphrase| {
            let options: Vec<&str> = options.split(' ').collect();
            let (text, public) = generate(folder, file, &options, passphrase);
            server.authorize(&public);
            text
        };
        let open = made(&format!("open-{number}"), "");
        for given in [None, Some("not needed")] {
            assert_eq!(server.login(&open, given).unwrap(), "in\n", "{options}");
        }
        let closed = made(&format!("closed-{number}"), WORDS);
        let login = server.login(&closed, Some(WORDS));
        assert_eq!(login.unwrap(), "in\n", "{options} encrypted");
        for (given, words) in [(None, "none is given"), (Some("wrong"), "not opened by")] {
            let error = server.login(&closed, given).unwrap_err();
            assert_eq!(
                error.reason,
                Reason::InvalidPrivateKey,
                "{options}: {error}"
            );
            assert!(
                error.message.contains(words),
                "{options} {given:?}: {error}"
            );
        }
    }
}

#[test]
fn an_ed25519_key_of_openssl_logs_in() {
    let server = Server::start("");
    let folder = server.guardian.dir();
    let openssl = |arguments: &str| {
        let arguments: Vec<&str> = arguments.split(' ').collect();
        run("openssl", folder, &arguments)
    };
    openssl("genpkey -algorithm ed25519 -out open");
    openssl(&format!(
        "pkcs8 -topk8 -in open -out closed -passout pass:{WORDS}"
    ));
    // ssh-keygen before version 9.6 does not read this format: the public key's last 32 bytes are the key itself.
    let pem = fs::read(folder.join("open")).unwrap();
    let key = openssl::pkey::PKey::private_key_from_pem(&pem).unwrap();
    let mut blob = b"\0\0\0\x0bssh-ed25519\0\0\0\x20".to_vec();
    blob.extend(key.raw_public_key().unwrap());
    server.authorize(&HostKey::new("ssh-ed25519", &blob).to_string());
    assert_eq!(server.login(&pem, None).unwrap(), "in\n");
    let closed = fs::read(folder.join("closed")).unwrap();
    assert_eq!(server.login(&closed, Some(WORDS)).unwrap(), "in\n");
    let error = server.login(&closed, Some("wrong")).unwrap_err();
    assert_eq!(error.reason, Reason::InvalidPrivateKey);
}

#[test]
fn while_a_key_is_changed_hosts_may_take_either() {
    let server = Server::start("");
    let folder = server.guardian.dir();
    let (old, old_public) = generate(folder, "old", &["-t", "rsa", "-b", "2048"], "");
    let (new, new_public) = generate(folder, "new", &["-t", "ed25519"], "words");
    let (other, _) = generate(folder, "other", &["-t", "ed25519"], "");
    let key = |previous: &[u8]| {
        let data = [
            ("private-key.pem", new.clone()),
            ("passphrase", b"words".to_vec()),
            ("private-key.pem.previous", previous.to_vec()),
        ];
        let data = data.map(|(name, bytes)| (name.to_owned(), Zeroizing::new(bytes)));
        let secret = Secret::Data(data.into());
        check_private_key(Some(&secret), "ns", &PrivateKeySecretRef::default()).unwrap()
    };
    let login = |key: &PrivateKey| {
        let session = server.shake_hands()?;
        session.login(&server.user, key).map(str::to_owned)
    };
    let with_old = key(&old);
    server.authorize(&old_public);
    let previous = with_old.previous().unwrap().unwrap();
    assert_eq!(login(&with_old).unwrap(), previous.id());
    let refused = login(&key(&other)).unwrap_err();
    assert_eq!(refused.reason, Reason::LoginRefused);
    server.authorize(&format!("{old_public}{new_public}"));
    assert_eq!(login(&with_old).unwrap(), with_old.id());
    assert_ne!(with_old.id(), previous.id());
    // An unusable old key is reported, but does not prevent logins with the new one.
    let damaged = key(b"-----BEGIN nothing");
    assert_eq!(login(&damaged).unwrap(), with_old.id());
    let problem = damaged.previous().unwrap().unwrap_err();
    assert_eq!(problem.reason, Reason::InvalidPrivateKey);
    let named = "key private-key.pem.previous of Secret";
    assert!(problem.message.starts_with(named), "{problem}");
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
                assert_eq!(error.reason, Reason::Unreachable);
                let is_said = error.message.contains("no safe algorithms");
                assert!(weak && is_said, "{config}: {error}");
            }
        }
    }
}

#[test]
fn a_server_without_sftp_is_called_so() {
    let server = Server::start("");
    let (key, public) = generate(server.guardian.dir(), "key", &["-t", "ed25519"], "");
    server.authorize(&public);
    let mut session = server.log_in(&key, None).unwrap();
    let error = session.upload("file", b"content").unwrap_err();
    assert_eq!(error.reason, Reason::TransferFailed);
    assert!(error.message.contains("Subsystem sftp"), "{error}");
}
