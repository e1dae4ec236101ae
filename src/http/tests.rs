use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use kube::Config;
use openssl::ssl::{SslConnector, SslMethod, SslVerifyMode};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::connections::CONNECTIONS;
use super::*;

async fn get(address: SocketAddr, path: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

#[tokio::test]
async fn an_address_for_everybody_serves_health_and_no_metrics() {
    let listener = TcpListener::bind("0.0.0.0:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(serve_health(listener, Shown::default()));
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    assert!(get(address, "/healthz").await.starts_with("HTTP/1.1 200"));
    let refused = get(address, "/metrics").await;
    assert!(
        refused.starts_with("HTTP/1.1 404") && refused.contains("--metrics-address"),
        "{refused}"
    );
}

#[tokio::test]
async fn readiness_follows_the_truth_and_health_and_metrics_are_there_from_the_start() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let shown = Shown::default();
    tokio::spawn(serve_health(listener, shown.clone()));
    let get = async |path: &str| get(address, path).await;
    assert!(get("/healthz").await.starts_with("HTTP/1.1 200"));
    let before = get("/readyz").await;
    assert!(before.starts_with("HTTP/1.1 503") && before.contains("[-]leader-election failed"));
    shown.readiness.leads();
    assert!(get("/readyz").await.contains("[-]cluster-read failed"));
    let reason = "nothing has been read yet";
    assert!(!get("/readyz").await.contains(reason));
    assert!(get("/readyz?verbose").await.contains(reason));
    let gate = crate::gate::GateReport::default();
    shown.readiness.publish(None, "", &gate, None);
    let ready = get("/readyz").await;
    assert!(
        ready.starts_with("HTTP/1.1 200") && ready.ends_with("\r\n\r\nok"),
        "{ready}"
    );
    assert!(get("/readyz?verbose").await.contains("[+]cluster-read ok"));
    let metrics = get("/metrics").await;
    assert!(metrics.contains("\nwinstorage_upgradeable 0"), "{metrics}");
}

#[tokio::test]
async fn reasons_which_name_objects_are_for_clients_in_the_pod() {
    let query = || RawQuery(Some("verbose".to_owned()));
    let asked_from = async |address: &str| {
        let client = Extension(address.parse().unwrap());
        let answer = ready(State(Shown::default()), client, query()).await;
        let body = axum::body::to_bytes(answer.into_response().into_body(), 1000).await;
        String::from_utf8(body.unwrap().into()).unwrap()
    };
    let reason = "the lease has not been read yet";
    for local in ["127.0.0.1:1", "[::1]:1", "[::ffff:127.0.0.1]:1"] {
        assert!(asked_from(local).await.contains(reason), "{local}");
    }
    assert!(!asked_from("10.0.0.1:1").await.contains(reason));
}

#[tokio::test]
async fn a_controller_that_hangs_fails_its_health_and_one_that_goes_on_is_well_again() {
    let last_seen = |seconds| {
        let at = Instant::now().checked_sub(Duration::from_secs(seconds));
        Liveness(Arc::new(Mutex::new(at.unwrap())))
    };
    assert_eq!(last_seen(85).problem(), None);
    let liveness = last_seen(95);
    let shown = Shown {
        liveness: liveness.clone(),
        ..Shown::default()
    };
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(serve_health(listener, shown));
    let stuck = get(address, "/healthz").await;
    let words = "the controller has made no progress for 9";
    assert!(
        stuck.starts_with("HTTP/1.1 500") && stuck.contains(words),
        "{stuck}"
    );
    tokio::select! {
        biased;
        never = liveness.beat() => match never {},
        well = get(address, "/healthz") => assert!(well.starts_with("HTTP/1.1 200"), "{well}"),
    }
}

/// Serves metrics over TLS with an API server that does not exist; returns the address.
async fn serve_metrics_without_api_server() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let config = Config::new("http://127.0.0.1:1".parse().unwrap());
    let client = Client::try_from(config).unwrap();
    tokio::spawn(serve_metrics(listener, Shown::default(), client, None));
    address
}

