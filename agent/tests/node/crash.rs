//! The agent dies between any two steps of a change, as in a power failure, and is started again.

use windows_storage_agent::paths::{AGENT_SERVICE, JOURNAL_FILE};
use windows_storage_agent::protocol::{NodeState, Outcome};

use crate::host::{Build, FAULT, Node, csi_proxy, is_well};

impl Node {
    /// Lists the points that a change passes.
    fn points_of(&self, change: impl FnOnce()) -> Vec<String> {
        self.points();
        self.die_at("nowhere");
        change();
        let points = self.points();
        assert!(!points.is_empty(), "the agent is not the one that dies");
        points
    }

    /// Has the agent die at the `number`-th point of a change, and starts it as Windows' recovery would.
    fn cut_off(&self, number: usize, change: impl FnOnce()) {
        self.points();
        self.die_at(&number.to_string());
        change();
        assert!(
            !self.local(FAULT).exists(),
            "point {number} was not reached"
        );
        self.run(&format!("net start {AGENT_SERVICE}"));
    }

    /// Waits until nothing of a change is left to do.
    fn settled(&self, point: &str) -> NodeState {
        self.eventually(point, |state| {
            state.unfinished_request_id.is_none()
                && state
                    .services
                    .iter()
                    .all(|service| service.process_id.is_some())
                && state.pipes.iter().all(|pipe| pipe.open)
        })
    }
}

fn noted(state: &NodeState, id: &str) -> bool {
    state.last_result.as_ref().is_some_and(|last| last.id == id)
}

#[test]
fn at_every_point_of_an_upgrade() {
    let versions = [csi_proxy("1.1.3"), csi_proxy("1.3.0")];
    let ids = ["old", "new"];
    let node = Node::with(Build::FaultInjection);
    assert_eq!(node.apply("old", &versions[0]).outcome, Outcome::Applied);
    let points = node.points_of(|| {
        let upgraded = node.apply("new", &versions[1]);
        assert_eq!(upgraded.outcome, Outcome::Applied, "{upgraded:?}");
    });
    let mut now = 1;
    for (number, point) in (1..).zip(&points) {
        // There and back again: the points are the same in both directions.
        let next = 1 - now;
        node.cut_off(number, || {
            node.apply(ids[next], &versions[next]);
        });
        let state = node.settled(point);
        assert!(
            is_well(&state, &versions[0]) || is_well(&state, &versions[1]),
            "{point}: {state:?}"
        );
        // Before the journal there is nothing to note.
        assert!(
            noted(&state, ids[next]) || point == "journal",
            "{point}: {state:?}"
        );
        assert!(!node.local(JOURNAL_FILE).exists(), "{point}");
        let again = node.apply(ids[next], &versions[next]);
        assert!(
            matches!(again.outcome, Outcome::Applied | Outcome::Unchanged),
            "{point}: {again:?}"
        );
        assert!(is_well(&again.state, &versions[next]), "{point}: {again:?}");
        now = next;
    }
}
