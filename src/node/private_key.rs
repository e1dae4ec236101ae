//! Reads the SSH key from the Secret.

use std::fmt;

use openssl::pkey::{Id, PKey};
use zeroize::Zeroizing;

use crate::api::PrivateKeySecretRef;
use crate::index::Secret;
use crate::node::payload::sha256_hex;
use crate::node::{NodeError, Reason};

/// The key in the Secret's data whose passphrase is in [`PASSPHRASE`].
const PRIVATE_KEY: &str = "private-key.pem";
/// The key in the Secret's data for the passphrase of the private key, if it has one.
const PASSPHRASE: &str = "passphrase";

/// Suffix, in the Secret's data, for the previous private key during a key rotation.
const PREVIOUS: &str = "previous";

fn invalid(source: &PrivateKeySecretRef, what: &str) -> NodeError {
    let PrivateKeySecretRef { name, key } = source;
    let passphrase = passphrase_of(key);
    Reason::InvalidPrivateKey.error(format!(
        "key {key} of Secret {name} {what}; store an RSA, ECDSA or Ed25519 private key there, in PEM or OpenSSH format, and its \
         passphrase, if it has one, as key {passphrase}"
    ))
}

/// Returns the key in the Secret's data that holds the passphrase of the private key `name`.
fn passphrase_of(name: &str) -> String {
    match name {
        PRIVATE_KEY => PASSPHRASE.to_owned(),
        name => format!("{name}.{PASSPHRASE}"),
    }
}

/// A usable private key. Its text never appears in `Debug`.
#[derive(Clone, PartialEq, Eq)]
pub struct PrivateKey {
    pem: Zeroizing<String>,
    /// The passphrase, if `pem` is still encrypted.
    passphrase: Option<Zeroizing<String>>,
    fingerprint: String,
    source: PrivateKeySecretRef,
    /// The previous key, which some hosts still accept during a key rotation.
    previous: Option<Result<Box<Self>, NodeError>>,
}

impl PrivateKey {
    /// Parses a private key, or explains why it cannot be used.
    fn read(
        text: &[u8],
        passphrase: Option<&[u8]>,
        source: PrivateKeySecretRef,
    ) -> Result<Self, NodeError> {
        let invalid = |what: &str| invalid(&source, what);
        let text = std::str::from_utf8(text).map_err(|_| invalid("is not text"))?;
        let text = text.trim();
        let passphrase = passphrase.map(checked_passphrase).transpose();
        let passphrase = passphrase.map_err(invalid)?.flatten();
        let (pem, passphrase) = if text.starts_with("-----BEGIN OPENSSH PRIVATE KEY-----") {
            let encrypted = is_encrypted(text).map_err(invalid)?;
            if encrypted && passphrase.is_none() {
                return Err(invalid(WITHOUT_PASSPHRASE));
            }
            let pem = Zeroizing::new(format!("{text}\n"));
            (pem, passphrase.filter(|_| encrypted))
        } else if text.starts_with("-----BEGIN ") && text.contains("PRIVATE KEY-----") {
            let pem = open_pem(text, passphrase.as_deref()).map_err(invalid)?;
            (pem, None)
        } else {
            return Err(invalid("is not a private key"));
        };
        Ok(Self {
            fingerprint: sha256_hex(text.as_bytes()),
            pem,
            passphrase,
            source,
            previous: None,
        })
    }

    /// Returns the previous key, or why it cannot be used; `None` if there is none.
    pub fn previous(&self) -> Option<Result<&Self, &NodeError>> {
        let previous = self.previous.as_ref()?;
        Some(previous.as_deref())
    }

    /// Returns the first 12 hex digits of the SHA-256 of the key's text: enough to tell keys apart.
    pub fn id(&self) -> &str {
        &self.fingerprint[..12]
    }

    /// Returns the key's text: unencrypted PKCS#8, or as OpenSSH wrote it.
    pub fn pem(&self) -> &str {
        &self.pem
    }

    /// Returns the passphrase of a key that OpenSSH encrypted. Only the login shows whether it is the right one.
    pub fn passphrase(&self) -> Option<&str> {
        self.passphrase.as_ref().map(|text| text.as_str())
    }

    /// Creates the error for a key that turned out to be unusable.
    pub fn invalid(&self, what: &str) -> NodeError {
        invalid(&self.source, what)
    }
}

impl fmt::Debug for PrivateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PrivateKey({})", self.id())
    }
}

