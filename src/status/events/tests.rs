use serde_json::Value;

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

fn draft(object: &ObjectReference, reason: &str) -> Draft {
    Draft {
        subject: Subject::Object(object.clone()),
        warning: true,
        action: "Ready".to_owned(),
        reason: reason.to_owned(),
        note: "It is not.".to_owned(),
        driver: None,
        lasting: false,
    }
}

/// Publishes drafts to a server that returns `answers`. Returns each request's method, with the reason or series count.
async fn publish(drafts: Vec<Draft>, answers: &[u16]) -> Vec<String> {
    let seen: Arc<Mutex<Vec<String>>> = Arc::default();
    let (noted, answers) = (Arc::clone(&seen), answers.to_vec());
    let answer = move |method: axum::http::Method, body: String| async move {
        let event: Value = serde_json::from_str(&body).unwrap();
        let count = event["series"]["count"].to_string();
        let said = event["reason"].as_str().unwrap_or(&count);
        let mut seen = noted.lock().unwrap();
        seen.push(format!("{method} {said}"));
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
    let publisher = Publisher::new(&client(&address), None);
    for draft in drafts {
        // Whether it was published shows in what the server has seen.
        let _ = publisher.publish_with_retries(&draft).await;
    }
    seen.lock().unwrap().clone()
}

#[tokio::test]
async fn an_event_that_happens_again_is_counted_and_one_that_lasts_is_not() {
    let win = node("win-1");
    let changed = draft(&win, "A");
    let seen = publish(vec![changed.clone(), changed], &[201, 409, 200]).await;
    assert_eq!(seen, ["POST A", "POST A", "PATCH 2"]);
    let lasting = Draft {
        lasting: true,
        ..draft(&win, "A")
    };
    // An earlier process published the first; this process sees it end and recur.
    let seen = publish(vec![lasting.clone(), lasting], &[409, 409, 200]).await;
    assert_eq!(seen, ["POST A", "POST A", "PATCH 2"]);
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
        sink.publish(draft(&node(&format!("win-{number}")), "No"));
    }
    assert_eq!(sink.0.sender.capacity(), 0);
    assert!(sink.0.overflowed.load(Ordering::Relaxed));
}

#[test]
fn a_name_fits_and_differs_for_another_object_or_driver() {
    let name = |name: &str, uid: &str, driver: &str| {
        let mut object = node(name);
        object.uid = Some(uid.to_owned());
        let draft = Draft {
            driver: Some(driver.to_owned()),
            ..draft(&object, "DriversMissing")
        };
        event_name(&object, event_id(&draft, &object))
    };
    let first = name("data", "1", "a");
    assert!(first.starts_with("data."), "{first}");
    assert_eq!(first, name("data", "1", "a"));
    assert_ne!(first, name("data", "1", "b"));
    assert_ne!(first, name("data", "2", "a"), "a recreated object");
    let long = name(
        &format!("{}-.{}", "x".repeat(218), "y".repeat(30)),
        "1",
        "a",
    );
    assert!(long.len() <= 253 && !long.contains("-."), "{long}");
}
