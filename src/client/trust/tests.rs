//! What is read from files, and what a server on the other side makes of it.

use std::fs;
use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;
use std::sync::mpsc;
use std::time::Duration;

use openssl::asn1::Asn1Time;
use openssl::ec::{EcGroup, EcKey};
use openssl::hash::MessageDigest;
use openssl::nid::Nid;
use openssl::pkey::{PKey, Private};
use openssl::ssl::{SslAcceptor, SslMethod, SslVerifyMode};
use openssl::x509::X509NameBuilder;
use openssl::x509::extension::SubjectAlternativeName;

use super::*;

#[test]
fn other_content_is_told_from_the_same_and_from_none() {
    let folder = tempfile::tempdir().unwrap();
    let files = ["a", "b"].map(|name| folder.path().join(name));
    let none = digest(&files);
    fs::write(&files[0], "12").unwrap();
    let one = digest(&files);
    fs::write(&files[1], "3").unwrap();
    let both = digest(&files);
    fs::write(&files[0], "1").unwrap();
    fs::write(&files[1], "23").unwrap();
    let moved = digest(&files);
    let all = [none, one, both, moved];
    for (index, content) in all.iter().enumerate() {
        assert!(!all[..index].contains(content), "{index}");
    }
    assert_eq!(digest(&files), moved);
}

struct Identity {
    certificate: X509,
    key: PKey<Private>,
}

impl Identity {
    /// Its own authority, for the loopback address.
    fn new(name: &str) -> Self {
        let group = EcGroup::from_curve_name(Nid::X9_62_PRIME256V1).unwrap();
        let key = PKey::from_ec_key(EcKey::generate(&group).unwrap()).unwrap();
        let mut subject = X509NameBuilder::new().unwrap();
        subject.append_entry_by_nid(Nid::COMMONNAME, name).unwrap();
        let subject = subject.build();
        let mut builder = X509::builder().unwrap();
        builder.set_version(2).unwrap();
        builder.set_subject_name(&subject).unwrap();
        builder.set_issuer_name(&subject).unwrap();
        builder.set_pubkey(&key).unwrap();
        let (from, until) = (Asn1Time::days_from_now(0), Asn1Time::days_from_now(1));
        builder.set_not_before(&from.unwrap()).unwrap();
        builder.set_not_after(&until.unwrap()).unwrap();
        let mut alternatives = SubjectAlternativeName::new();
        let alternatives = alternatives
            .ip("127.0.0.1")
            .build(&builder.x509v3_context(None, None))
            .unwrap();
        builder.append_extension(alternatives).unwrap();
        builder.sign(&key, MessageDigest::sha256()).unwrap();
        let certificate = builder.build();
        Self { certificate, key }
    }

    fn write(&self, folder: &Path) {
        let key = self.key.private_key_to_pem_pkcs8().unwrap();
        fs::write(folder.join("tls.crt"), self.certificate.to_pem().unwrap()).unwrap();
        fs::write(folder.join("tls.key"), key).unwrap();
    }
}

/// A server that says by which name each client is known.
struct Server {
    address: String,
    names: mpsc::Receiver<String>,
}

impl Server {
    fn start(identity: &Identity) -> Self {
        let mut acceptor = SslAcceptor::mozilla_intermediate_v5(SslMethod::tls_server()).unwrap();
        acceptor.set_certificate(&identity.certificate).unwrap();
        acceptor.set_private_key(&identity.key).unwrap();
        let asked = SslVerifyMode::PEER | SslVerifyMode::FAIL_IF_NO_PEER_CERT;
        // Whose it is counts here, and not who vouches for that.
        acceptor.set_verify_callback(asked, |_, _| true);
        let acceptor = acceptor.build();
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = format!("https://{}/", listener.local_addr().unwrap());
        let (sender, names) = mpsc::channel();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let stream = acceptor.accept(stream.unwrap()).unwrap();
                let certificate = stream.ssl().peer_certificate().unwrap();
                let entry = certificate.subject_name().entries().next().unwrap();
                let name = entry.data().to_string().unwrap();
                if sender.send(name).is_err() {
                    return;
                }
            }
        });
        Self { address, names }
    }

    async fn name_of(&self, connector: &mut Connector) -> String {
        let server = self.address.parse().unwrap();
        let _connection = connector.call(server).await.unwrap();
        self.names.recv_timeout(Duration::from_secs(60)).unwrap()
    }
}

fn config_of(folder: &Path, server: &Server) -> kube::Config {
    let mut config = kube::Config::new(server.address.parse().unwrap());
    config.root_cert_file = Some(folder.join("ca.crt"));
    let file = |name: &str| Some(folder.join(name).to_str().unwrap().to_owned());
    config.auth_info.client_certificate = file("tls.crt");
    config.auth_info.client_key = file("tls.key");
    config
}

#[tokio::test]
async fn a_client_certificate_is_taken_as_soon_as_it_is_whole() {
    let folder = tempfile::tempdir().unwrap();
    let identity = Identity::new("server");
    let authority = &identity.certificate;
    fs::write(folder.path().join("ca.crt"), authority.to_pem().unwrap()).unwrap();
    let server = Server::start(&identity);
    Identity::new("first").write(folder.path());
    let config = config_of(folder.path(), &server);
    let mut connector = Connector::new(&config, &[authority.to_der().unwrap()]).unwrap();
    assert_eq!(server.name_of(&mut connector).await, "first");

    // Of two files one is written first: the key is none of the certificate's until then.
    let second = Identity::new("second");
    let certificate = second.certificate.to_pem().unwrap();
    fs::write(folder.path().join("tls.crt"), certificate).unwrap();
    assert_eq!(server.name_of(&mut connector).await, "first");
    second.write(folder.path());
    assert_eq!(server.name_of(&mut connector).await, "second");
    fs::remove_file(folder.path().join("tls.key")).unwrap();
    assert_eq!(server.name_of(&mut connector).await, "second");
}
