//! The SSH key of the Secret.

use std::fmt;

use openssl::pkey::{Id, PKey};
use zeroize::Zeroizing;

use crate::index::Secret;
use crate::node::{NodeError, Reason};
use crate::payload::sha256_hex;

/// The Secret's name, as WMCO's users know it.
pub const SSH_SECRET: &str = "cloud-private-key";
/// The key in the Secret's data.
pub const PRIVATE_KEY: &str = "private-key.pem";
/// The key in the Secret's data that holds the private key's passphrase, where it has one.
pub const PASSPHRASE: &str = "passphrase";

/// A private key that can be used. Its text never appears in `Debug`.
#[derive(Clone, PartialEq, Eq)]
pub struct PrivateKey {
    pem: Zeroizing<String>,
    /// What opens it, where it is still closed.
    passphrase: Option<Zeroizing<String>>,
    fingerprint: String,
}

impl PrivateKey {
    /// The key's text: unencrypted PKCS#8, or as OpenSSH wrote it.
    #[must_use]
    pub fn pem(&self) -> &str {
        &self.pem
    }

    /// The passphrase of a key that OpenSSH encrypted: only the login can tell whether it is the right one.
    #[must_use]
    pub fn passphrase(&self) -> Option<&str> {
        self.passphrase.as_ref().map(|text| text.as_str())
    }
}

impl fmt::Debug for PrivateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PrivateKey({})", &self.fingerprint[..12])
    }
}

/// A key that cannot be used.
#[must_use]
pub fn invalid(what: &str) -> NodeError {
    NodeError::new(
        Reason::InvalidPrivateKey,
        format!(
            "key {PRIVATE_KEY} of Secret {SSH_SECRET} {what}; store an RSA, ECDSA or Ed25519 private key in PEM or OpenSSH \
             format, and its passphrase, if it has one, as key {PASSPHRASE}"
        ),
    )
}

/// Finds the key in the Secret and says what is wrong where it cannot be used.
pub fn check(secret: Option<&Secret>, namespace: &str) -> Result<PrivateKey, NodeError> {
    let missing = |what: &str| {
        NodeError::new(
            Reason::CredentialsMissing,
            format!(
                "{what}; create it with: kubectl create secret generic {SSH_SECRET} -n {namespace} --from-file={PRIVATE_KEY}=<path of \
                 the private key>"
            ),
        )
    };
    let secret = secret.ok_or_else(|| missing(&format!("there is no Secret {SSH_SECRET}")))?;
    let bytes = secret
        .data
        .get(PRIVATE_KEY)
        .ok_or_else(|| missing(&format!("Secret {SSH_SECRET} has no key {PRIVATE_KEY}")))?;
    let text = std::str::from_utf8(bytes).map_err(|_| invalid("is not text"))?;
    let text = text.trim();
    let passphrase = passphrase(secret)?;
    let opened = if text.starts_with("-----BEGIN OPENSSH PRIVATE KEY-----") {
        let encrypted = is_encrypted(text).map_err(invalid)?;
        if encrypted && passphrase.is_none() {
            return Err(invalid(WITHOUT_PASSPHRASE));
        }
        let pem = Zeroizing::new(format!("{text}\n"));
        (pem, passphrase.filter(|_| encrypted))
    } else if text.starts_with("-----BEGIN ") && text.contains("PRIVATE KEY-----") {
        (open_pem(text, passphrase.as_deref())?, None)
    } else {
        return Err(invalid("is not a private key"));
    };
    let (pem, passphrase) = opened;
    Ok(PrivateKey {
        fingerprint: sha256_hex(text.as_bytes()),
        pem,
        passphrase,
    })
}

const WITHOUT_PASSPHRASE: &str = "is protected by a passphrase, and the Secret has none";

/// The Secret's passphrase. The line end is the file's that it came from.
fn passphrase(secret: &Secret) -> Result<Option<Zeroizing<String>>, NodeError> {
    let Some(bytes) = secret.data.get(PASSPHRASE) else {
        return Ok(None);
    };
    let text = std::str::from_utf8(bytes)
        .ok()
        .filter(|text| !text.contains('\0'))
        .ok_or_else(|| invalid("has a passphrase that is not text"))?;
    let text = text.trim_end_matches(['\r', '\n']);
    Ok((!text.is_empty()).then(|| Zeroizing::new(text.to_owned())))
}

/// Opens PKCS#1, SEC1 and PKCS#8, encrypted or not, and gives unencrypted PKCS#8.
fn open_pem(text: &str, passphrase: Option<&String>) -> Result<Zeroizing<String>, NodeError> {
    let encrypted = text.contains("ENCRYPTED");
    // An empty passphrase keeps OpenSSL from asking a terminal for one.
    let given = passphrase.map(String::as_bytes).unwrap_or_default();
    let key = PKey::private_key_from_pem_passphrase(text.as_bytes(), given).map_err(|_| {
        invalid(match (encrypted, passphrase) {
            (true, None) => WITHOUT_PASSPHRASE,
            (true, Some(_)) => "is not opened by the Secret's passphrase",
            (false, _) => "does not parse",
        })
    })?;
    if !matches!(key.id(), Id::RSA | Id::EC | Id::ED25519) {
        return Err(invalid("is of a kind that SSH servers do not take"));
    }
    let pem = key
        .private_key_to_pem_pkcs8()
        .map(Zeroizing::new)
        .map_err(|_| invalid("cannot be written as PKCS#8"))?;
    let pem = std::str::from_utf8(&pem).map_err(|_| invalid("cannot be written as PKCS#8"))?;
    Ok(Zeroizing::new(pem.to_owned()))
}

