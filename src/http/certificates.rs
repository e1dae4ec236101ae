//! The certificate for metrics: from a folder, and reloaded when it changes there, or self-signed.

use std::fs;
use std::path::{Path, PathBuf};

use openssl::asn1::Asn1Time;
use openssl::bn::BigNum;
use openssl::ec::{EcGroup, EcKey};
use openssl::error::ErrorStack;
use openssl::hash::MessageDigest;
use openssl::nid::Nid;
use openssl::pkey::{PKey, Private};
use openssl::ssl::{SslAcceptor, SslContext, SslMethod, SslSessionCacheMode};
use openssl::x509::{X509, X509NameBuilder};

/// The file names in Secrets of type `kubernetes.io/tls`.
const CERTIFICATE: &str = "tls.crt";
const KEY: &str = "tls.key";
/// How long a self-signed certificate is valid. No client verifies it, and each start creates a new one.
const DAYS: u32 = 3650;

/// The current certificate.
pub struct Certificates {
    dir: Option<PathBuf>,
    /// The TLS context, with the files that it was made from; without files if it is self-signed.
    current: Option<(Option<Files>, SslContext)>,
    /// The last problem logged, so that each is logged once.
    problem: Option<String>,
}

/// The contents of the certificate's file and of the key's.
type Files = [Vec<u8>; 2];

impl Certificates {
    /// Uses the certificate of a folder, or else a self-signed one.
    pub fn new(dir: Option<PathBuf>) -> Self {
        Self {
            dir,
            current: None,
            problem: None,
        }
    }

    /// Returns the TLS context for a connection. Nothing is read or created before the first connection, so that it costs
    /// nothing if there is none. Files that cannot be used leave the previous certificate in place.
    pub fn context(&mut self) -> Option<SslContext> {
        let problem = self.update().err();
        let context = self.current.as_ref().map(|(_, context)| context.clone());
        if self.problem != problem
            && let Some(problem) = &problem
        {
            if context.is_some() {
                tracing::warn!("metrics are served with the old certificate: {problem}");
            } else {
                tracing::warn!("metrics cannot be served: {problem}");
            }
        }
        self.problem = problem;
        context
    }

    /// Loads a changed certificate; returns a problem as text.
    fn update(&mut self) -> Result<(), String> {
        let files = match &self.dir {
            Some(dir) => read(dir)?,
            None => None,
        };
        // A certificate that is missing for a moment, while it is replaced, leaves the previous one in place.
        if let Some((before, _)) = &self.current
            && (*before == files || files.is_none())
        {
            return Ok(());
        }
        let context = if let (Some(files), Some(dir)) = (&files, &self.dir) {
            let dir = dir.display();
            let context = from_files(files).map_err(|cause| {
                format!("{CERTIFICATE} and {KEY} in {dir} are no certificate with its key, as PEM: {cause}")
            })?;
            tracing::info!("metrics are served with the certificate in {dir}");
            context
        } else {
            tracing::info!("metrics are served with a self-signed certificate");
            let made = self_signed("windows-storage-operator");
            let made = made.and_then(|(certificate, key)| context(&[certificate], &key));
            made.map_err(|cause| format!("no certificate could be made: {cause}"))?
        };
        self.current = Some((files, context));
        Ok(())
    }
}

/// Reads both files; `None` if neither exists, such as when an optional Secret was not created.
fn read(dir: &Path) -> Result<Option<Files>, String> {
    let [certificate, key] = [CERTIFICATE, KEY].map(|name| dir.join(name));
    if !certificate.exists() && !key.exists() {
        return Ok(None);
    }
    let read = |path: PathBuf| {
        let read = fs::read(&path);
        read.map_err(|cause| format!("{} cannot be read: {cause}", path.display()))
    };
    Ok(Some([read(certificate)?, read(key)?]))
}

fn from_files([certificate, key]: &Files) -> Result<SslContext, ErrorStack> {
    let chain = X509::stack_from_pem(certificate)?;
    context(&chain, &PKey::private_key_from_pem(key)?)
}

