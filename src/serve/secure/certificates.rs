//! The certificate that metrics are served with: from a folder, and read again when it changes there, or made by itself.

use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use openssl::asn1::Asn1Time;
use openssl::bn::{BigNum, MsbOption};
use openssl::ec::{EcGroup, EcKey};
use openssl::error::ErrorStack;
use openssl::hash::MessageDigest;
use openssl::nid::Nid;
use openssl::pkey::{PKey, Private};
use openssl::ssl::{AlpnError, SslAcceptor, SslContext, SslMethod, SslSessionCacheMode};
use openssl::x509::extension::{ExtendedKeyUsage, SubjectAlternativeName};
use openssl::x509::{X509, X509NameBuilder};

use super::told::Told;

/// As Secrets of type `kubernetes.io/tls` name them.
const CERTIFICATE: &str = "tls.crt";
const KEY: &str = "tls.key";
/// How often it is looked whether they have changed: a kubelet brings a Secret's news in a minute.
const LOOK: Duration = Duration::from_secs(10);
/// How long a certificate holds that was made here. Nobody verifies it; it is made anew with each start.
const DAYS: u32 = 3650;

/// Why a certificate cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    /// A file cannot be read.
    #[error("{} cannot be read: {cause}", path.display())]
    Unread {
        /// The file.
        path: PathBuf,
        /// Why.
        cause: io::Error,
    },
    /// What the files hold is no certificate with its key.
    #[error("{} and {} in {} are no certificate with its key, as PEM: {cause}", CERTIFICATE, KEY, dir.display())]
    Unusable {
        /// The folder.
        dir: PathBuf,
        /// Why.
        cause: ErrorStack,
    },
    /// None could be made.
    #[error("no certificate could be made: {0}")]
    NotMade(ErrorStack),
}

/// The certificate as it is now.
pub struct Certificates {
    dir: Option<PathBuf>,
    names: Vec<String>,
    current: Option<Current>,
    told: Told,
}

struct Current {
    context: SslContext,
    /// What it was made from; absent where it was made by itself.
    files: Option<Files>,
    looked: Instant,
}

#[derive(PartialEq, Eq)]
struct Files {
    certificate: Vec<u8>,
    key: Vec<u8>,
}

impl Certificates {
    /// Those of a folder, or one that is made for these names of the server.
    pub fn new(dir: Option<PathBuf>, names: Vec<String>) -> Self {
        Self {
            dir,
            names,
            current: None,
            told: Told::default(),
        }
    }

    /// What connections are served with. Nothing is read or made before somebody connects, so that nobody who does not
    /// pays for it. Files that cannot be used leave in place what was there before.
    pub fn context(&mut self, now: Instant) -> Result<SslContext, CertificateError> {
        let due = self
            .current
            .as_ref()
            .is_none_or(|current| now.duration_since(current.looked) >= LOOK);
        if due {
            match self.look(now) {
                Ok(()) => {
                    self.told.is_over();
                }
                Err(problem) => {
                    let is_news = self.told.is_news(&problem.to_string());
                    let Some(current) = &mut self.current else {
                        if is_news {
                            tracing::warn!("metrics cannot be served: {problem}");
                        }
                        return Err(problem);
                    };
                    current.looked = now;
                    if is_news {
                        tracing::warn!(
                            "metrics are served with the certificate from before: {problem}"
                        );
                    }
                }
            }
        }
        match &self.current {
            Some(current) => Ok(current.context.clone()),
            None => Err(CertificateError::NotMade(ErrorStack::get())),
        }
    }

    fn look(&mut self, now: Instant) -> Result<(), CertificateError> {
        let files = match &self.dir {
            Some(dir) => read(dir)?,
            None => None,
        };
        if let Some(current) = &mut self.current
            && (current.files == files || files.is_none())
        {
            // A certificate that is away for a moment, while it is replaced, leaves the one before in place.
            current.looked = now;
            return Ok(());
        }
        let context = if let (Some(files), Some(dir)) = (&files, &self.dir) {
            let unusable = |cause| CertificateError::Unusable {
                dir: dir.clone(),
                cause,
            };
            let context = from_files(files).map_err(unusable)?;
            tracing::info!(
                "metrics are served with the certificate in {}",
                dir.display()
            );
            context
        } else {
            tracing::info!("metrics are served with a certificate that was made for this start");
            self_signed(&self.names).map_err(CertificateError::NotMade)?
        };
        self.current = Some(Current {
            context,
            files,
            looked: now,
        });
        Ok(())
    }
}

