//! Events for people: one per cause, on every kind of object that people look at, and every message is a sentence.

use std::time::Duration;

use serde_json::Value;

use crate::cluster::harness::{Harness, assert_has};

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
    let claim = harness.expect_one("PersistentVolumeClaim", "orders", "DriversMissing");
    assert_eq!(claim["type"], "Warning");
    let note = claim["note"].as_str().unwrap();
    assert_has(note, &["disk.csi.azure.com", "win-1", "web-0"]);
    let uid = harness.kubectl("get pvc orders -n shop -o jsonpath={.metadata.uid}");
    assert_eq!(claim["regarding"]["uid"], uid.as_str());
    let pod = harness.expect_one("Pod", "old-0", "NoCSIMigration");
    assert_eq!(pod["metadata"]["namespace"], "shop");
    // A pod with a claim is reported on its claim.
    assert!(harness.events("Pod", "web-0").is_empty());
    harness.expect_one("WindowsStorage", "cluster", "NoCSIMigration");
    harness.expect_one("Node", "win-1", "DriversMissing");
    harness.expect_one("WindowsNodeStorage", "win-1", "DriversMissing");
    let described = harness.kubectl("describe pvc orders -n shop");
    assert!(described.contains("DriversMissing"), "{described}");

    // Nothing is reported twice by the same process. A new process tells once more of volumes that still hold upgrades.
    let told = || {
        let objects = [
            ("PersistentVolumeClaim", "orders"),
            ("Pod", "old-0"),
            ("WindowsStorage", "cluster"),
            ("Node", "win-1"),
            ("WindowsNodeStorage", "win-1"),
        ];
        objects.map(|(kind, name)| {
            let events = harness.events(kind, name);
            let versions = events.iter().map(|event| event["metadata"].clone());
            versions.collect::<Vec<_>>()
        })
    };
    let before = told();
    operator.kill().unwrap();
    let _operator = harness.start();
    harness.eventually("the second process has told of both volumes", || {
        let now = told();
        now[0].len() == 2 && now[1].len() == 2
    });
    assert_eq!(told()[2..], before[2..]);

    // A problem that recurs increases the count of the same event.
    let counts = || {
        std::thread::sleep(Duration::from_secs(1));
        let events = harness.events("PersistentVolumeClaim", "orders");
        let mut counts = events.iter().map(|event| event["series"]["count"].as_u64());
        events.len() == 2 && counts.any(|count| count >= Some(2))
    };
    let another = ["disk.csi.azure.com", "another.example.com"];
    harness.eventually("the event counts", || {
        // Changes are processed at most once a second, so anything shorter is not reported.
        for drivers in [&another[..1], &another, &[]] {
            harness.sandbox.register("win-1", drivers).unwrap();
            harness.expect_registered("win-1", !drivers.is_empty());
            std::thread::sleep(Duration::from_secs(2));
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