/// Reads the private key from its Secret, and the previous key if there is one.
pub fn check(
    secret: Option<&Secret>,
    namespace: &str,
    PrivateKeySecretRef { name, key }: &PrivateKeySecretRef,
) -> Result<PrivateKey, NodeError> {
    let missing = |what: String| Err(Reason::CredentialsMissing.error(what));
    let data = match secret {
        Some(Secret::Data(data)) => data,
        Some(Secret::Missing) => {
            return missing(format!(
                "there is no Secret {name}; create it with: kubectl create secret generic {name} -n {namespace} \
                 --from-file={key}=<path of the private key>"
            ));
        }
        Some(Secret::Forbidden(account)) => {
            let usual = || format!("{namespace}:windows-storage-operator");
            let account = account.clone().unwrap_or_else(usual);
            return missing(format!(
                "reading Secret {name} is forbidden; allow it with: kubectl create role {name} -n {namespace} --verb=get \
                 --resource=secrets --resource-name={name} && kubectl create rolebinding {name} -n {namespace} --role={name} \
                 --serviceaccount={account}"
            ));
        }
        Some(Secret::Unread(why)) => {
            return missing(format!("Secret {name} could not be read: {why}"));
        }
        None => return missing(format!("Secret {name} was not read")),
    };
    let Some(bytes) = data.get(key) else {
        return missing(format!(
            "Secret {name} has no key {key}; add it with: kubectl patch secret {name} -n {namespace} --type=merge -p \
             \"{{\\\"data\\\":{{\\\"{key}\\\":\\\"$(base64 -w0 < <path of the private key>)\\\"}}}}\""
        ));
    };
    let read = |key: &str, text: &[u8]| {
        let passphrase = data.get(&passphrase_of(key));
        let passphrase = passphrase.map(|bytes| bytes.as_slice());
        let source = PrivateKeySecretRef {
            name: name.clone(),
            key: key.to_owned(),
        };
        PrivateKey::read(text, passphrase, source)
    };
    let current = read(key, bytes)?;
    let key = format!("{key}.{PREVIOUS}");
    let previous = data.get(&key);
    // An unusable previous key does not make the current key unusable.
    let previous = previous.map(|bytes| read(&key, bytes).map(Box::new));
    Ok(PrivateKey {
        previous,
        ..current
    })
}

const WITHOUT_PASSPHRASE: &str = "is protected by a passphrase, and none is given";

/// Returns the passphrase without a trailing line break, which comes from its file; `None` if it is empty.
fn checked_passphrase(bytes: &[u8]) -> Result<Option<Zeroizing<String>>, &'static str> {
    let text = std::str::from_utf8(bytes)
        .ok()
        .filter(|text| !text.contains('\0'))
        .ok_or("has a passphrase that is not text")?;
    let text = text.trim_end_matches(['\r', '\n']);
    Ok((!text.is_empty()).then(|| Zeroizing::new(text.to_owned())))
}

/// Converts a PKCS#1, SEC1 or PKCS#8 key, encrypted or not, to unencrypted PKCS#8.
fn open_pem(text: &str, passphrase: Option<&String>) -> Result<Zeroizing<String>, &'static str> {
    let encrypted = text.contains("ENCRYPTED");
    // An empty passphrase keeps OpenSSL from asking a terminal for one.
    let given = passphrase.map(String::as_bytes).unwrap_or_default();
    let key =
        PKey::private_key_from_pem_passphrase(text.as_bytes(), given).map_err(|_| {
            match (encrypted, passphrase) {
                (true, None) => WITHOUT_PASSPHRASE,
                (true, Some(_)) => "is not opened by its passphrase",
                (false, _) => "does not parse",
            }
        })?;
    if !matches!(key.id(), Id::RSA | Id::EC | Id::ED25519) {
        return Err("is of a kind that SSH servers do not take");
    }
    let pem = key.private_key_to_pem_pkcs8().ok();
    let pem = pem.and_then(|pem| String::from_utf8(pem).ok());
    pem.map(Zeroizing::new).ok_or("cannot be written as PKCS#8")
}

/// Returns whether a key in OpenSSH's format has a passphrase, or an error if the key is truncated or damaged.
///
/// Source: OpenSSH, `PROTOCOL.key`: magic, cipher, kdf, kdf options, number of keys, public key, private part.
fn is_encrypted(text: &str) -> Result<bool, &'static str> {
    let lines = text.lines().filter(|line| !line.starts_with("-----"));
    let body: String = lines.map(str::trim).collect();
    let decoded =
        Zeroizing::new(openssl::base64::decode_block(&body).map_err(|_| "does not parse")?);
    let rest = decoded.strip_prefix(b"openssh-key-v1\0");
    let cipher = cipher(rest.ok_or("does not parse")?);
    Ok(cipher.ok_or("is cut off")? != b"none")
}