/// Both files; `None` where neither is there, as where an optional Secret was not made.
fn read(dir: &Path) -> Result<Option<Files>, CertificateError> {
    let read = |name: &str| {
        let path = dir.join(name);
        match fs::read(&path) {
            Ok(content) => Ok(Some(content)),
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(cause) => Err(CertificateError::Unread { path, cause }),
        }
    };
    match (read(CERTIFICATE)?, read(KEY)?) {
        (Some(certificate), Some(key)) => Ok(Some(Files { certificate, key })),
        (None, None) => Ok(None),
        (certificate, _) => Err(CertificateError::Unread {
            path: dir.join(certificate.map_or(CERTIFICATE, |_| KEY)),
            cause: io::ErrorKind::NotFound.into(),
        }),
    }
}

fn from_files(files: &Files) -> Result<SslContext, ErrorStack> {
    let mut chain = X509::stack_from_pem(&files.certificate)?.into_iter();
    let key = PKey::private_key_from_pem(&files.key)?;
    // Without one, it is the setting of nothing that fails, with OpenSSL's words.
    let leaf = match chain.next() {
        Some(leaf) => leaf,
        None => X509::from_pem(&files.certificate)?,
    };
    context(&leaf, &key, chain)
}

/// What clients get to see of the server. No sessions are kept: every scrape shakes hands, and none costs memory after it.
fn context(
    leaf: &X509,
    key: &PKey<Private>,
    issuers: impl Iterator<Item = X509>,
) -> Result<SslContext, ErrorStack> {
    // TLS 1.2 and 1.3, with forward secrecy.
    let mut acceptor = SslAcceptor::mozilla_intermediate_v5(SslMethod::tls_server())?;
    acceptor.set_certificate(leaf)?;
    acceptor.set_private_key(key)?;
    acceptor.check_private_key()?;
    for issuer in issuers {
        acceptor.add_extra_chain_cert(issuer)?;
    }
    acceptor.set_session_cache_mode(SslSessionCacheMode::OFF);
    acceptor.set_num_tickets(0)?;
    acceptor.set_alpn_select_callback(|_, offered| {
        openssl::ssl::select_next_proto(b"\x08http/1.1", offered).ok_or(AlpnError::NOACK)
    });
    Ok(acceptor.build().into_context())
}

