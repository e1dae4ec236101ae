//! What nodes and administrators of nodes say: answers of the agent, host keys, users, the SSH key; and what other
//! operators say, in the Lease.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::LeaseSpec;
use protocol::{Answer, NodeState};
use windows_storage_operator::api::{PrivateKeySecretRef, WindowsNodeStorageStatus};
use windows_storage_operator::assess::report::NodeReadiness;
use windows_storage_operator::index::Secret;
use windows_storage_operator::lease::{Decision, LEASE_SECONDS, Record};
use windows_storage_operator::node::{
    HostKey, KnownHosts, NodePlan, Observation, Output, brief, check_private_key, parse_answer,
    printable,
};
use windows_storage_operator::status::{NodeInputs, node_status};
use zeroize::Zeroizing;

use super::{SEPARATOR, parts};
use crate::compare::{are_visible, is_visible};

/// The most that a node can put into its own status, in bytes: an object may have 1.5 MB, and an event 1 kB.
const MOST_STATUS: usize = 64 * 1024;

/// What a command on a node has printed. Whatever it is, the node's status stays small and harmless.
pub fn agent_answer(bytes: &[u8]) {
    let [stdout, stderr] = parts::<2>(bytes);
    let output = Output {
        stdout,
        stderr,
        status: 1,
    };
    let said = brief(&output);
    is_visible(&said, "what was printed");
    assert!(said.len() <= 300 * 4 + 100, "{said}");
    let Some(answer) = parse_answer(&output) else {
        return;
    };
    let text = serde_json::to_string(&answer).unwrap();
    assert_eq!(serde_json::from_str::<Answer>(&text).unwrap(), answer);
    match answer {
        Answer::Status(state) => status(state),
        Answer::ApplyResult(result) => {
            if let Some(failure) = &result.end.failure {
                let shown = printable(&failure.message);
                is_visible(&shown, "a failure");
                assert!(shown.chars().count() <= 2501);
            }
            status(result.state);
        }
        Answer::Installed { state, .. } => state.into_iter().for_each(|state| status(*state)),
        Answer::Uninstalled {} => {}
        Answer::Error(failure) => is_visible(&printable(&failure.message), "a failure"),
    }
}

fn status(state: NodeState) {
    let observation = Observation {
        state: Some(state),
        ..Observation::default()
    };
    let readiness = NodeReadiness {
        name: "win-1".to_owned(),
        csi_node: true,
        drivers: Vec::new(),
        missing_drivers: Vec::new(),
        ready: true,
        findings: Vec::new(),
        needs_csi_proxy: true,
    };
    let inputs = NodeInputs {
        csi_proxy_use: None,
        pool: None,
        readiness: &readiness,
        plan: &NodePlan::Waiting,
        observation: Some(&observation),
        csi_proxy: ("0", "v1.3.0"),
    };
    let before = WindowsNodeStorageStatus::default();
    let status = node_status(&before, &inputs, Timestamp::UNIX_EPOCH);
    let written = serde_json::to_value(&status).unwrap();
    are_visible(&written, "the status");
    let length = written.to_string().len();
    assert!(length <= MOST_STATUS, "a status of {length} bytes");
}

/// Lines of `known_hosts`, after one with an address and a port; and pins and users, which are as short.
pub fn known_hosts(bytes: &[u8]) {
    let [place, text] = parts::<2>(bytes);
    let (address, port) = place.split_once(' ').unwrap_or((&place, "22"));
    let port = port.parse().unwrap_or(22);
    let hosts = KnownHosts::parse(&text);
    assert!(hosts.ignored.len() <= text.lines().count());
    let known = hosts.look_up(address, port);
    assert_eq!(known, hosts.look_up(&address.to_lowercase(), port));
    for key in known.keys.iter().chain(&known.revoked) {
        assert_eq!(HostKey::parse(&key.to_string()), *key);
        assert!(text.contains(key.kind()), "{key}");
        let sum = key.fingerprint();
        assert!(sum.starts_with("SHA256:") && sum.len() == 50, "{sum}");
    }
    // A line that nobody understands takes nothing away from the others.
    let with_more = KnownHosts::parse(&format!("{text}\n?\n@unknown a b c"));
    assert_eq!(known, with_more.look_up(address, port));
    for line in text.lines() {
        let pin = HostKey::parse(line);
        assert_eq!(HostKey::parse(&pin.to_string()), pin);
    }
}

/// The Secret: a private key, and its passphrase. Neither shows in what is said of it.
pub fn private_key(bytes: &[u8]) {
    let separator = SEPARATOR.as_bytes();
    let mut windows = bytes.windows(separator.len());
    let at = windows.position(|window| window == separator);
    let mut data = BTreeMap::new();
    let mut put = |name: &str, value: &[u8]| {
        let value = Zeroizing::new(value.to_vec());
        data.insert(name.to_owned(), value);
    };
    put("private-key.pem", &bytes[..at.unwrap_or(bytes.len())]);
    if let Some(at) = at {
        put("passphrase", &bytes[at + separator.len()..]);
    }
    let wanted = PrivateKeySecretRef::default();
    match check_private_key(Some(&Secret::Data(data)), "ns", &wanted) {
        Ok(key) => {
            let shown = format!("{key:?}");
            assert!(shown.len() < 40, "{shown}");
            assert!(key.pem().starts_with("-----BEGIN "));
        }
        // As long as its own words.
        Err(error) => assert!(error.message.len() < 400, "{error}"),
    }
}

/// What a Lease says, one line of JSON after the other, a second apart. Nobody takes what another holder has renewed.
pub fn lease(bytes: &[u8]) {
    const SECOND: Duration = Duration::from_secs(1);
    let mut record = Record::default();
    let mut now = SECOND * 1_000;
    let mut before: Option<(LeaseSpec, Duration)> = None;
    for line in String::from_utf8_lossy(bytes).lines() {
        let Ok(spec) = serde_json::from_str::<LeaseSpec>(line) else {
            continue;
        };
        let holder = spec.holder_identity.as_deref().unwrap_or_default();
        let is_foreign = !holder.is_empty() && holder != "us";
        let seen = match &before {
            Some((then, seen)) if *then == spec && is_foreign => *seen,
            _ => now,
        };
        match record.next(Some(&spec), "us", now) {
            Decision::Wait {
                holder: who,
                free_at,
            } => {
                assert_eq!(who, holder);
                assert!(is_foreign && now < free_at);
            }
            Decision::Write(ours) => {
                let said = u64::try_from(spec.lease_duration_seconds.unwrap_or_default());
                let lasts = said.ok().filter(|seconds| *seconds > 0);
                let lasts = Duration::from_secs(lasts.unwrap_or(LEASE_SECONDS.into()));
                assert!(
                    !is_foreign || now >= seen + lasts,
                    "taken from {holder}: {line}"
                );
                assert_eq!(ours.holder_identity.as_deref(), Some("us"));
                assert_eq!(ours.lease_duration_seconds, Some(LEASE_SECONDS.into()));
                let (then, now) = (spec.lease_transitions, ours.lease_transitions);
                assert!(now >= then, "{then:?}, then {now:?}");
            }
        }
        if is_foreign {
            before = Some((spec, seen));
        }
        now += SECOND;
    }
}
