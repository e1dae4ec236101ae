//! A collector: it takes traces by OTLP over HTTP, and decodes them.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use openssl::asn1::Asn1Time;
use openssl::hash::MessageDigest;
use openssl::pkey::PKey;
use openssl::rsa::Rsa;
use openssl::ssl::{SslAcceptor, SslMethod};
use openssl::x509::extension::{BasicConstraints, SubjectAlternativeName};
use openssl::x509::{X509, X509NameBuilder};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message;

/// What a collector was sent.
#[derive(Clone, Default)]
struct Taken {
    requests: Vec<ExportTraceServiceRequest>,
    heads: Vec<String>,
}

/// A collector on this machine. It ends when this is dropped.
pub struct Collector {
    address: SocketAddr,
    taken: Arc<Mutex<Taken>>,
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Collector {
    pub fn start() -> Self {
        Self::at("127.0.0.1:0".parse().unwrap(), None)
    }

    /// One that has that certificate.
    pub fn with_tls(acceptor: SslAcceptor) -> Self {
        Self::at("127.0.0.1:0".parse().unwrap(), Some(acceptor))
    }

    pub fn at(address: SocketAddr, acceptor: Option<SslAcceptor>) -> Self {
        let listener = TcpListener::bind(address).unwrap();
        let address = listener.local_addr().unwrap();
        let (taken, ends) = (Arc::<Mutex<Taken>>::default(), Arc::<AtomicBool>::default());
        let (kept, is_over) = (Arc::clone(&taken), Arc::clone(&ends));
        let thread = std::thread::spawn(move || {
            for stream in listener.incoming() {
                if is_over.load(Ordering::Relaxed) {
                    return;
                }
                let stream = stream.unwrap();
                // A client that does not go on is one that was ended.
                let _ = match &acceptor {
                    Some(acceptor) => acceptor
                        .accept(stream)
                        .map_err(std::io::Error::other)
                        .and_then(|stream| answer(stream, &kept)),
                    None => answer(stream, &kept),
                };
            }
        });
        Self {
            address,
            taken,
            ends,
            thread: Some(thread),
        }
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The requests' lines and headers.
    pub fn heads(&self) -> Vec<String> {
        self.taken.lock().unwrap().heads.clone()
    }

    /// All spans so far.
    pub fn spans(&self) -> Vec<Span> {
        let requests = self.taken.lock().unwrap().requests.clone();
        let resources = requests.into_iter().flat_map(|it| it.resource_spans);
        let scopes = resources.flat_map(|it| it.scope_spans);
        scopes.flat_map(|it| it.spans).collect()
    }

    /// What the spans are said to come from.
    pub fn resource(&self, key: &str) -> Option<String> {
        let requests = self.taken.lock().unwrap().requests.clone();
        let resource = requests.into_iter().next()?.resource_spans.into_iter();
        text(&resource.last()?.resource?.attributes, key)
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        // So that it looks.
        let _ = TcpStream::connect(self.address);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// An attribute as text.
pub fn text(attributes: &[KeyValue], key: &str) -> Option<String> {
    let found = attributes.iter().find(|attribute| attribute.key == key)?;
    match found.value.clone()?.value? {
        Value::StringValue(text) => Some(text),
        other => Some(format!("{other:?}")),
    }
}

fn answer(stream: impl Read + Write, taken: &Mutex<Taken>) -> std::io::Result<()> {
    let mut stream = BufReader::new(stream);
    let mut head = String::new();
    while stream.read_line(&mut head)? > 2 {}
    let length = head.to_lowercase();
    let length = length.split("content-length: ").nth(1).unwrap();
    let length = length.split_whitespace().next().unwrap().parse().unwrap();
    let mut body = vec![0; length];
    stream.read_exact(&mut body)?;
    let request = ExportTraceServiceRequest::decode(&*body).unwrap();
    let mut taken = taken.lock().unwrap();
    taken.heads.push(head);
    taken.requests.push(request);
    drop(taken);
    let stream = stream.get_mut();
    stream.write_all(
        b"HTTP/1.1 200 OK\r\nContent-Type: application/x-protobuf\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
    )?;
    stream.flush()
}

/// A certificate for this machine that is its own authority, in PEM, and what serves with it.
pub fn certificate() -> (Vec<u8>, SslAcceptor) {
    let key = PKey::from_rsa(Rsa::generate(2048).unwrap()).unwrap();
    let mut name = X509NameBuilder::new().unwrap();
    name.append_entry_by_text("CN", "collector").unwrap();
    let name = name.build();
    let mut certificate = X509::builder().unwrap();
    certificate.set_version(2).unwrap();
    certificate.set_subject_name(&name).unwrap();
    certificate.set_issuer_name(&name).unwrap();
    certificate.set_pubkey(&key).unwrap();
    let (begin, end) = (Asn1Time::days_from_now(0), Asn1Time::days_from_now(1));
    certificate.set_not_before(&begin.unwrap()).unwrap();
    certificate.set_not_after(&end.unwrap()).unwrap();
    let authority = BasicConstraints::new().critical().ca().build().unwrap();
    certificate.append_extension(authority).unwrap();
    let context = certificate.x509v3_context(None, None);
    let names = SubjectAlternativeName::new()
        .ip("127.0.0.1")
        .build(&context);
    certificate.append_extension(names.unwrap()).unwrap();
    certificate.sign(&key, MessageDigest::sha256()).unwrap();
    let certificate = certificate.build();
    let mut acceptor = SslAcceptor::mozilla_intermediate_v5(SslMethod::tls_server()).unwrap();
    acceptor.set_certificate(&certificate).unwrap();
    acceptor.set_private_key(&key).unwrap();
    (certificate.to_pem().unwrap(), acceptor.build())
}
