use std::io::{Read, Write};
use std::net::SocketAddr;

use kube::Config;
use openssl::ssl::{SslConnector, SslMethod, SslVerifyMode};
use tokio::io::AsyncReadExt;
use tokio::net::TcpSocket;

use super::*;

#[test]
fn only_a_bearer_token_counts() {
    assert_eq!(bearer("Bearer abc"), Some("abc"));
    assert_eq!(bearer("bearer  abc "), Some("abc"));
    for header in ["", "Bearer", "Bearer ", "Basic YTpi", "abc"] {
        assert_eq!(bearer(header), None, "{header}");
    }
}

/// Where metrics are served, with an API server that is not there.
async fn served() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let config = Config::new("http://127.0.0.1:1".parse().unwrap());
    let client = Client::try_from(config).unwrap();
    let secure = Secure::new(client, Metrics::default(), None, "a");
    tokio::spawn(secure.serve(listener));
    address
}

/// The answer to one who shows that header.
async fn scrape(address: SocketAddr, header: &str) -> String {
    let request = format!("GET /metrics HTTP/1.1\r\nHost: x\r\n{header}\r\n");
    let asked = tokio::task::spawn_blocking(move || {
        let mut connector = SslConnector::builder(SslMethod::tls_client()).unwrap();
        connector.set_verify(SslVerifyMode::NONE);
        let connection = std::net::TcpStream::connect(address).unwrap();
        let mut stream = connector.build().connect("localhost", connection).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    });
    let answer = tokio::time::timeout(Duration::from_secs(5), asked);
    answer.await.expect("an answer in time").unwrap()
}

/// Connects from there, says nothing, and does so again whenever it was hung up on.
async fn be_silent(address: SocketAddr, from: IpAddr) {
    loop {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind(SocketAddr::new(from, 0)).unwrap();
        if let Ok(mut stream) = socket.connect(address).await {
            let _ = stream.read(&mut [0; 1]).await;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn silent_clients_keep_nobody_from_metrics() {
    let address = served().await;
    for number in 0..160_u8 {
        let from = IpAddr::from([127, 0, 0, 2 + number % 10]);
        tokio::spawn(be_silent(address, from));
    }
    tokio::time::sleep(Duration::from_millis(300)).await;
    for _ in 0..3 {
        let answer = scrape(address, "").await;
        assert!(answer.starts_with("HTTP/1.1 401"), "{answer}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_shows_too_many_unknown_tokens_is_told_to_ask_later() {
    let address = served().await;
    let no_token = scrape(address, "Authorization: Bearer a,b\r\n").await;
    assert!(no_token.starts_with("HTTP/1.1 401"), "{no_token}");
    let begin = Instant::now();
    let (mut asked, mut refused) = (0, 0);
    for number in 0..60 {
        let header = format!("Authorization: Bearer made.up.{number}\r\n");
        let answer = scrape(address, &header).await;
        match answer.split(' ').nth(1).unwrap() {
            // There is no API server.
            "503" => asked += 1,
            "429" => {
                assert!(answer.to_lowercase().contains("\r\nretry-after: 1\r\n"));
                refused += 1;
            }
            _ => panic!("{answer}"),
        }
    }
    // Five at once and two a second more.
    let bound = 6 + 2 * begin.elapsed().as_secs();
    assert!(asked <= bound && asked >= 5, "{asked} of {bound}");
    assert!(refused > 0);
}
