//! The build for tests ends if its heap is damaged, and reports it. Otherwise the other tests that use it would prove
//! nothing.

use std::fs;

use crate::host::{Build, HEAP_DAMAGE, Node, agent};

const TRIAL: &str = r"C:\k\windows-storage\heap.trial";

#[test]
fn damage_to_the_heap_ends_the_agent_that_is_built_for_it() {
    const WRITTEN: &str = "bytes have been written around";
    const TOUCHED: &str = "exception 0xc0000005";
    let node = Node::with(Build::FaultInjection);
    let damage = node.local(HEAP_DAMAGE);
    for (trial, reported) in [
        ("write behind", TOUCHED),
        ("write before", WRITTEN),
        ("write where nothing is for its alignment", WRITTEN),
        ("read behind", TOUCHED),
        ("read what was freed", TOUCHED),
        ("have Windows read what was freed, and not say so", TOUCHED),
        ("free twice", TOUCHED),
        ("have Windows write behind", TOUCHED),
    ] {
        fs::write(node.local(TRIAL), trial).unwrap();
        let output = node
            .host
            .run(r"C:\k\windows-storage-agent.exe status")
            .unwrap();
        let said = fs::read_to_string(&damage).unwrap_or_default();
        assert!(!output.status.success(), "{trial}: {output:?}");
        assert!(output.stdout.is_empty(), "{trial}: {output:?}");
        let lines: Vec<&str> = said.lines().collect();
        assert!(
            matches!(lines[..], [line] if line.contains(reported)),
            "{trial}: {said}"
        );
        fs::remove_file(&damage).unwrap();
    }
    fs::remove_file(node.local(TRIAL)).unwrap();
}

#[test]
fn the_agent_for_nodes_is_built_without_it() {
    let has = |build| {
        let program = agent(build);
        program
            .windows(b"heap.trial".len())
            .any(|bytes| bytes == b"heap.trial")
    };
    assert!(has(Build::FaultInjection));
    assert!(!has(Build::Payload));
}
