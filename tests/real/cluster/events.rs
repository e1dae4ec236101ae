//! Events for people: one per cause, on every kind of object that people look at, and every message is a sentence.

use std::time::Duration;

use serde_json::Value;

use crate::cluster::harness::Harness;

const RBD: &str = "
apiVersion: v1
kind: Pod
metadata: {name: old-0, namespace: shop}
spec:
  nodeName: win-1
  containers: [{name: web, image: web}]
  volumes: [{name: data, rbd: {monitors: [a], image: b}}]
";

impl Harness {
    /// Returns the events that this operator has written about an object.
    fn events(&self, kind: &str, name: &str) -> Vec<Value> {
        let events = self.list("events");
        let ours = events["items"].as_array().unwrap().iter().filter(|event| {
            event["reportingController"] == "windows-storage-operator"
                && event["regarding"]["kind"] == kind
                && event["regarding"]["name"] == name
        });
        ours.cloned().collect()
    }

    /// Waits for the event with this reason about an object, and asserts that there is only one.
    fn expect_one(&self, kind: &str, name: &str, reason: &str) -> Value {
        let mut found = Vec::new();
        self.eventually(&format!("event {reason} on {kind} {name}"), || {
            found = self.events(kind, name);
            found.retain(|event| event["reason"] == reason);
            !found.is_empty()
        });
        assert_eq!(found.len(), 1, "{found:#?}");
        found.remove(0)
    }
}

#[test]
fn every_object_that_people_look_at_tells_once_what_is_wrong() {
    let harness = Harness::held();
    let control_plane = harness.control_plane();
    control_plane.apply(RBD).unwrap();
    let operator = harness.start();
    let settings = harness.expect_one("WindowsStorage", "cluster", "NoCSIMigration");
    assert_eq!(settings["type"], "Warning");
    let status = harness.expect_one("WindowsNodeStorage", "win-1", "DriversMissing");
    let uid = harness.kubectl("get windowsnodestorage win-1 -o jsonpath={.metadata.uid}");
    assert_eq!(status["regarding"]["uid"], uid.as_str());
    harness.expect_one("Node", "win-1", "DriversMissing");
    let described = harness.kubectl("describe node win-1");
    assert!(described.contains("DriversMissing"), "{described}");

    // Neither this process nor the next one tells anything twice.
    operator.kill().unwrap();
    let _operator = harness.start();
    harness.register("win-1", true);
    harness.expect_one("Node", "win-1", "DriversRegistered");
    harness.expect_one("Node", "win-1", "DriversMissing");
    harness.expect_one("WindowsStorage", "cluster", "NoCSIMigration");

    // A problem that recurs increases the count of the same event.
    let counts = || {
        std::thread::sleep(Duration::from_secs(1));
        let mut events = harness.events("Node", "win-1");
        events.retain(|event| event["reason"] == "DriversMissing");
        let mut counts = events.iter().map(|event| event["series"]["count"].as_u64());
        events.len() == 2 && counts.any(|count| count >= Some(2))
    };
    harness.eventually("the event counts", || {
        for is_registered in [false, true] {
            harness.register("win-1", is_registered);
            harness.expect_registered("win-1", is_registered);
        }
        (0..30).any(|_| counts())
    });
    harness.assert_nothing_was_forbidden();
    harness.assert_sentences();
}

impl Harness {
    /// Asserts that each message of a condition or an event is a sentence for people.
    pub fn assert_sentences(&self) {
        let messages = self.messages();
        assert!(messages.len() > 8, "{messages:?}");
        for (object, message) in messages {
            assert_eq!(fault_of(&message), None, "{object}: {message}");
        }
    }

    /// Returns the messages of all conditions and events, with the object that they are about.
    fn messages(&self) -> Vec<(String, String)> {
        let mut messages = Vec::new();
        let kinds = ["windowsstorages", "windowsnodestorages"].map(|kind| self.list(kind));
        let objects = kinds
            .iter()
            .flat_map(|list| list["items"].as_array().unwrap());
        for object in objects {
            for condition in object["status"]["conditions"]
                .as_array()
                .into_iter()
                .flatten()
            {
                let name = format!("{} {}", object["kind"], condition["type"]);
                messages.push((name, condition["message"].as_str().unwrap().to_owned()));
            }
        }
        let events = self.list("events");
        for event in events["items"].as_array().unwrap() {
            if event["reportingController"] == "windows-storage-operator" {
                let note = event["note"].as_str().unwrap().to_owned();
                assert!(note.len() <= 1024);
                messages.push((format!("event {}", event["reason"]), note));
            }
        }
        messages
    }
}

/// Returns why a message is not a sentence, if it is not.
fn fault_of(message: &str) -> Option<&'static str> {
    let word = message
        .split([' ', ':', ',', ';'])
        .next()
        .unwrap_or_default();
    let is_name = !word.bytes().all(|byte| byte.is_ascii_lowercase())
        || ["pod", "statefulset", "deployment"].contains(&word);
    let debug = [
        "Some(", "None)", "Err(", "Ok(", "\\u{", "\\\"", "::", "{ ", "[\"", "()",
    ];
    if word.is_empty() || !is_name {
        Some("it begins with neither a capital letter nor a name")
    } else if debug.iter().any(|trace| message.contains(trace)) {
        Some("it has what only a programmer would write")
    } else if message.ends_with([' ', ':', ';', ',', '(']) {
        Some("it does not end")
    } else if message.chars().any(char::is_control) {
        Some("it has control characters")
    } else if message.chars().count() > 2501 {
        Some("it is too long")
    } else {
        None
    }
}
