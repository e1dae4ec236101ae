//! A minimal kubelet, from which the API server requests logs: HTTPS.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use openssl::ssl::{SslAcceptor, SslFiletype, SslMethod};
use serde_json::json;
use testbed::objects::NAMESPACE;

use crate::cluster::harness::Harness;

/// A kubelet with one pod, whose only container has been restarted once.
pub struct Kubelet {
    port: u16,
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Kubelet {
    /// Starts a kubelet, and creates its node with the operator's pod on it.
    pub fn start(harness: &Harness) -> Self {
        let folder = harness.control_plane().dir().join("kubelet");
        fs::create_dir(&folder).unwrap();
        let control_plane = harness.control_plane();
        control_plane.write_certificate(&folder, "linux-1").unwrap();
        let mut acceptor = SslAcceptor::mozilla_intermediate_v5(SslMethod::tls_server()).unwrap();
        let (certificate, key) = (folder.join("tls.crt"), folder.join("tls.key"));
        acceptor.set_certificate_chain_file(certificate).unwrap();
        acceptor
            .set_private_key_file(key, SslFiletype::PEM)
            .unwrap();
        let acceptor = acceptor.build();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let ends = Arc::new(AtomicBool::new(false));
        let is_over = Arc::clone(&ends);
        let thread = std::thread::spawn(move || {
            for stream in listener.incoming() {
                if is_over.load(Ordering::Relaxed) {
                    return;
                }
                // If a request fails, the API server retries it.
                let _ = answer(&acceptor, stream.unwrap());
            }
        });
        run_operator(harness, port);
        Self {
            port,
            ends,
            thread: Some(thread),
        }
    }
}

/// Creates a node with a kubelet at this port, and the operator's pod on it.
fn run_operator(harness: &Harness, port: u16) {
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "linux-1", "labels": {"kubernetes.io/os": "linux"}}});
    let label = json!({"app.kubernetes.io/name": "windows-storage-operator"});
    let pod = json!({"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "windows-storage-operator-0", "namespace": NAMESPACE, "labels": label},
            "spec": {"nodeName": "linux-1", "automountServiceAccountToken": false,
                "serviceAccountName": "windows-storage-operator", "tolerations": [{"operator": "Exists"}],
                "securityContext": {"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}},
                "containers": [{"name": "operator", "image": "example.com/operator:1", "securityContext":
                    {"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}}}]}});
    for object in [node, pod] {
        harness.apply(&object.to_string());
    }
    let node = json!({"status": {"addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": port}}}});
    let started = json!({"running": {"startedAt": "2026-01-01T00:00:00Z"}});
    let pod = json!({"status": {"phase": "Running", "containerStatuses": [{"name": "operator", "ready": true,
            "restartCount": 1, "image": "a", "imageID": "a", "state": started}]}});
    for (object, status) in [
        ("node/linux-1", node),
        ("pod/windows-storage-operator-0", pod),
    ] {
        harness.patch_status(object, &status);
    }
}

impl Drop for Kubelet {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        // Unblocks the thread, so that it sees the flag.
        let _ = TcpStream::connect(("127.0.0.1", self.port));
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn answer(acceptor: &SslAcceptor, stream: TcpStream) -> std::io::Result<()> {
    let stream = acceptor.accept(stream).map_err(std::io::Error::other)?;
    let mut stream = BufReader::new(stream);
    let mut first = String::new();
    stream.read_line(&mut first)?;
    let mut line = String::new();
    while stream.read_line(&mut line)? > 2 {
        line.clear();
    }
    let path = format!("GET /containerLogs/{NAMESPACE}/windows-storage-operator-0/operator?");
    let log = match first.contains("previous=true") {
        _ if !first.starts_with(&path) => "",
        true => "of before\n",
        false => "of then, token=hunter2\nof now\n",
    };
    let length = log.len();
    let stream = stream.get_mut();
    write!(
        stream,
        "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{log}"
    )?;
    stream.flush()?;
    let _ = stream.shutdown();
    Ok(())
}
