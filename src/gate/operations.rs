//! Nodes on which csi-proxy is being updated. The operator should not be replaced while there are any.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// How long one node holds upgrades. The agent's own limits end every update well before that. A node that was lost during
/// an update, or that fails repeatedly, must not hold upgrades forever.
pub const LIMIT: Duration = Duration::from_secs(300);

/// Since when each node is being updated, and when that was last seen.
#[derive(Debug, Default)]
pub struct Operations(BTreeMap<String, (Instant, Instant)>);

impl Operations {
    /// Returns the nodes that hold upgrades, out of those that are being updated now. A node that comes back soon keeps its
    /// start time, so repeated attempts do not extend the limit.
    pub fn holding(&mut self, in_progress: &BTreeSet<String>, now: Instant) -> Vec<&str> {
        for node in in_progress {
            let (_, seen) = self.0.entry(node.clone()).or_insert((now, now));
            *seen = now;
        }
        self.0
            .retain(|_, (_, seen)| now.duration_since(*seen) < LIMIT);
        let nodes = self.0.iter();
        let holding =
            nodes.filter(|(_, (since, seen))| *seen == now && now.duration_since(*since) < LIMIT);
        holding.map(|(node, _)| node.as_str()).collect()
    }

    /// Returns when the next node stops holding upgrades.
    pub fn next_end(&self, now: Instant) -> Option<Instant> {
        let ends = self.0.values().map(|(since, _)| *since + LIMIT);
        ends.filter(|end| *end > now).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(list: &[&str]) -> BTreeSet<String> {
        list.iter().map(|&name| name.to_owned()).collect()
    }

    #[test]
    fn a_node_holds_upgrades_while_it_is_worked_on_and_no_longer_than_the_limit() {
        let start = Instant::now();
        let after = |seconds| start + Duration::from_secs(seconds);
        let mut operations = Operations::default();
        assert!(operations.holding(&names(&[]), start).is_empty());
        assert_eq!(operations.holding(&names(&["a"]), start), ["a"]);
        assert_eq!(operations.next_end(start), Some(start + LIMIT));
        assert!(operations.holding(&names(&[]), after(10)).is_empty());
        let both = names(&["a", "b"]);
        assert_eq!(operations.holding(&both, after(20)), ["a", "b"]);
        // Node a came back within the limit, so its time still counts from its first start.
        assert_eq!(operations.holding(&both, after(310)), ["b"]);
        assert!(operations.holding(&both, after(330)).is_empty());
        assert_eq!(operations.next_end(after(330)), None);
    }

    #[test]
    fn the_limit_itself_is_over() {
        let start = Instant::now();
        let end = start + LIMIT;
        let mut operations = Operations::default();
        operations.holding(&names(&["a", "b"]), start);
        let before = end.checked_sub(Duration::from_nanos(1)).unwrap();
        assert_eq!(operations.holding(&names(&["a"]), before), ["a"]);
        assert_eq!(operations.next_end(before), Some(end));
        assert_eq!(operations.next_end(end), None);
        assert!(operations.holding(&names(&["a"]), end).is_empty());
        // Node b was last seen a whole limit ago, so its time starts again.
        assert_eq!(operations.holding(&names(&["b"]), end), ["b"]);
    }
}
