//! The algorithms that an SSH session may use.
//!
//! Each list holds what libssh2 supports (`src/kex.c`, `src/hostkey.c`, `src/crypt.c`, `src/mac.c` of its sources)
//! except weak algorithms: SHA-1 (RFC 9142 and RFC 8332 say why), CBC and RC4 (RFC 8758, and OpenSSH's own defaults
//! since 7.2), MD5, DSA. OpenSSH for Windows offers several of each list in every version that Windows Server has had.
//! Host certificates are left out, because nothing here can tell whether to trust their authority.

use ssh2::{MethodType, Session};

use crate::node::{NodeError, Reason};

/// Key exchange: the hybrids with ML-KEM if the linked OpenSSL has it, then elliptic curves, then large groups.
const KEY_EXCHANGES: &str = "mlkem768x25519-sha256,mlkem768nistp256-sha256,mlkem1024nistp384-sha384,\
    curve25519-sha256,curve25519-sha256@libssh.org,ecdh-sha2-nistp256,ecdh-sha2-nistp384,ecdh-sha2-nistp521,\
    diffie-hellman-group-exchange-sha256,diffie-hellman-group16-sha512,diffie-hellman-group18-sha512,\
    diffie-hellman-group14-sha256";
/// Host keys. RSA only with SHA-2.
const HOST_KEYS: [&str; 6] = [
    "ssh-ed25519",
    "ecdsa-sha2-nistp256",
    "ecdsa-sha2-nistp384",
    "ecdsa-sha2-nistp521",
    "rsa-sha2-512",
    "rsa-sha2-256",
];
/// Ciphers: authenticated encryption, then counter mode. AES-GCM comes first: processors have instructions for it, and
/// the Terrapin attack on servers without strict key exchange (CVE-2023-48795) affects `ChaCha20`, but not AES-GCM.
const CIPHERS: &str = "aes256-gcm@openssh.com,aes128-gcm@openssh.com,chacha20-poly1305@openssh.com,\
    aes256-ctr,aes192-ctr,aes128-ctr";
/// Message authentication: encrypt-then-MAC first.
const MACS: &str =
    "hmac-sha2-512-etm@openssh.com,hmac-sha2-256-etm@openssh.com,hmac-sha2-512,hmac-sha2-256";
/// Signatures for logins with an RSA key.
const SIGNATURES: &str = "rsa-sha2-512,rsa-sha2-256";

/// Restricts the session to these algorithms. Requests host keys of the `known` types first, named as in a public key,
/// so that a server with an additional key does not look like another server.
pub fn restrict(session: &Session, known: &[String]) -> Result<(), NodeError> {
    let host_keys = host_keys(known);
    let lists = [
        (MethodType::Kex, KEY_EXCHANGES),
        (MethodType::HostKey, host_keys.as_str()),
        (MethodType::CryptCs, CIPHERS),
        (MethodType::CryptSc, CIPHERS),
        (MethodType::MacCs, MACS),
        (MethodType::MacSc, MACS),
        (MethodType::SignAlgo, SIGNATURES),
    ];
    for (method, list) in lists {
        session.method_pref(method, list).map_err(|error| {
            // Without its list, a session would accept any algorithm.
            Reason::Unreachable.error(format!(
                "the SSH library has none of the algorithms {list}: {error}"
            ))
        })?;
    }
    Ok(())
}

fn host_keys(known: &[String]) -> String {
    let rank = |name: &str| {
        let is = |known: &String| known == name || (known == "ssh-rsa" && name.starts_with("rsa-"));
        known.iter().position(is).unwrap_or(known.len())
    };
    let mut names = HOST_KEYS;
    // Stable: those of the same rank stay in their order.
    names.sort_by_key(|name| rank(name));
    names.join(",")
}

/// Explains a failed handshake, if the reason is that both sides have no safe algorithm in common.
pub fn disagreement(error: &ssh2::Error) -> Option<&'static str> {
    /// libssh2's codes: no common method in the lists of both sides, or the key exchange failed.
    const KEY_EXCHANGE_FAILED: [i32; 3] = [-5, -8, -17];
    match error.code() {
        ssh2::ErrorCode::Session(code) if KEY_EXCHANGE_FAILED.contains(&code) => Some(
            "the server and the operator have no safe algorithms in common: key exchange, host key, cipher or MAC of \
             the server are older than SHA-2, or it ended the exchange; update OpenSSH on the node, and remove \
             KexAlgorithms, HostKeyAlgorithms, Ciphers and MACs from its sshd_config",
        ),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_known_types_are_asked_for_first_and_none_is_left_out() {
        let first = |known: &[&str]| {
            let known: Vec<String> = known.iter().map(ToString::to_string).collect();
            host_keys(&known)
        };
        assert!(first(&["ssh-rsa"]).starts_with("rsa-sha2-512,rsa-sha2-256,ssh-ed25519"));
        assert!(
            first(&["ecdsa-sha2-nistp384", "ssh-rsa"])
                .starts_with("ecdsa-sha2-nistp384,rsa-sha2-512,rsa-sha2-256,ssh-ed25519")
        );
        assert_eq!(first(&["nonsense"]), HOST_KEYS.join(","));
    }

    #[test]
    fn nothing_weak_is_in_the_lists() {
        let all = [
            KEY_EXCHANGES,
            &HOST_KEYS.join(","),
            CIPHERS,
            MACS,
            SIGNATURES,
        ]
        .join(",");
        for name in all.split(',') {
            let weak = name.ends_with("-sha1") || name.contains("cbc") || name.contains("md5");
            assert!(
                !weak && name != "hmac-sha1" && name != "ssh-rsa" && name != "ssh-dss",
                "{name}"
            );
        }
        // Servers before 9.5 have no strict key exchange.
        assert!(CIPHERS.starts_with("aes256-gcm@openssh.com,aes128-gcm@openssh.com,"));
    }
}
