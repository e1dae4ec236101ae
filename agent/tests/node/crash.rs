//! The agent is killed between any two steps of a change, as in a power failure, and is started again.

use std::fs;

use protocol::paths::{CSI_PROXY_EXE, JOURNAL_FILE, STATE_DIR};
use protocol::{NodeState, Outcome};

use crate::host::{Build, FAULT, Node, is_well};
use crate::standin::{Behaviour, standin, variant};

impl Node {
    /// Returns the points that a change passes.
    fn points_of(&self, change: impl FnOnce()) -> Vec<String> {
        self.points();
        self.die_at("nowhere");
        change();
        let points = self.points();
        assert!(!points.is_empty(), "the agent is not the one that dies");
        points
    }

    /// Kills the agent at the `number`-th point of a change, and starts it again as Windows would.
    fn cut_off(&self, number: usize, change: impl FnOnce()) {
        self.points();
        self.die_at(&number.to_string());
        change();
        assert!(
            !self.local(FAULT).exists(),
            "point {number} was not reached"
        );
        self.start_agent();
    }

    /// Repeats a change that was cut off, and checks that it is done then.
    fn gets_there(&self, id: &str, content: &[u8], point: &str) {
        let again = self.apply(id, content);
        let is_done = matches!(again.end.outcome, Outcome::Applied | Outcome::Unchanged);
        assert!(
            is_done && is_well(&again.state, content),
            "{point}: {again:?}"
        );
    }

    /// Waits until nothing of a change is left to do.
    fn settled(&self, point: &str) -> NodeState {
        // Checking the file is cheap; the agent's own report decides.
        self.until(point, || !self.local(JOURNAL_FILE).exists());
        self.eventually(point, |state| {
            state.unfinished_request_id.is_none()
                && state.csi_proxy.process_id.is_some() == state.request_id.is_some()
                && state.pipes.iter().all(|pipe| pipe.open)
        })
    }
}

/// Returns the points to test with their numbers: every third one, or all of them in the full run.
fn tried(points: &[String]) -> impl Iterator<Item = (usize, &String)> {
    let is_full = std::env::var("CHAOS").is_ok_and(|chaos| chaos == "full");
    (1..).zip(points).step_by(if is_full { 1 } else { 3 })
}

fn noted(state: &NodeState, id: &str) -> bool {
    state.last_result.as_ref().is_some_and(|last| last.id == id)
}

#[test]
fn at_every_point_of_an_upgrade() {
    // Small programs that stop quickly, so that each point takes little time; `life` upgrades the real pair.
    let versions = [variant(0), variant(1)];
    let ids = ["old", "new"];
    let node = Node::with(Build::FaultInjection);
    node.applied("old", &versions[0]);
    let points = node.points_of(|| {
        node.applied("new", &versions[1]);
    });
    let mut now = 1;
    for (number, point) in tried(&points) {
        // Back and forth: the points are the same in both directions.
        let next = 1 - now;
        node.cut_off(number, || {
            node.apply(ids[next], &versions[next]);
        });
        let state = node.settled(point);
        assert!(
            is_well(&state, &versions[0]) || is_well(&state, &versions[1]),
            "{point}: {state:?}"
        );
        // Before the journal exists there is nothing to record.
        assert!(
            noted(&state, ids[next]) || point == "journal",
            "{point}: {state:?}"
        );
        assert!(!node.local(JOURNAL_FILE).exists(), "{point}");
        node.gets_there(ids[next], &versions[next], point);
        now = next;
    }
}

#[test]
fn at_every_point_of_going_back() {
    let good = variant(0);
    let broken = standin(Behaviour::Exits, &[]);
    let node = Node::with(Build::FaultInjection);
    node.applied("good", &good);
    let points = node.points_of(|| {
        let result = node.apply("broken", &broken);
        assert_eq!(result.end.outcome, Outcome::RolledBack, "{result:?}");
    });
    for (number, point) in tried(&points) {
        // So that the test can tell whether the next end is recorded.
        let before = node.apply("good", &good);
        assert_eq!(before.end.outcome, Outcome::Unchanged, "{before:?}");
        assert!(!noted(&before.state, "broken"));
        node.cut_off(number, || {
            node.apply("broken", &broken);
        });
        let state = node.settled(point);
        assert!(is_well(&state, &good), "{point}: {state:?}");
        assert!(
            noted(&state, "broken") || point == "journal",
            "{point}: {state:?}"
        );
        assert!(!node.local(JOURNAL_FILE).exists(), "{point}");
        let outcome = state.last_result.map(|last| last.end.outcome);
        assert_eq!(outcome == Some(Outcome::RolledBack), point != "journal");
    }
    // The rollback may itself be interrupted.
    let changed = points.iter().position(|point| point.starts_with("replace"));
    let number = changed.unwrap() + 1;
    let recovery = node.points_of(|| {
        node.die_at(&number.to_string());
        node.apply("broken", &broken);
        node.die_at("nowhere");
        // While the file exists, the points of the start are listed too.
        node.start_agent();
        node.settled("recovery");
    });
    let recovery = &recovery[number..];
    assert!(recovery.len() > 3, "{recovery:?}");
    for (further, point) in tried(recovery) {
        node.points();
        node.die_at(&number.to_string());
        node.apply("broken", &broken);
        node.cut_off(further, || node.start_agent_to_die());
        let state = node.settled(point);
        assert!(is_well(&state, &good), "recovery, {point}: {state:?}");
        assert!(noted(&state, "broken"), "recovery, {point}: {state:?}");
    }
}

#[test]
fn at_every_point_of_a_first_installation() {
    let good = variant(0);
    let node = Node::with(Build::FaultInjection);
    let points = node.points_of(|| {
        node.applied("first", &good);
    });
    for (number, point) in (1..).zip(&points) {
        forget(&node);
        node.cut_off(number, || {
            node.apply("first", &good);
        });
        let state = node.settled(point);
        assert!(
            noted(&state, "first") || point == "journal",
            "{point}: {state:?}"
        );
        assert!(!node.local(JOURNAL_FILE).exists(), "{point}");
        node.gets_there("first", &good, point);
    }
}

/// Restores a node to its state before the first installation, except for the agent.
fn forget(node: &Node) {
    node.stop_agent();
    let script = node.local(r"C:\k\forget.cmd");
    fs::write(script, "net stop csi-proxy\r\nsc delete csi-proxy\r\n").unwrap();
    node.run(r"C:\k\forget.cmd");
    for name in ["desired.json", "state.json"] {
        fs::remove_file(node.local(&format!(r"{STATE_DIR}\{name}"))).unwrap();
    }
    node.until("csi-proxy.exe is let go", || {
        fs::remove_file(node.local(CSI_PROXY_EXE)).is_ok()
    });
    node.start_agent();
}

#[test]
fn while_the_agent_starts() {
    let good = variant(0);
    let node = Node::with(Build::FaultInjection);
    node.stop_agent();
    node.die_at("service starts");
    let trace = node.local(&format!("{FAULT}.trace"));
    node.start_agent_until("the agent dies", || trace.exists());
    node.points();
    // Wine keeps reporting the service as starting; the command checks its process.
    node.applied("good", &good);
}
