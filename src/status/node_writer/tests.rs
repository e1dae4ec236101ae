use super::*;
use crate::client::deadline;
use crate::status::server::Server;

struct Rig {
    server: Server,
    writer: NodeWriter,
}

impl Rig {
    fn new() -> Self {
        let server = Server::default();
        let client = server.client();
        let events = EventSink::new(&client, None);
        let writer = NodeWriter::new(&client, events, Metrics::default());
        Self { server, writer }
    }

    /// Returns which statuses are written of those that differ, and whether one failed.
    async fn writes(&mut self, version: u64, nodes: &[&str]) -> (Vec<String>, bool) {
        let wanted = NodeStatuses {
            version,
            by_name: nodes.iter().map(|node| decided(node)).collect(),
        };
        let latest = |node: &str| wanted.by_name.get(node).cloned();
        let failed = self.writer.reconcile(&wanted, latest).await;
        let mut asked = self.server.asked();
        asked.sort();
        (asked, failed.is_some())
    }
}

fn decided(node: &str) -> (String, NodeStatus) {
    let status = NodeStatus {
        uid: String::new(),
        previous: Some(WindowsNodeStorageStatus::default()),
        status: WindowsNodeStorageStatus {
            management: "Managed".to_owned(),
            ..WindowsNodeStorageStatus::default()
        },
    };
    (node.to_owned(), status)
}

#[tokio::test]
async fn a_status_is_not_written_again_before_the_watch_has_brought_it() {
    let mut rig = Rig::new();
    assert_eq!(rig.writes(0, &["a"]).await.0, ["a"]);
    assert_eq!(rig.writes(0, &["a", "b"]).await.0, ["b"]);
    assert_eq!(
        rig.writes(1, &["a", "b"]).await.0,
        ["a"],
        "by the index again"
    );
    assert_eq!(rig.writes(2, &["b"]).await.0, ["b"]);
}

#[tokio::test]
async fn a_status_that_cannot_be_written_delays_no_other() {
    let mut rig = Rig::new();
    rig.server.refuse(&["a"]);
    let (asked, has_failed) = rig.writes(0, &["a", "b"]).await;
    assert!(has_failed && asked == ["a", "b"], "{asked:?}");
    let (asked, has_failed) = rig.writes(0, &["a", "c"]).await;
    assert!(has_failed && asked == ["c"], "{asked:?}");
    assert_eq!(rig.writes(9, &[]).await, (Vec::new(), false));
    let (asked, _) = rig.writes(9, &["a"]).await;
    assert_eq!(asked, ["a"], "what is wanted anew has not failed");
}

#[tokio::test]
async fn what_is_not_wanted_any_more_when_its_turn_comes_is_not_written() {
    let mut rig = Rig::new();
    let wanted = NodeStatuses {
        version: 0,
        by_name: ["a", "b"].map(decided).into(),
    };
    let latest = |node: &str| (node == "b").then(|| decided(node).1);
    let failed = rig.writer.reconcile(&wanted, latest).await;
    assert!(failed.is_none());
    assert_eq!(rig.server.asked(), ["b"]);
}

#[tokio::test]
async fn many_are_written_at_once() {
    // A server that accepts requests and never responds.
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let config = kube::Config::new(address.parse().unwrap());
    let client = Client::try_from(config).unwrap();
    let events = EventSink::new(&client, None);
    let mut writer = NodeWriter::new(&client, events, Metrics::default());
    let nodes = (0..=CONCURRENT_WRITES).map(|number| decided(&format!("win-{number}")));
    let wanted = NodeStatuses {
        version: 0,
        by_name: nodes.collect(),
    };
    let latest = |node: &str| wanted.by_name.get(node).cloned();
    let begun = async {
        let mut held = Vec::new();
        while held.len() < CONCURRENT_WRITES {
            // No write waits for another.
            let taken = tokio::time::timeout(deadline::CALL / 2, listener.accept()).await;
            held.push(taken.unwrap().unwrap());
        }
    };
    tokio::select! {
        failed = writer.reconcile(&wanted, latest) => panic!("nobody has answered: {failed:?}"),
        () = begun => {}
    }
}
