//! Packed files: unpacked once they have arrived, and refused without leftovers if they are not as announced.

use std::fs::{self, File};
use std::time::{Duration, SystemTime};

use protocol::paths::{AGENT_EXE, INCOMING_DIR};
use protocol::{Answer, ApplyResult, FailureCategory, Outcome, Packed, Request};
use ruzstd::encoding::{CompressionLevel, compress_to_vec};

use crate::host::{Node, is_well, request, sha256, upload_path};
use crate::standin::variant;

fn packed_path(id: &str) -> String {
    format!(r"{INCOMING_DIR}\csi-proxy-{id}.zst")
}

/// Returns a request for this content, which is uploaded as `packed`.
fn announced(id: &str, content: &[u8]) -> Request {
    let mut request = request(&format!("request-{id}"));
    request.sha256 = sha256(content);
    request.upload = Some(upload_path(id));
    request.packed = Some(Packed {
        path: packed_path(id),
        unpacked_size: content.len() as u64,
    });
    request
}

fn pack(content: &[u8]) -> Vec<u8> {
    compress_to_vec(content, CompressionLevel::Fastest)
}

/// Uploads a request and its packed file, and applies it.
fn apply(node: &Node, request: &Request, packed: &[u8]) -> Answer {
    let path = &request.packed.as_ref().unwrap().path;
    fs::write(node.local(path), packed).unwrap();
    node.upload_request(request);
    node.answer(&command(request))
}

fn command(request: &Request) -> String {
    format!(
        r"{AGENT_EXE} apply --request {INCOMING_DIR}\{}.json",
        request.id
    )
}

fn result(answer: Answer) -> ApplyResult {
    match answer {
        Answer::ApplyResult(result) => result,
        other => panic!("{other:?}"),
    }
}

fn left_in_incoming(node: &Node) -> Vec<String> {
    let entries = fs::read_dir(node.local(INCOMING_DIR)).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name != "agent.exe").collect()
}

#[test]
fn what_comes_packed_is_unpacked_or_refused() {
    let (good, better) = (variant(0), variant(1));
    let node = Node::new();
    let packed = pack(&good);
    let first = announced("first", &good);
    // Left behind by a reconcile that was interrupted hours ago, and by one whose request may still wait for this one.
    for name in ["earlier", "waiting"] {
        fs::write(node.local(&packed_path(name)), &packed[..9]).unwrap();
    }
    let hours_ago = SystemTime::now() - Duration::from_secs(2 * 3_600);
    let earlier = File::options()
        .append(true)
        .open(node.local(&packed_path("earlier")));
    earlier.unwrap().set_modified(hours_ago).unwrap();
    let applied = result(apply(&node, &first, &packed));
    assert_eq!(applied.end.outcome, Outcome::Applied, "{applied:?}");
    assert!(is_well(&applied.state, &good), "{applied:?}");
    assert_eq!(left_in_incoming(&node), ["csi-proxy-waiting.zst"]);
    fs::remove_file(node.local(&packed_path("waiting"))).unwrap();

    let packed = pack(&better);
    let other = pack(&variant(2));
    let longer = pack(&[better.as_slice(), &[0; 1000]].concat());
    for (id, content, packed) in [
        ("half", &better, &packed[..packed.len() / 2]),
        ("other", &better, &other),
        ("longer", &better, &longer),
        ("garbage", &better, b"MZ is nothing that was ever packed"),
    ] {
        let bad = announced(id, content);
        let Answer::Error(failure) = apply(&node, &bad, packed) else {
            panic!("{id} was carried out")
        };
        assert_eq!(
            failure.category,
            FailureCategory::BadUpload,
            "{id}: {failure:?}"
        );
        assert_eq!(left_in_incoming(&node), [""; 0], "{id}");
        assert!(is_well(&node.state(), &good), "{id}");
    }
    let absent = announced("absent", &better);
    node.upload_request(&absent);
    let Answer::Error(failure) = node.answer(&command(&absent)) else {
        panic!("nothing was unpacked")
    };
    assert_eq!(failure.category, FailureCategory::BadUpload);

    let better_packed = announced("better", &better);
    let applied = result(apply(&node, &better_packed, &packed));
    assert_eq!(applied.end.outcome, Outcome::Applied, "{applied:?}");
    assert!(is_well(&applied.state, &better), "{applied:?}");
    assert_eq!(left_in_incoming(&node), [""; 0]);
}
