//! Which certificate authorities the connection to the API server trusts.

use std::net::{TcpListener, TcpStream};
use std::thread;

use openssl::asn1::Asn1Time;
use openssl::base64::encode_block;
use openssl::ec::{EcGroup, EcKey};
use openssl::hash::MessageDigest;
use openssl::nid::Nid;
use openssl::pkey::{PKey, Private};
use openssl::ssl::{SslAcceptor, SslMethod};
use openssl::x509::extension::{BasicConstraints, SubjectAlternativeName};
use openssl::x509::{X509, X509NameBuilder};

use crate::run::{end, program};

/// A server certificate for 127.0.0.1, or a certificate authority.
struct Identity {
    certificate: X509,
    key: PKey<Private>,
}

impl Identity {
    /// Creates a self-signed identity.
    fn new(name: &str) -> Self {
        Self::issued_by(name, None)
    }

    fn issued_by(name: &str, issuer: Option<&Self>) -> Self {
        let group = EcGroup::from_curve_name(Nid::X9_62_PRIME256V1).unwrap();
        let key = PKey::from_ec_key(EcKey::generate(&group).unwrap()).unwrap();
        let mut names = X509NameBuilder::new().unwrap();
        names.append_entry_by_nid(Nid::COMMONNAME, name).unwrap();
        let name = names.build();
        let mut builder = X509::builder().unwrap();
        builder.set_version(2).unwrap();
        builder.set_subject_name(&name).unwrap();
        let issuer_name = issuer.map_or(&*name, |issuer| issuer.certificate.subject_name());
        builder.set_issuer_name(issuer_name).unwrap();
        builder.set_pubkey(&key).unwrap();
        let (long_ago, tomorrow) = (
            Asn1Time::from_unix(0).unwrap(),
            Asn1Time::days_from_now(1).unwrap(),
        );
        builder.set_not_before(&long_ago).unwrap();
        builder.set_not_after(&tomorrow).unwrap();
        let address = SubjectAlternativeName::new()
            .ip("127.0.0.1")
            .build(&builder.x509v3_context(None, None))
            .unwrap();
        builder.append_extension(address).unwrap();
        let authority = BasicConstraints::new().critical().ca().build().unwrap();
        builder.append_extension(authority).unwrap();
        let signs = issuer.map_or(&key, |issuer| &issuer.key);
        builder.sign(signs, MessageDigest::sha256()).unwrap();
        Self {
            certificate: builder.build(),
            key,
        }
    }

    fn pem(&self) -> Vec<u8> {
        self.certificate.to_pem().unwrap()
    }

    fn acceptor(&self) -> SslAcceptor {
        let mut acceptor = SslAcceptor::mozilla_intermediate_v5(SslMethod::tls_server()).unwrap();
        acceptor.set_private_key(&self.key).unwrap();
        acceptor.set_certificate(&self.certificate).unwrap();
        acceptor.build()
    }
}

/// Returns whether a client accepts this server as the API server, with one CA in its kubeconfig and one on its system.
fn is_trusted(server: &Identity, of_cluster: &Identity, of_system: &Identity) -> bool {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let acceptor = server.acceptor();
    let server = thread::spawn(move || acceptor.accept(listener.accept().unwrap().0).is_ok());
    let folder = tempfile::tempdir().unwrap();
    let authority = encode_block(&of_cluster.pem());
    let kubeconfig = format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: c\ncontexts: [{{name: c, context: {{cluster: c, user: u}}}}]\n\
         users: [{{name: u, user: {{token: t}}}}]\n\
         clusters: [{{name: c, cluster: {{server: 'https://{address}', certificate-authority-data: {authority}}}}}]\n"
    );
    std::fs::write(folder.path().join("kubeconfig"), kubeconfig).unwrap();
    std::fs::write(folder.path().join("system.pem"), of_system.pem()).unwrap();
    let mut command = program(folder.path());
    command
        .args(["check", "--kubeconfig", "kubeconfig"])
        .env("SSL_CERT_FILE", folder.path().join("system.pem"));
    // The server closes the connection of a client that trusts it.
    end(&mut command).assert_refused("a server that hangs up");
    // Unblocks the server in case the client never connected.
    drop(TcpStream::connect(address));
    server.join().unwrap()
}

#[test]
fn the_clusters_authority_alone_is_trusted() {
    let (server, other) = (Identity::new("server"), Identity::new("other"));
    assert!(is_trusted(&server, &server, &other));
    assert!(!is_trusted(&server, &other, &server));
}

#[test]
fn an_authority_is_trusted_whose_own_issuer_is_not_named() {
    let root = Identity::new("root");
    let authority = Identity::issued_by("authority", Some(&root));
    let server = Identity::issued_by("server", Some(&authority));
    assert!(is_trusted(&server, &authority, &Identity::new("other")));
    assert!(!is_trusted(&server, &Identity::new("other"), &root));
}