fn cipher(mut rest: &[u8]) -> Option<&[u8]> {
    let cipher = text_field(&mut rest)?;
    let (_kdf, _options) = (text_field(&mut rest)?, text_field(&mut rest)?);
    rest = rest.get(4..)?;
    let (_public, _private) = (text_field(&mut rest)?, text_field(&mut rest)?);
    Some(cipher)
}

/// Reads a length-prefixed field in SSH encoding (RFC 4251, section 5).
pub fn text_field<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (length, after) = rest.split_first_chunk::<4>()?;
    let length = usize::try_from(u32::from_be_bytes(*length)).ok()?;
    let (field, after) = after.split_at_checked(length)?;
    *rest = after;
    Some(field)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn checked(text: &[u8]) -> Result<PrivateKey, NodeError> {
        let pem = Zeroizing::new(text.to_vec());
        let data = [(PRIVATE_KEY.to_owned(), pem)].into();
        check(
            Some(&Secret::Data(data)),
            "ns",
            &PrivateKeySecretRef::default(),
        )
    }

    /// Wraps base64 text in the header and footer of OpenSSH's format.
    fn armored(base64: &str) -> String {
        format!(
            "-----BEGIN OPENSSH PRIVATE KEY-----\n{base64}\n-----END OPENSSH PRIVATE KEY-----\n"
        )
    }

    #[test]
    fn a_missing_key_says_how_to_add_it() {
        let create = "kubectl create secret generic cloud-private-key -n ns";
        // An existing Secret may hold other keys, so it is patched.
        let patch = r#"kubectl patch secret cloud-private-key -n ns --type=merge -p "{\"data\":{\"private-key.pem\":\"$(base64"#;
        let allow = "kubectl create role cloud-private-key -n ns --verb=get --resource=secrets --resource-name=cloud-private-key \
            && kubectl create rolebinding cloud-private-key -n ns --role=cloud-private-key --serviceaccount=";
        let usual = format!("{allow}ns:windows-storage-operator");
        let other = format!("{allow}ops:storage");
        for (secret, command) in [
            (Secret::Missing, create),
            (Secret::Data(BTreeMap::new()), patch),
            (Secret::Forbidden(None), &usual),
            (Secret::Forbidden(Some("ops:storage".to_owned())), &other),
        ] {
            let error = check(Some(&secret), "ns", &PrivateKeySecretRef::default()).unwrap_err();
            assert_eq!(error.reason, Reason::CredentialsMissing);
            assert!(error.message.contains(command), "{error}");
        }
    }

    #[test]
    fn what_is_not_a_key_is_refused() {
        for text in [
            &b""[..],
            b"hello",
            b"\xff\xfe",
            b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----",
            b"-----BEGIN RSA PRIVATE KEY-----\nAAAA\n-----END RSA PRIVATE KEY-----",
            armored("AAAA").as_bytes(),
            armored("!!").as_bytes(),
        ] {
            let reason = checked(text).unwrap_err().reason;
            let text = String::from_utf8_lossy(text);
            assert_eq!(reason, Reason::InvalidPrivateKey, "{text}");
        }
    }

    #[test]
    fn a_key_is_taken_and_never_shown() {
        let rsa = openssl::rsa::Rsa::generate(2048).unwrap();
        let key = checked(&rsa.private_key_to_pem().unwrap()).unwrap();
        assert!(key.pem().contains("PRIVATE KEY"));
        assert!(!format!("{key:?}").contains("PRIVATE"));
    }

    #[test]
    fn an_openssh_key_is_taken_whole_and_refused_when_cut_off() {
        let field = |bytes: &[u8]| [&[0, 0, 0, u8::try_from(bytes.len()).unwrap()], bytes].concat();
        let none = field(b"none");
        let body = [
            b"openssh-key-v1\0".to_vec(),
            [none.clone(), none, field(b"")].concat(),
            1u32.to_be_bytes().to_vec(),
            [field(&[7; 51]), field(&[8; 51])].concat(),
        ]
        .concat();
        let of_length = |length| {
            let text = openssl::base64::encode_block(&body[..length]);
            checked(armored(&text).as_bytes())
        };
        assert!(of_length(body.len()).is_ok());
        for length in [20, 40, body.len() - 3] {
            let error = of_length(length).unwrap_err();
            assert_eq!(error.reason, Reason::InvalidPrivateKey, "{length}");
        }
    }
}
