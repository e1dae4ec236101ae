//! Leader election: one operator leads, and another takes over without ever acting at the same time.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use testbed::api_proxy::{ApiProxy, Fault, On, Seen, Verb};
use testbed::objects::NAMESPACE;
use testbed::sandbox::Operator;
use windows_storage_operator::lease::LEASE_SECONDS;

use crate::cluster::harness::{Harness, assert_has, get_http};

const LEASE: &str = "lease/windows-storage-operator";
const LEASE_DURATION: Duration = Duration::from_secs(LEASE_SECONDS as u64);

/// An operator with its own connection to the API server.
pub struct Candidate {
    name: &'static str,
    pub operator: Operator,
    pub proxy: ApiProxy,
    log: PathBuf,
}

impl Candidate {
    pub fn start(harness: &Harness, name: &'static str) -> Self {
        let dir = harness.control_plane().dir().join(name);
        std::fs::create_dir_all(&dir).unwrap();
        let copy = dir.join("operator.kubeconfig");
        std::fs::copy(harness.command.kubeconfig(), &copy).unwrap();
        let proxy = ApiProxy::start(&copy).unwrap();
        let log = dir.join("operator.log");
        let identity = format!("--leader-elect-identity={name}");
        let arguments = [identity.as_str(), "--serve-address=127.0.0.1:0"];
        let command = harness.command.with_kubeconfig(proxy.kubeconfig());
        let operator = command.start(Some(&log), &arguments, true).unwrap();
        Self {
            name,
            operator,
            proxy,
            log,
        }
    }

    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Returns its writes and attempted writes, except to the lease, and questions about rights.
    pub fn changes(&self) -> Vec<Seen> {
        let changes = [Verb::Create, Verb::Update, Verb::Patch, Verb::Delete];
        let seen = self.proxy.seen().into_iter();
        let is_none = ["leases", "subjectaccessreviews"];
        seen.filter(|seen| changes.contains(&seen.call.verb))
            .filter(|seen| !is_none.contains(&&*seen.call.resource))
            .collect()
    }

    /// Asserts that it wrote nothing more since that time, when its lease had expired while it was stopped.
    ///
    /// One write of each actor may have passed the fence just before the process was stopped, and go to its socket when
    /// the process resumes (seen in one run of fifty beside a load). OperatorCondition and ConfigMaps are safe from it,
    /// because they are written with the resourceVersion that was read, and the successor corrects a status. Events are
    /// sent several at a time, and say what was so.
    pub fn assert_wrote_nothing_since(&self, resumed: Instant) {
        let mut late = self.changes();
        late.retain(|seen| {
            seen.at >= resumed && seen.is_complete() && seen.call.resource != "events"
        });
        late.sort_by_key(|seen| seen.call.resource.clone());
        let is_second = |two: &[Seen]| two[0].call.resource == two[1].call.resource;
        assert!(
            !late.windows(2).any(is_second),
            "written after the lease was lost: {late:#?}"
        );
    }

    /// Returns when it last wrote the lease.
    fn last_renewal(&self) -> Instant {
        let seen = self.proxy.seen();
        let renewals = seen
            .iter()
            .filter(|seen| seen.call.resource == "leases" && seen.call.verb != Verb::Get);
        renewals.map(|seen| seen.at).max().unwrap()
    }

    fn ready(&self) -> String {
        get_http(&self.log(), "readyz?verbose")
    }
}

