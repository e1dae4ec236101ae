//! Metrics over TLS: only for authorized clients, and with the current certificate.

use std::collections::BTreeSet;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;

use openssl::nid::Nid;
use openssl::ssl::{SslConnector, SslMethod, SslVerifyMode};
use openssl::x509::X509Ref;
use testbed::objects::NAMESPACE;
use testbed::promtool::{as_older_format, promtool};

use crate::cluster::harness::Harness;

const READER: &str = include_str!("../../../manifests/metrics.yaml");
const ACCESS: &str = include_str!("../../../manifests/monitoring/access.yaml");
const SERVED: [&str; 2] = [
    "--serve-address=127.0.0.1:0",
    "--metrics-address=127.0.0.1:0",
];

impl Harness {
    /// Waits until the operator logs its address for metrics over TLS, and returns it.
    pub fn metrics_address(&self) -> String {
        let marker = "metrics are served on https://";
        self.eventually("metrics are served", || self.log().contains(marker));
        let log = self.log();
        let (_, rest) = log.rsplit_once(marker).unwrap();
        // In a JSON log line, the address is followed by a quote.
        let ends = |letter: char| letter.is_whitespace() || letter == '"';
        rest.split(ends).next().unwrap().to_owned()
    }

    /// Creates a ServiceAccount that may or may not read metrics, and returns a token of it.
    pub fn token(&self, account: &str, may_read: bool) -> String {
        self.kubectl(&format!("create serviceaccount {account} -n {NAMESPACE}"));
        if may_read {
            self.apply(READER);
            let user = format!("--serviceaccount={NAMESPACE}:{account}");
            let role = "--clusterrole=windows-storage-operator-metrics-reader";
            self.kubectl(&format!(
                "create clusterrolebinding {account} {role} {user}"
            ));
        }
        let control_plane = &self.sandbox.control_plane;
        control_plane.token_of(NAMESPACE, account).unwrap()
    }
}

/// An answer, and the common name in the server's certificate.
pub struct Scraped {
    pub answer: String,
    certificate: String,
}

impl Scraped {
    pub fn status(&self) -> &str {
        self.answer.split(' ').nth(1).unwrap_or_default()
    }

    fn body(&self) -> &str {
        self.answer.split_once("\r\n\r\n").unwrap().1
    }
}

pub fn scrape(address: &str, path: &str, token: Option<&str>) -> Scraped {
    let mut connector = SslConnector::builder(SslMethod::tls_client()).unwrap();
    // The certificate itself is checked by the test.
    connector.set_verify(SslVerifyMode::NONE);
    let connection = TcpStream::connect(address).unwrap();
    let mut stream = connector.build().connect("localhost", connection).unwrap();
    let certificate = common_name(&stream.ssl().peer_certificate().unwrap());
    let authorization = token.map_or_else(String::new, |token| {
        format!("Authorization: Bearer {token}\r\n")
    });
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nHost: localhost\r\n{authorization}\r\n"
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    Scraped {
        answer,
        certificate,
    }
}

fn common_name(certificate: &X509Ref) -> String {
    let mut entries = certificate.subject_name().entries_by_nid(Nid::COMMONNAME);
    entries.next().unwrap().data().to_string().unwrap()
}

