//! Parses host keys that an administrator provides in OpenSSH's `known_hosts` format.
//!
//! Source of the format: `sshd(8)`, the section on the file's format, and OpenSSH's `hostfile.c`. Patterns
//! of hosts are left out: `ssh-keyscan` writes none.

use openssl::hash::MessageDigest;
use openssl::pkey::PKey;
use openssl::sign::Signer;

use crate::node::HostKey;

/// The key in the ConfigMap for `known_hosts` lines. No node can have this name, because it contains an underscore.
pub const KNOWN_HOSTS: &str = "known_hosts";
const DEFAULT_PORT: u16 = 22;
/// What is wrong with a line that is ignored.
const LINE: &str = "it is not the name or address of a host, or several with commas and without patterns, and then the type and the key \
    of the host; @revoked may stand in front, and authorities of host certificates are not supported";

const KEY: &str = "its key is not base64, or not of the type that it names";

/// Lines of a `known_hosts` file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KnownHosts {
    lines: Vec<(Hosts, HostKey)>,
    revoked: Vec<HostKey>,
    /// Ignored lines, each with its number and what a line has to be, to be reported once.
    pub ignored: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Hosts {
    Names(Vec<String>),
    /// Salt and HMAC-SHA1 of one name.
    Hashed(Vec<u8>, Vec<u8>),
}

/// What the lines say about a host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Known {
    /// Keys that the host may show.
    pub keys: Vec<HostKey>,
    /// Keys that no host may show, whatever else is listed: somebody else may have them.
    pub revoked: Vec<HostKey>,
}

impl KnownHosts {
    /// Parses lines. An invalid line is ignored and named, so that the other lines still protect.
    pub fn parse(text: &str) -> Self {
        let mut known = Self::default();
        for (number, line) in (1..).zip(text.lines()) {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            if let Err(why) = known.add(line) {
                known.ignored.push(format!("line {number}: {why}"));
            }
        }
        known
    }

    fn add(&mut self, line: &str) -> Result<(), &'static str> {
        let mut words = line.split_whitespace().peekable();
        let is_revoked = words.next_if_eq(&"@revoked").is_some();
        let (Some(hosts), Some(kind), Some(key)) = (words.next(), words.next(), words.next())
        else {
            return Err(LINE);
        };
        let hosts = if is_revoked {
            None
        } else {
            Some(parse_hosts(hosts).ok_or(LINE)?)
        };
        let key = parse_key(kind, key).ok_or(KEY)?;
        match hosts {
            Some(hosts) => self.lines.push((hosts, key)),
            None => self.revoked.push(key),
        }
        Ok(())
    }

    /// Returns what is known about the server at this address and port. Lines with the port take precedence over lines without.
    pub fn look_up(&self, address: &str, port: u16) -> Known {
        let address = address.to_lowercase();
        let mut keys = Vec::new();
        if port != DEFAULT_PORT {
            keys = self.keys_of(&format!("[{address}]:{port}"));
        }
        if keys.is_empty() {
            keys = self.keys_of(&address);
        }
        Known {
            keys,
            revoked: self.revoked.clone(),
        }
    }

    fn keys_of(&self, name: &str) -> Vec<HostKey> {
        let lines = self.lines.iter().filter(|(hosts, _)| hosts.name(name));
        lines.map(|(_, key)| key.clone()).collect()
    }
}

impl Hosts {
    fn name(&self, name: &str) -> bool {
        match self {
            Self::Names(names) => names.iter().any(|known| known == name),
            Self::Hashed(salt, hash) => hmac_sha1(salt, name).is_some_and(|found| {
                found.len() == hash.len() && openssl::memcmp::eq(&found, hash)
            }),
        }
    }
}

fn parse_hosts(text: &str) -> Option<Hosts> {
    if text.starts_with(['@', '|']) {
        let (salt, hash) = text.strip_prefix("|1|")?.split_once('|')?;
        let decode = |text| openssl::base64::decode_block(text).ok();
        return Some(Hosts::Hashed(decode(salt)?, decode(hash)?));
    }
    let names = text.split(',').map(str::to_lowercase);
    (!text.contains(['*', '?', '!'])).then(|| Hosts::Names(names.collect()))
}

/// Parses a key, and checks that its bytes begin with the type on the line: a mismatch shows that the line was pasted together.
fn parse_key(kind: &str, text: &str) -> Option<HostKey> {
    let bytes = openssl::base64::decode_block(text).ok()?;
    HostKey::from_bytes(&bytes).filter(|key| key.kind() == kind)
}