impl Harness {
    pub fn holder(&self) -> String {
        let lease = self.get(LEASE);
        lease["spec"]["holderIdentity"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    }

    pub fn expect_leader(&self, candidate: &Candidate) {
        self.eventually(&format!("{} leads", candidate.name), || {
            self.holder() == candidate.name
        });
        self.eventually(&format!("{} knows that it leads", candidate.name), || {
            candidate.log().contains("leads lease=")
        });
    }

    pub fn expect_standby(&self, candidate: &Candidate, leader: &str) {
        let told =
            format!("[!]leader-election: standing by: {leader} is the leader\nreadyz check passed");
        self.eventually(
            &format!("{} stands by and is ready", candidate.name),
            || candidate.ready().contains(&told),
        );
    }
}

/// Starts a leader, which has set the gate, and a standby.
fn two(harness: &Harness) -> (Candidate, Candidate) {
    let first = Candidate::start(harness, "first");
    harness.expect_gate("False", "DriversMissing", &["win-1"]);
    let second = Candidate::start(harness, "second");
    harness.expect_standby(&second, "first");
    (first, second)
}

#[test]
fn one_leads_the_other_writes_nothing_and_takes_over_when_it_is_asked_to_stop() {
    let harness = Harness::held();
    let (first, second) = two(&harness);
    harness.register("win-1", true);
    harness.expect_open();
    assert!(!first.changes().is_empty());
    assert_eq!(second.changes().len(), 0, "{:#?}", second.changes());
    let watches = second.proxy.seen();
    let watches = watches.iter().filter(|seen| seen.call.verb == Verb::Watch);
    assert_eq!(
        watches.count(),
        0,
        "who stands by costs the API server next to nothing"
    );

    // A released lease does not have to expire.
    let Candidate { operator, log, .. } = first;
    assert!(operator.terminate().unwrap().success());
    let log = std::fs::read_to_string(log).unwrap();
    assert!(log.contains("the lease is released"), "{log}");
    harness.eventually("the second leads", || harness.holder() == "second");
    harness.register("win-1", false);
    harness.expect_registered("win-1", false);
    harness.expect_gate("False", "DriversMissing", &["win-1"]);
    let lease = harness.get(LEASE);
    assert_eq!(lease["spec"]["leaseTransitions"], 1);

    // Deleting the lease does not end the leader.
    harness.delete(LEASE);
    harness.eventually("there is a lease again", || harness.holder() == "second");
    harness.register("win-1", true);
    harness.expect_registered("win-1", true);
    harness.assert_nothing_was_forbidden();
}

#[test]
fn when_the_leader_dies_another_leads_after_its_lease_and_not_before() {
    let harness = Harness::held();
    let (first, second) = two(&harness);
    let Candidate {
        operator, proxy, ..
    } = first;
    operator.kill().unwrap();
    harness.register("win-1", true);
    // Waits for the status instead, because the gate opens only a minute after it was held.
    harness.expect_registered("win-1", true);
    let renewals = proxy
        .seen()
        .into_iter()
        .filter(|seen| seen.call.resource == "leases");
    let renewed = renewals.map(|seen| seen.at).max().unwrap();
    let taken = second.changes()[0].at;
    assert!(taken >= renewed + LEASE_DURATION, "{:?}", taken - renewed);
}

#[test]
fn a_leader_that_was_stopped_past_its_lease_writes_nothing_when_it_goes_on() {
    let harness = Harness::held();
    let mut leader = Candidate::start(&harness, "candidate-0");
    harness.expect_leader(&leader);
    for (round, name) in ["candidate-1", "candidate-2", "candidate-3"]
        .into_iter()
        .enumerate()
    {
        let successor = Candidate::start(&harness, name);
        harness.expect_standby(&successor, leader.name);
        // Interrupts its work: changes keep coming, and each causes a write.
        for change in 0..10 {
            harness.register("win-1", change % 2 == 0);
        }
        leader.operator.pause(true).unwrap();
        let is_registered = round % 2 == 0;
        harness.register("win-1", is_registered);
        harness.expect_leader(&successor);
        harness.expect_registered("win-1", is_registered);
        // When it resumes, it finds a change that it missed and that requires a write.
        harness.register("win-1", !is_registered);
        harness.expect_registered("win-1", !is_registered);
        let resumed = Instant::now();
        leader.operator.pause(false).unwrap();
        let status = leader.operator.wait().unwrap();
        assert_eq!(status.code(), Some(1), "{}", leader.log());
        let log = leader.log();
        assert!(log.contains("error: "), "{log}");
        assert!(
            log.contains("lease could not be renewed") || log.contains("has acquired the lease"),
            "{log}"
        );
        leader.assert_wrote_nothing_since(resumed);
        leader = successor;
    }
}

#[test]
fn a_leader_that_the_api_server_does_not_answer_ends_before_another_leads() {
    let harness = Harness::held();
    let (mut first, second) = two(&harness);
    let hung = first
        .proxy
        .order(On::to(Verb::Update, "leases"), Fault::Hang);
    let status = first.operator.wait().unwrap();
    let ended = Instant::now();
    assert_eq!(status.code(), Some(1));
    let log = first.log();
    assert_has(&log, &["error: the lease could not be renewed within 10 s"]);
    harness.expect_leader(&second);
    assert!(second.last_renewal() > ended);
    assert!(hung.hits() > 1, "one failure is no reason to give up");
}

#[test]
fn a_standby_without_the_right_to_the_lease_says_so_and_leads_once_it_has_it() {
    let harness = Harness::held();
    let role = "role/windows-storage-operator";
    let rules = harness.get(role)["rules"].clone();
    let without: Vec<_> = rules
        .as_array()
        .unwrap()
        .iter()
        .filter(|rule| rule["resources"][0] != "leases")
        .cloned()
        .collect();
    assert_eq!(without.len() + 2, rules.as_array().unwrap().len());
    let give = |rules: &serde_json::Value| {
        harness.patch(role, &serde_json::json!({"rules": rules}));
    };
    give(&without.into());
    let candidate = Candidate::start(&harness, "first");
    let told = "[-]leader-election failed: ";
    harness.eventually("it is not ready, and says why", || {
        let ready = candidate.ready();
        ready.contains(told) && ready.contains("needs the rights to create leases")
    });
    assert_eq!(candidate.changes().len(), 0);
    give(&rules);
    harness.expect_leader(&candidate);
    harness.expect_gate("False", "DriversMissing", &["win-1"]);
}

/// Each installation has its own Lease.
#[test]
fn an_operator_that_was_installed_after_another_waits_until_that_one_is_gone() {
    let harness = Harness::held();
    let install = |namespace: &str| {
        let manifest = include_str!("../../../manifests/deployment.yaml");
        let from = format!("namespace: {NAMESPACE}");
        let to = format!("namespace: {namespace}");
        assert!(manifest.contains(&from));
        harness.apply(&manifest.replace(&from, &to));
    };
    harness.kubectl("create namespace other");
    install("other");
    install(NAMESPACE);
    // Anybody with a namespace can make a Deployment of that name.
    let first = Candidate::start(&harness, "first");
    harness.expect_leader(&first);
    assert!(first.operator.terminate().unwrap().success());
    harness.kubectl(
        "create clusterrolebinding other --clusterrole=windows-storage-operator \
         --serviceaccount=other:windows-storage-operator",
    );
    let second = Candidate::start(&harness, "second");
    let told = "[-]leader-election failed: the operator is also installed in the namespace other";
    harness.eventually("it is not ready, and says why", || {
        second.ready().contains(told)
    });
    assert_eq!(second.changes().len(), 0, "{:#?}", second.changes());
    assert!(second.log().contains("uninstall one of the two"));
    harness.kubectl("delete deployment windows-storage-operator -n other");
    harness.expect_leader(&second);
    harness.expect_gate("False", "DriversMissing", &["win-1"]);

    // A later installation stops neither the running operator nor its successor.
    install("other");
    assert!(second.operator.terminate().unwrap().success());
    let third = Candidate::start(&harness, "third");
    harness.expect_leader(&third);
    harness.assert_nothing_was_forbidden();
}
