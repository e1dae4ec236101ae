//! A certificate authority for one control plane.

use std::fs;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use openssl::asn1::Asn1Time;
use openssl::bn::{BigNum, MsbOption};
use openssl::ec::{EcGroup, EcKey};
use openssl::hash::MessageDigest;
use openssl::nid::Nid;
use openssl::pkey::{PKey, Private};
use openssl::x509::extension::{
    AuthorityKeyIdentifier, BasicConstraints, ExtendedKeyUsage, KeyUsage, SubjectAlternativeName,
    SubjectKeyIdentifier,
};
use openssl::x509::{X509, X509Builder, X509NameBuilder};

/// A certificate and its private key.
#[derive(Debug, Clone)]
pub struct Identity {
    pub certificate: X509,
    pub key: PKey<Private>,
}

impl Identity {
    /// Returns the certificate as PEM.
    pub fn certificate_pem(&self) -> Result<Vec<u8>> {
        Ok(self.certificate.to_pem()?)
    }

    /// Returns the private key as PEM.
    pub fn key_pem(&self) -> Result<Vec<u8>> {
        Ok(self.key.private_key_to_pem_pkcs8()?)
    }
}

/// Signs the certificates of servers and users.
#[derive(Debug)]
pub struct Authority(Identity);

impl Authority {
    pub fn new() -> Result<Self> {
        let key = new_key()?;
        let mut builder = certificate("testbed", &[], &key)?;
        builder.set_issuer_name(&*name("testbed", &[])?)?;
        builder.append_extension(BasicConstraints::new().critical().ca().build()?)?;
        builder.append_extension(
            KeyUsage::new()
                .critical()
                .key_cert_sign()
                .digital_signature()
                .build()?,
        )?;
        // A successor has the same name, as in a real cluster, and is distinguished by this key ID.
        let key_id = SubjectKeyIdentifier::new().build(&builder.x509v3_context(None, None))?;
        builder.append_extension(key_id)?;
        builder.sign(&key, MessageDigest::sha256())?;
        Ok(Self(Identity {
            certificate: builder.build(),
            key,
        }))
    }

    /// Returns the CA certificate as PEM.
    pub fn certificate_pem(&self) -> Result<Vec<u8>> {
        self.0.certificate_pem()
    }

    /// Creates the identity of an API server on 127.0.0.1.
    pub fn server(&self) -> Result<Identity> {
        let names = |builder: &X509Builder| {
            SubjectAlternativeName::new()
                .ip("127.0.0.1")
                .dns("localhost")
                .dns("kubernetes.default.svc")
                .build(&builder.x509v3_context(Some(&self.0.certificate), None))
        };
        let key = new_key()?;
        let mut builder = certificate("kube-apiserver", &[], &key)?;
        builder.append_extension(names(&builder)?)?;
        builder.append_extension(ExtendedKeyUsage::new().server_auth().build()?)?;
        self.sign(builder, key)
    }

    /// Creates the identity of an API user; the certificate contains the user and group names.
    pub fn client(&self, user: &str, groups: &[&str]) -> Result<Identity> {
        let key = new_key()?;
        let mut builder = certificate(user, groups, &key)?;
        builder.append_extension(ExtendedKeyUsage::new().client_auth().build()?)?;
        self.sign(builder, key)
    }

    fn sign(&self, mut builder: X509Builder, key: PKey<Private>) -> Result<Identity> {
        builder.set_issuer_name(self.0.certificate.subject_name())?;
        let issuer = builder.x509v3_context(Some(&self.0.certificate), None);
        let issuer = AuthorityKeyIdentifier::new().keyid(true).build(&issuer)?;
        builder.append_extension(issuer)?;
        builder.sign(&self.0.key, MessageDigest::sha256())?;
        Ok(Identity {
            certificate: builder.build(),
            key,
        })
    }

    pub fn certificate(&self) -> &X509 {
        &self.0.certificate
    }
}

/// Creates a private key on the curve P-256.
pub fn new_key() -> Result<PKey<Private>> {
    let group = EcGroup::from_curve_name(Nid::X9_62_PRIME256V1)?;
    Ok(PKey::from_ec_key(EcKey::generate(&group)?)?)
}

/// Writes a file that other users cannot read.
pub fn write_private(path: &Path, content: &[u8]) -> Result<()> {
    fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
        .and_then(|mut file| file.write_all(content))
        .with_context(|| format!("writing {}", path.display()))
}

fn name(common_name: &str, organizations: &[&str]) -> Result<openssl::x509::X509Name> {
    let mut name = X509NameBuilder::new()?;
    for organization in organizations {
        name.append_entry_by_nid(Nid::ORGANIZATIONNAME, organization)?;
    }
    name.append_entry_by_nid(Nid::COMMONNAME, common_name)?;
    Ok(name.build())
}

/// Returns the common part of all certificates; issuer and signature are added later.
fn certificate(
    common_name: &str,
    organizations: &[&str],
    key: &PKey<Private>,
) -> Result<X509Builder> {
    let mut serial = BigNum::new()?;
    serial.rand(127, MsbOption::MAYBE_ZERO, false)?;
    let mut builder = X509::builder()?;
    builder.set_version(2)?;
    builder.set_serial_number(&*serial.to_asn1_integer()?)?;
    builder.set_subject_name(&*name(common_name, organizations)?)?;
    builder.set_pubkey(key)?;
    // Far enough in the past for clocks that are behind.
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
    let before = i64::try_from(now)? - 2 * 24 * 60 * 60;
    builder.set_not_before(&*Asn1Time::from_unix(before)?)?;
    builder.set_not_after(&*Asn1Time::days_from_now(365)?)?;
    Ok(builder)
}