fn hmac_sha1(salt: &[u8], name: &str) -> Option<Vec<u8>> {
    let key = PKey::hmac(salt).ok()?;
    let mut signer = Signer::new(MessageDigest::sha1(), &key).ok()?;
    signer.update(name.as_bytes()).ok()?;
    signer.sign_to_vec().ok()
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    /// Creates a public key of this type: the type's name, followed by the bytes `own`.
    fn key(kind: &str, own: &[u8]) -> HostKey {
        let mut bytes = u32::try_from(kind.len()).unwrap().to_be_bytes().to_vec();
        bytes.extend(kind.as_bytes());
        bytes.extend(own);
        HostKey::new(kind, &bytes)
    }

    #[test]
    fn hosts_are_found_by_every_form_of_their_name() {
        let one = key("ssh-ed25519", b"one");
        for (hosts, address, port, known) in [
            ("10.0.0.1", "10.0.0.1", 22, true),
            ("10.0.0.1", "10.0.0.10", 22, false),
            ("10.0.0.1", "10.0.0.1", 2222, true),
            ("[10.0.0.1]:2222", "10.0.0.1", 2222, true),
            ("[10.0.0.1]:2222", "10.0.0.1", 22, false),
            ("[10.0.0.1]:2222", "10.0.0.1", 2223, false),
            ("Win-1.Example", "win-1.example", 22, true),
            ("win-1.example", "WIN-1.example", 22, true),
            ("a,win-1,b", "win-1", 22, true),
            ("fd00::7", "fd00::7", 22, true),
            ("[fd00::7]:2222", "fd00::7", 2222, true),
        ] {
            let known_hosts = KnownHosts::parse(&format!("{hosts} {one} a comment\n"));
            assert!(known_hosts.ignored.is_empty());
            let found = known_hosts.look_up(address, port);
            assert_eq!(!found.keys.is_empty(), known, "{hosts} {address} {port}");
        }
    }

    #[test]
    fn a_line_with_the_port_counts_before_one_without() {
        let (plain, with_port) = (key("ssh-ed25519", b"a"), key("ssh-ed25519", b"b"));
        let known = KnownHosts::parse(&format!("h {plain}\n[h]:2222 {with_port}\n"));
        assert_eq!(known.look_up("h", 2222).keys, [with_port]);
        assert_eq!(known.look_up("h", 22).keys, [plain]);
    }

    #[test]
    fn a_host_may_have_several_keys_and_lose_some() {
        let [one, two, bad] = [b"1", b"2", b"3"].map(|own| key("ssh-rsa", own));
        let text = format!("# ours\n\nh {one}\r\nh,i {two}\n@revoked i {bad}\n");
        let known = KnownHosts::parse(&text);
        let found = known.look_up("h", 22);
        assert_eq!(found.keys, [one, two]);
        for revoked in [
            found.revoked,
            known.look_up("nobody", 22).revoked,
            known.look_up("nobody", 2222).revoked,
        ] {
            assert!(revoked.contains(&bad));
        }
    }

    #[test]
    fn what_makes_no_sense_is_named_and_takes_nothing_away() {
        let good = key("ssh-ed25519", b"1");
        let named = good.to_string().replace("ssh-ed25519", "ssh-rsa");
        let text = format!(
            "@cert-authority * {good}\n@unheard * {good}\nh\nh ssh-rsa\nh ssh-rsa !!\nh {named}\n|2|x|y {good}\n\
             |1|x {good}\nh* {good}\n!h,i {good}\nh {good}\n"
        );
        let known = KnownHosts::parse(&text);
        assert_eq!(known.look_up("h", 22).keys, [good]);
        assert_eq!(known.ignored.len(), 10, "{:#?}", known.ignored);
        assert!(known.ignored[0].contains("line 1") && known.ignored[0].contains("certificates"));
        assert!((known.ignored[4..6].iter()).all(|why| why.contains("its key is not")));
    }

    #[test]
    fn lines_that_ssh_keygen_made_and_hashed_are_understood() {
        let folder = tempfile::tempdir().unwrap();
        let run = |arguments: &[&str]| {
            let output = Command::new("ssh-keygen")
                .args(arguments)
                .current_dir(folder.path())
                .output()
                .unwrap();
            assert!(output.status.success(), "{output:?}");
        };
        let read = |file: &str| std::fs::read_to_string(folder.path().join(file)).unwrap();
        let mut text = String::new();
        let mut keys = Vec::new();
        for (kind, file) in [("ed25519", "a"), ("ecdsa", "b"), ("rsa", "c")] {
            run(&["-q", "-N", "", "-C", "a comment", "-t", kind, "-f", file]);
            let public = read(&format!("{file}.pub"));
            text += &["10.0.0.1,[win-1]:2222,fd00::7 ", &public].concat();
            keys.push(HostKey::parse(&public));
        }
        std::fs::write(folder.path().join("known_hosts"), text).unwrap();
        run(&["-H", "-f", "known_hosts"]);
        let hashed = read("known_hosts");
        let mut lines = hashed.lines();
        assert!(lines.all(|line| line.starts_with("|1|")), "{hashed}");
        let known = KnownHosts::parse(&hashed);
        assert!(known.ignored.is_empty());
        for (address, port) in [("10.0.0.1", 22), ("win-1", 2222), ("fd00::7", 22)] {
            assert_eq!(known.look_up(address, port).keys, keys, "{address}");
        }
        assert_eq!(known.look_up("10.0.0.2", 22), Known::default());
        assert_eq!(known.look_up("win-1", 22), Known::default());
    }
}
