use std::sync::Mutex;

use futures::FutureExt;
use futures::future::join_all;
use serde_json::Value;

use super::*;
use crate::client::answering::{answering, failure};

/// The pins of a server, how often they were written, and how often it was asked.
type Stored = Arc<Mutex<(Value, usize, usize)>>;

fn pins(stored: &Stored) -> Pins {
    let stored = Arc::clone(stored);
    let client = answering(move |method, _, body| {
        let (data, writes, asked) = &mut *stored.lock().unwrap();
        *asked += 1;
        let known = json!({"metadata": {"resourceVersion": writes.to_string()}, "data": data});
        if method == http::Method::GET {
            let mut none = failure(404);
            none.1["reason"] = json!("NotFound");
            return if *writes == 0 { none } else { (200, known) };
        }
        let change: Value = serde_json::from_slice(body).unwrap();
        let of = change["metadata"]["resourceVersion"].as_str();
        if of.is_some_and(|of| of != writes.to_string()) {
            return failure(409);
        }
        *writes += 1;
        for (node, pin) in change["data"].as_object().unwrap() {
            data[node] = pin.clone();
        }
        (200, known)
    });
    Pins::new(Api::namespaced(client, "ns"), "ns".to_owned())
}

#[tokio::test]
async fn those_that_wait_are_pinned_in_one_write_but_who_gave_up_and_who_shows_another_key() {
    let stored = Stored::default();
    let pins = pins(&stored);
    let (key, other) = (HostKey::new("a", b"a"), HostKey::new("b", b"b"));
    let names: Vec<String> = (0..100).map(|number| format!("win-{number}")).collect();
    let writing = pins.writing.lock().await;
    assert!(pins.pin("gone", &key).now_or_never().is_none());
    drop(writing);
    let contacts = names.iter().map(|node| pins.pin(node, &key));
    for pinned in join_all(contacts).await {
        pinned.unwrap();
    }
    let (data, writes, asked) = stored.lock().unwrap().clone();
    // The first one found nobody else.
    let count = data.as_object().unwrap().len();
    assert_eq!((count, writes, asked), (100, 2, 4), "{data}");

    let contacts = [
        ("new-1", &key),
        ("new-2", &key),
        ("win-1", &other),
        ("new-3", &key),
    ];
    let pinned = join_all(contacts.map(|(node, key)| pins.pin(node, key))).await;
    assert!(matches!(&pinned[..], [Ok(()), Ok(()), Err(_), Ok(())]));
    let (data, writes, asked) = stored.lock().unwrap().clone();
    assert_eq!(data["win-1"], format!("{key} {FIRST_CONTACT}"));
    let count = data.as_object().unwrap().len();
    assert_eq!((count, writes, asked), (103, 4, 9));
}