fn self_signed(names: &[String]) -> Result<SslContext, ErrorStack> {
    let group = EcGroup::from_curve_name(Nid::X9_62_PRIME256V1)?;
    let key = PKey::from_ec_key(EcKey::generate(&group)?)?;
    let mut name = X509NameBuilder::new()?;
    name.append_entry_by_nid(Nid::COMMONNAME, "windows-storage-operator")?;
    let name = name.build();
    let mut serial = BigNum::new()?;
    serial.rand(127, MsbOption::MAYBE_ZERO, false)?;
    let (from, until) = (Asn1Time::days_from_now(0)?, Asn1Time::days_from_now(DAYS)?);
    let mut builder = X509::builder()?;
    builder.set_version(2)?;
    builder.set_serial_number(&*serial.to_asn1_integer()?)?;
    builder.set_subject_name(&name)?;
    builder.set_issuer_name(&name)?;
    builder.set_pubkey(&key)?;
    builder.set_not_before(&from)?;
    builder.set_not_after(&until)?;
    builder.append_extension(ExtendedKeyUsage::new().server_auth().build()?)?;
    let mut alternatives = SubjectAlternativeName::new();
    for name in names {
        alternatives.dns(name);
    }
    alternatives.ip(&IpAddr::from(Ipv4Addr::LOCALHOST).to_string());
    let alternatives = alternatives.build(&builder.x509v3_context(None, None))?;
    builder.append_extension(alternatives)?;
    builder.sign(&key, MessageDigest::sha256())?;
    context(&builder.build(), &key, std::iter::empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(name: &str) -> Files {
        let group = EcGroup::from_curve_name(Nid::X9_62_PRIME256V1).unwrap();
        let key = PKey::from_ec_key(EcKey::generate(&group).unwrap()).unwrap();
        let mut subject = X509NameBuilder::new().unwrap();
        subject.append_entry_by_nid(Nid::COMMONNAME, name).unwrap();
        let mut builder = X509::builder().unwrap();
        builder.set_subject_name(&subject.build()).unwrap();
        builder.set_pubkey(&key).unwrap();
        let (from, until) = (Asn1Time::days_from_now(0), Asn1Time::days_from_now(1));
        builder.set_not_before(&from.unwrap()).unwrap();
        builder.set_not_after(&until.unwrap()).unwrap();
        builder.sign(&key, MessageDigest::sha256()).unwrap();
        Files {
            certificate: builder.build().to_pem().unwrap(),
            key: key.private_key_to_pem_pkcs8().unwrap(),
        }
    }

    fn write(dir: &Path, files: &Files) {
        fs::write(dir.join(CERTIFICATE), &files.certificate).unwrap();
        fs::write(dir.join(KEY), &files.key).unwrap();
    }

    fn shown(context: &SslContext) -> String {
        let name = context.certificate().unwrap().subject_name();
        let entry = name.entries().next().unwrap();
        entry.data().to_string().unwrap()
    }

    #[test]
    fn a_certificate_is_taken_when_it_comes_and_when_it_changes() {
        let dir = tempfile::tempdir().unwrap();
        let mut certificates =
            Certificates::new(Some(dir.path().to_owned()), vec!["a.svc".to_owned()]);
        let start = Instant::now();
        let made = certificates.context(start).unwrap();
        assert_eq!(shown(&made), "windows-storage-operator");
        write(dir.path(), &identity("first"));
        // Not looked for at each connection.
        let soon = start + LOOK / 2;
        let again = certificates.context(soon).unwrap();
        assert_eq!(shown(&again), "windows-storage-operator");
        let context = certificates.context(start + LOOK).unwrap();
        assert_eq!(shown(&context), "first");
        write(dir.path(), &identity("second"));
        let context = certificates.context(start + LOOK * 2).unwrap();
        assert_eq!(shown(&context), "second");
    }

    #[test]
    fn files_that_cannot_be_used_leave_the_certificate_from_before() {
        let dir = tempfile::tempdir().unwrap();
        let mut certificates = Certificates::new(Some(dir.path().to_owned()), Vec::new());
        let start = Instant::now();
        let first = identity("first");
        write(dir.path(), &first);
        certificates.context(start).unwrap();
        let another = identity("another");
        let mixed = Files {
            certificate: another.certificate.clone(),
            key: first.key.clone(),
        };
        let empty = Files {
            certificate: Vec::new(),
            key: first.key,
        };
        for (number, files) in (1..).zip([mixed, empty]) {
            write(dir.path(), &files);
            let context = certificates.context(start + LOOK * number).unwrap();
            assert_eq!(shown(&context), "first");
            assert!(certificates.told.is_over());
        }
        fs::remove_file(dir.path().join(KEY)).unwrap();
        let context = certificates.context(start + LOOK * 3).unwrap();
        assert_eq!(shown(&context), "first");
        write(dir.path(), &another);
        let context = certificates.context(start + LOOK * 4).unwrap();
        assert_eq!(shown(&context), "another");
        assert!(!certificates.told.is_over());
    }

    #[test]
    fn without_a_usable_certificate_from_the_start_nothing_is_served() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join(CERTIFICATE), "no certificate").unwrap();
        let mut certificates = Certificates::new(Some(dir.path().to_owned()), Vec::new());
        let error = certificates.context(Instant::now()).err().unwrap();
        assert!(error.to_string().contains(KEY), "{error}");
        let is_news = certificates.told.is_news(&error.to_string());
        assert!(!is_news, "each connection would tell it again");
        fs::write(dir.path().join(KEY), "no key").unwrap();
        let error = certificates.context(Instant::now()).err().unwrap();
        assert!(error.to_string().contains("no certificate with its key"));
    }
}
