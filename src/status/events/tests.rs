use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use super::*;

fn client(address: &str) -> Client {
    Client::try_from(kube::Config::new(address.parse().unwrap())).unwrap()
}

fn node(name: &str) -> ObjectReference {
    ObjectReference {
        kind: Some("Node".to_owned()),
        name: Some(name.to_owned()),
        uid: Some(name.to_owned()),
        ..ObjectReference::default()
    }
}

fn draft(object: &ObjectReference, reason: &str) -> (ObjectReference, Event) {
    (object.clone(), warning("Ready", reason, "It is not."))
}

/// Publishes drafts to a server that returns `answers`. Returns each request's method, with the reason and the count in its series.
async fn publish(drafts: Vec<(ObjectReference, Event)>, answers: &[u16]) -> Vec<String> {
    let seen: Arc<Mutex<Vec<String>>> = Arc::default();
    let (noted, answers) = (Arc::clone(&seen), answers.to_vec());
    let answer = move |method: axum::http::Method, body: String| async move {
        let event: Value = serde_json::from_str(&body).unwrap();
        let count = event["series"]["count"].as_i64();
        let count = count.map_or(String::new(), |count| format!(" {count}"));
        let reason = event["reason"].as_str().unwrap_or_default();
        let mut seen = noted.lock().unwrap();
        seen.push(format!("{method} {reason}{count}"));
        let code = answers.get(seen.len() - 1).copied().unwrap_or(201);
        let code = axum::http::StatusCode::from_u16(code).unwrap();
        let status = json!({"kind": "Status", "code": code.as_u16(), "reason": "", "message": ""});
        let body = if code.is_success() { event } else { status };
        (code, body.to_string())
    };
    let router = axum::Router::new().fallback(answer);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async { axum::serve(listener, router).await });
    let recorder = Recorder::new(client(&address), CONTROLLER.into());
    for (object, event) in drafts {
        // Whether it was published shows in what the server has seen.
        let _ = publish_with_retries(&recorder, &object, &event).await;
    }
    seen.lock().unwrap().clone()
}

#[tokio::test]
async fn an_event_that_happens_again_is_counted_and_one_about_another_object_is_not() {
    let drafts = ["win-1", "win-1", "win-2"].map(|name| draft(&node(name), "A"));
    let seen = publish(drafts.into(), &[]).await;
    assert_eq!(seen, ["POST A", "PATCH A 2", "POST A"]);
}

#[tokio::test]
async fn a_server_that_is_busy_is_asked_again_and_one_that_refuses_is_not() {
    let win = node("win-1");
    let seen = publish(vec![draft(&win, "A"), draft(&win, "B")], &[503, 201, 403]).await;
    assert_eq!(seen, ["POST A", "POST A", "POST B"]);
}

#[tokio::test]
async fn nothing_waits_for_a_silent_server_and_the_queue_is_bounded() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let sink = EventSink::new(&client(&address), None);
    for number in 0..2 * QUEUE {
        let (object, event) = draft(&node(&format!("win-{number}")), "No");
        sink.publish(object, event);
    }
    assert_eq!(sink.queue.capacity(), 0);
}