/// Creates the server's TLS context. No sessions are kept: every scrape does a full handshake, and none uses memory
/// afterwards.
fn context(chain: &[X509], key: &PKey<Private>) -> Result<SslContext, ErrorStack> {
    // TLS 1.2 and 1.3, with forward secrecy.
    let mut acceptor = SslAcceptor::mozilla_intermediate_v5(SslMethod::tls_server())?;
    if let Some((leaf, issuers)) = chain.split_first() {
        acceptor.set_certificate(leaf)?;
        for issuer in issuers {
            acceptor.add_extra_chain_cert(issuer.clone())?;
        }
    }
    acceptor.set_private_key(key)?;
    // Also fails without a certificate.
    acceptor.check_private_key()?;
    acceptor.set_session_cache_mode(SslSessionCacheMode::OFF);
    acceptor.set_num_tickets(0)?;
    Ok(acceptor.build().into_context())
}

/// Returns a self-signed certificate of that name, and its key.
pub(crate) fn self_signed(name: &str) -> Result<(X509, PKey<Private>), ErrorStack> {
    let group = EcGroup::from_curve_name(Nid::X9_62_PRIME256V1)?;
    let key = PKey::from_ec_key(EcKey::generate(&group)?)?;
    let mut subject = X509NameBuilder::new()?;
    subject.append_entry_by_nid(Nid::COMMONNAME, name)?;
    let subject = subject.build();
    let (from, until) = (Asn1Time::days_from_now(0)?, Asn1Time::days_from_now(DAYS)?);
    let mut builder = X509::builder()?;
    builder.set_serial_number(&*BigNum::from_u32(1)?.to_asn1_integer()?)?;
    builder.set_subject_name(&subject)?;
    builder.set_issuer_name(&subject)?;
    builder.set_pubkey(&key)?;
    builder.set_not_before(&from)?;
    builder.set_not_after(&until)?;
    builder.sign(&key, MessageDigest::sha256())?;
    Ok((builder.build(), key))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(name: &str) -> Files {
        let (certificate, key) = self_signed(name).unwrap();
        let key = key.private_key_to_pem_pkcs8().unwrap();
        [certificate.to_pem().unwrap(), key]
    }

    fn write(dir: &Path, files: &Files) {
        for (name, content) in [CERTIFICATE, KEY].iter().zip(files) {
            fs::write(dir.join(name), content).unwrap();
        }
    }

    fn shown(context: &SslContext) -> String {
        let name = context.certificate().unwrap().subject_name();
        let entry = name.entries().next().unwrap();
        entry.data().to_string().unwrap()
    }

    #[test]
    fn a_certificate_is_taken_when_it_comes_and_when_it_changes() {
        let dir = tempfile::tempdir().unwrap();
        let mut certificates = Certificates::new(Some(dir.path().to_owned()));
        let mut served = || shown(&certificates.context().unwrap());
        assert_eq!(served(), "windows-storage-operator");
        for name in ["first", "second"] {
            write(dir.path(), &identity(name));
            assert_eq!(served(), name);
        }
    }

    #[test]
    fn files_that_cannot_be_used_leave_the_certificate_from_before() {
        let dir = tempfile::tempdir().unwrap();
        let mut certificates = Certificates::new(Some(dir.path().to_owned()));
        let (first, another) = (identity("first"), identity("another"));
        write(dir.path(), &first);
        certificates.context().unwrap();
        let [_, key] = first;
        let mixed = [another[0].clone(), key.clone()];
        let empty = [Vec::new(), key];
        for files in [mixed, empty] {
            write(dir.path(), &files);
            assert_eq!(shown(&certificates.context().unwrap()), "first");
            assert!(certificates.problem.is_some());
        }
        fs::remove_file(dir.path().join(KEY)).unwrap();
        assert_eq!(shown(&certificates.context().unwrap()), "first");
        write(dir.path(), &another);
        assert_eq!(shown(&certificates.context().unwrap()), "another");
        assert_eq!(certificates.problem, None);
    }

    #[test]
    fn without_a_usable_certificate_from_the_start_nothing_is_served() {
        let dir = tempfile::tempdir().unwrap();
        let mut certificates = Certificates::new(Some(dir.path().to_owned()));
        for (file, expected) in [(CERTIFICATE, KEY), (KEY, "no certificate with its key")] {
            fs::write(dir.path().join(file), "nothing of use").unwrap();
            assert!(certificates.context().is_none());
            let problem = certificates.problem.as_ref().unwrap();
            assert!(problem.contains(expected), "{problem}");
        }
    }
}