#[test]
fn metrics_are_for_those_who_may_read_them_and_follow_their_certificate() {
    let harness = Harness::held();
    let folder = harness.control_plane().dir().join("metrics-certificate");
    fs::create_dir(&folder).unwrap();
    let cert_dir = format!("--metrics-cert-dir={}", folder.display());
    let _operator = harness.start_with_arguments(&[SERVED[0], SERVED[1], &cert_dir]);
    let address = harness.metrics_address();
    let (reader, nobody) = (
        harness.token("prometheus", true),
        harness.token("nobody", false),
    );
    let get = |token: Option<&str>| scrape(&address, "/metrics", token);

    assert_eq!(get(None).status(), "401");
    assert_eq!(get(Some("made.up.token")).status(), "401");
    let refused = get(Some(&nobody));
    assert_eq!(refused.status(), "403");
    assert!(
        refused.body().contains("system:serviceaccount:"),
        "{}",
        refused.answer
    );
    assert!(!refused.answer.contains("winstorage_nodes"));
    harness.expect_gate("False", "DriversMissing", &[]);
    let allowed = get(Some(&reader));
    assert_eq!(allowed.status(), "200", "{}", allowed.answer);
    for line in [
        "winstorage_upgradeable 0\n",
        "winstorage_verdict{reason=\"DriversMissing\"} 1\n",
        "winstorage_blocking_volumes{driver=\"disk.csi.azure.com\"} 1\n",
        "winstorage_nodes{ready=\"false\"} 1\n",
        "winstorage_operator_condition_written{} 1\n",
        "winstorage_build_info{version=\"",
        "winstorage_api_requests_total{verb=\"WATCH\",code=\"2xx\"} ",
    ] {
        assert!(
            allowed.body().contains(line),
            "{line} is not in {}",
            allowed.body()
        );
    }
    check_metrics(allowed.body());
    assert_eq!(scrape(&address, "/healthz", Some(&reader)).status(), "404");

    // A client that does not speak TLS, or is silent, does not block others.
    let mut plain = TcpStream::connect(&address).unwrap();
    plain.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").unwrap();
    let _silent = TcpStream::connect(&address).unwrap();
    assert_eq!(get(Some(&reader)).certificate, "windows-storage-operator");
    for name in ["first", "second"] {
        let control_plane = harness.control_plane();
        control_plane.write_certificate(&folder, name).unwrap();
        harness.eventually("the certificate is the one in the folder", || {
            get(Some(&reader)).certificate == name
        });
    }
    harness.assert_nothing_was_forbidden();
}

/// Uses the token that Kubernetes puts into the Secret of `manifests/monitoring`.
#[test]
fn the_account_for_prometheus_may_read_metrics() {
    let harness = Harness::new();
    harness.apply(READER);
    harness.apply(ACCESS);
    let _operator = harness.start_with_arguments(&SERVED);
    let address = harness.metrics_address();
    let secret = format!("secret/windows-storage-operator-prometheus -n {NAMESPACE}");
    let token = || {
        let token = harness.kubectl(&format!("get {secret} -o jsonpath={{.data.token}}"));
        String::from_utf8(openssl::base64::decode_block(&token).unwrap()).unwrap()
    };
    assert_eq!(token(), "");
    let control_plane = harness.control_plane();
    control_plane
        .start_controller_manager("serviceaccount-token-controller")
        .unwrap();
    harness.eventually("the Secret has a token", || !token().is_empty());
    let scraped = scrape(&address, "/metrics", Some(&token()));
    assert_eq!(scraped.status(), "200", "{}", scraped.answer);
}

fn check_metrics(text: &str) {
    let text = as_older_format(text);
    let (is_content, said) =
        promtool(&["check", "metrics"], Path::new("."), text.as_bytes()).unwrap();
    assert!(is_content, "{said}");
}

#[test]
fn what_cannot_be_checked_is_not_served() {
    let harness = Harness::new();
    let reader = harness.token("prometheus", true);
    let _operator = harness.start_with_arguments(&SERVED);
    let address = harness.metrics_address();
    harness.expect_gate("True", "NoWindowsNodes", &[]);
    harness.control_plane().stop_api_server().unwrap();
    for _ in 0..4 {
        assert_eq!(scrape(&address, "/metrics", Some(&reader)).status(), "503");
    }
    let log = harness.log();
    let words = log
        .lines()
        .filter_map(|line| line.split_once("cannot authenticate clients of /metrics: "));
    let faults: Vec<&str> = words.map(|(_, fault)| fault).collect();
    let different: BTreeSet<&str> = faults.iter().copied().collect();
    assert!(
        !faults.is_empty() && faults.len() == different.len(),
        "{faults:?}"
    );
    harness.control_plane().start_api_server().unwrap();
    harness.eventually("metrics are served again", || {
        scrape(&address, "/metrics", Some(&reader)).status() == "200"
    });
}