/// Whether a key in OpenSSH's format has a passphrase; an error where it is cut off or damaged.
///
/// Source: OpenSSH, `PROTOCOL.key`: magic, cipher, kdf, kdf options, number of keys, public key, private part.
fn is_encrypted(text: &str) -> Result<bool, &'static str> {
    let body: String = text
        .lines()
        .filter(|line| !line.starts_with("-----"))
        .map(str::trim)
        .collect();
    let decoded =
        Zeroizing::new(openssl::base64::decode_block(&body).map_err(|_| "does not parse")?);
    let mut rest = decoded
        .strip_prefix(b"openssh-key-v1\0")
        .ok_or("does not parse")?;
    let cipher = text_field(&mut rest)?;
    let (_kdf, _options) = (text_field(&mut rest)?, text_field(&mut rest)?);
    rest = rest.get(4..).ok_or(CUT_OFF)?;
    let (_public, _private) = (text_field(&mut rest)?, text_field(&mut rest)?);
    Ok(cipher != b"none")
}

const CUT_OFF: &str = "is cut off";

/// A field with its length before it.
fn text_field<'a>(rest: &mut &'a [u8]) -> Result<&'a [u8], &'static str> {
    let (length, after) = rest.split_first_chunk::<4>().ok_or(CUT_OFF)?;
    let length = usize::try_from(u32::from_be_bytes(*length)).map_err(|_| CUT_OFF)?;
    let (field, after) = after.split_at_checked(length).ok_or(CUT_OFF)?;
    *rest = after;
    Ok(field)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn secret(text: &[u8]) -> Secret {
        Secret {
            data: BTreeMap::from([(PRIVATE_KEY.to_owned(), Zeroizing::new(text.to_vec()))]),
        }
    }

    fn reason(text: &[u8]) -> Reason {
        check(Some(&secret(text)), "ns").unwrap_err().reason
    }

    fn rsa() -> openssl::pkey::PKey<openssl::pkey::Private> {
        openssl::pkey::PKey::from_rsa(openssl::rsa::Rsa::generate(2048).unwrap()).unwrap()
    }

    #[test]
    fn a_missing_secret_says_how_to_create_it() {
        for secret in [None, Some(Secret::default())] {
            let error = check(secret.as_ref(), "ns").unwrap_err();
            assert_eq!(error.reason, Reason::CredentialsMissing);
            assert!(
                error
                    .message
                    .contains("kubectl create secret generic cloud-private-key -n ns"),
                "{error}"
            );
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
            b"-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA\n-----END OPENSSH PRIVATE KEY-----",
            b"-----BEGIN OPENSSH PRIVATE KEY-----\n!!\n-----END OPENSSH PRIVATE KEY-----",
        ] {
            assert_eq!(
                reason(text),
                Reason::InvalidPrivateKey,
                "{}",
                String::from_utf8_lossy(text)
            );
        }
    }

    #[test]
    fn a_key_is_taken_and_never_shown() {
        let pem = rsa().private_key_to_pem_pkcs8().unwrap();
        let key = check(Some(&secret(&pem)), "ns").unwrap();
        assert!(key.pem().contains("PRIVATE KEY"));
        assert!(!format!("{key:?}").contains("PRIVATE"));
    }

    #[test]
    fn a_passphrase_is_refused_without_asking_for_it() {
        let pem = rsa()
            .private_key_to_pem_pkcs8_passphrase(openssl::symm::Cipher::aes_256_cbc(), b"secret")
            .unwrap();
        assert_eq!(reason(&pem), Reason::InvalidPrivateKey);
    }

    #[test]
    fn an_openssh_key_is_taken_whole_and_refused_when_cut_off() {
        let mut body = b"openssh-key-v1\0".to_vec();
        for field in [&b"none"[..], b"none", b""] {
            body.extend(u32::try_from(field.len()).unwrap().to_be_bytes());
            body.extend(field);
        }
        body.extend(1u32.to_be_bytes());
        for field in [[7u8; 51], [8u8; 51]] {
            body.extend(51u32.to_be_bytes());
            body.extend(field);
        }
        let armored = |body: &[u8]| {
            let text = openssl::base64::encode_block(body);
            format!(
                "-----BEGIN OPENSSH PRIVATE KEY-----\n{text}\n-----END OPENSSH PRIVATE KEY-----\n"
            )
        };
        assert!(check(Some(&secret(armored(&body).as_bytes())), "ns").is_ok());
        for length in [20, 40, body.len() - 3] {
            assert_eq!(
                reason(armored(&body[..length]).as_bytes()),
                Reason::InvalidPrivateKey,
                "{length}"
            );
        }
    }

    #[test]
    fn an_openssh_key_with_a_passphrase_is_refused() {
        let mut body = b"openssh-key-v1\0".to_vec();
        body.extend(10u32.to_be_bytes());
        body.extend(b"aes256-ctr");
        let text = format!(
            "-----BEGIN OPENSSH PRIVATE KEY-----\n{}\n-----END OPENSSH PRIVATE KEY-----\n",
            openssl::base64::encode_block(&body)
        );
        assert!(
            check(Some(&secret(text.as_bytes())), "ns")
                .unwrap_err()
                .message
                .contains("passphrase")
        );
    }
}