/// Returns the status of the answer over TLS to a request with this header.
async fn status_over_tls(address: SocketAddr, request: &str, header: &str) -> String {
    let request = format!("{request} HTTP/1.1\r\nHost: x\r\n{header}\r\n");
    let answer = tokio::task::spawn_blocking(move || {
        let mut connector = SslConnector::builder(SslMethod::tls_client()).unwrap();
        connector.set_verify(SslVerifyMode::NONE);
        let connection = std::net::TcpStream::connect(address).unwrap();
        let mut stream = connector.build().connect("localhost", connection).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    });
    let answer = answer.await.unwrap();
    answer.split(' ').nth(1).unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn over_tls_there_are_metrics_alone_and_only_for_tokens_that_the_api_server_accepts() {
    let address = serve_metrics_without_api_server().await;
    let token = "Authorization: Bearer made.up\r\n";
    for (request, header, expected) in [
        ("GET /metrics", "", "401"),
        ("GET /metrics", "Authorization: Basic YTpi\r\n", "401"),
        ("GET /metrics", token, "503"),
        ("POST /metrics", token, "405"),
        ("GET /healthz", token, "404"),
    ] {
        let status = status_over_tls(address, request, header).await;
        assert_eq!(status, expected, "{request} {header}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_that_do_not_go_on_lose_their_connections_and_others_are_served() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let health = listener.local_addr().unwrap();
    tokio::spawn(serve_health(listener, Shown::default()));
    let metrics = serve_metrics_without_api_server().await;
    let mut silent = Vec::new();
    for _ in 0..CONNECTIONS + 10 {
        for (address, half) in [(health, "GET /healthz HTTP/1.1\r\nHost: "), (metrics, "")] {
            let mut client = TcpStream::connect(address).await.unwrap();
            client.write_all(half.as_bytes()).await.unwrap();
            silent.push(client);
        }
    }
    assert!(get(health, "/healthz").await.starts_with("HTTP/1.1 200"));
    assert_eq!(status_over_tls(metrics, "GET /metrics", "").await, "401");
    for mut client in silent {
        // An error answer or none, and then the end of the connection.
        let _ = client.read_to_end(&mut Vec::new()).await;
    }
}

/// Clients that never make a whole request. Each new one comes after an echo, so that all who are ready have had their turn.
struct Idlers {
    health: SocketAddr,
    echo: TcpStream,
    clients: VecDeque<TcpStream>,
    /// Whether each sends one more byte whenever another one comes.
    drip: bool,
}

impl Idlers {
    async fn new(health: SocketAddr, drip: bool) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            let (mut client, _) = listener.accept().await.unwrap();
            let (mut from, mut to) = client.split();
            tokio::io::copy(&mut from, &mut to).await
        });
        Self {
            health,
            echo: TcpStream::connect(address).await.unwrap(),
            clients: VecDeque::new(),
            drip,
        }
    }

    async fn add(&mut self) {
        let client = TcpStream::connect(self.health).await.unwrap();
        self.clients.push_back(client);
        if self.clients.len() > 2 * CONNECTIONS {
            self.clients.pop_front();
        }
        for client in self.clients.iter().filter(|_| self.drip) {
            // The server may have closed it.
            let _ = client.try_write(b"G");
        }
        self.echo.write_all(b"x").await.unwrap();
        self.echo.read_exact(&mut [0]).await.unwrap();
    }
}

#[tokio::test]
async fn health_is_answered_while_clients_keep_coming_that_are_silent_or_send_byte_by_byte() {
    for drip in [false, true] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let health = listener.local_addr().unwrap();
        tokio::spawn(serve_health(listener, Shown::default()));
        let mut idlers = Idlers::new(health, drip).await;
        for _ in 0..CONNECTIONS {
            idlers.add().await;
        }
        for request in 1..=100 {
            let asked = tokio::spawn(get(health, "/healthz"));
            let mut came = 0;
            while !asked.is_finished() {
                assert!(came < CONNECTIONS / 2, "request {request} has no answer");
                idlers.add().await;
                came += 1;
            }
            let answer = asked.await.unwrap();
            assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        }
    }
}
