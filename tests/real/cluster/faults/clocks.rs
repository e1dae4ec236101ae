//! Clocks that jump, and a machine that sleeps.

use std::time::Instant;

use jiff::{SignedDuration, Timestamp};
use testbed::api_proxy::{Fault, On, Verb};

use super::{NODES, Scene};
use crate::cluster::clock::Clock;
use crate::cluster::election::Candidate;
use crate::cluster::harness::Harness;

const LEASE: &str = "lease/windows-storage-operator";

/// Returns how far the leader's clock differs from this one, according to its lease.
fn difference(harness: &Harness) -> SignedDuration {
    let lease = harness.get(LEASE);
    let renewed = lease["spec"]["renewTime"].as_str().unwrap_or_default();
    let renewed: Timestamp = renewed.parse().unwrap();
    renewed.duration_since(Timestamp::now())
}

#[test]
fn nothing_is_decided_by_the_clock_of_the_day() {
    let mut scene = Scene::new();
    let command = scene.command.clone();
    let (clock, other) = (
        Clock::new(&scene, "clock"),
        Clock::new(&scene, "other-clock"),
    );
    scene.simulation.harness.command = command.with_variables(&clock.variables(false));
    let mut operator = scene.start_electing();
    let second = scene.control_plane().dir().join("second.log");
    let mut standby = command
        .with_variables(&other.variables(false))
        .start(Some(&second), &["--leader-elect-identity=second"], true)
        .unwrap();
    let calm = scene.calm();
    for (hours, opposite) in [(20, "-20h"), (-20, "+20h"), (0, "+0h")] {
        clock.shift(&format!("{hours:+}h"));
        other.shift(opposite);
        scene.eventually("the clock has jumped", || {
            (difference(&scene).as_hours() - hours).abs() <= 1
        });
        let openings = scene.openings();
        scene.register(NODES[0], false);
        scene.expect_missing("win-000, win-001");
        assert_eq!(scene.openings(), openings);
        scene.register(NODES[0], true);
        scene.expect_as_calm(&calm);
        scene.register(NODES[1], false);
        scene.expect_missing(NODES[1]);
        let spec = &scene.get(LEASE)["spec"];
        assert_eq!(spec["holderIdentity"], "operator", "{spec}");
        assert_eq!(spec["leaseTransitions"], 0, "{spec}");
    }
    assert_eq!(operator.ended().unwrap(), None);
    assert_eq!(standby.ended().unwrap(), None);
}

#[test]
fn a_machine_that_has_slept_past_the_lease_changes_nothing_when_it_wakes_up() {
    let mut harness = Harness::held();
    let clock = Clock::new(&harness, "clock");
    let awake = harness.command.clone();
    harness.command = awake.with_variables(&clock.variables(true));
    let mut sleeper = Candidate::start(&harness, "sleeper");
    harness.command = awake;
    harness.expect_leader(&sleeper);
    let successor = Candidate::start(&harness, "successor");
    harness.expect_standby(&successor, "sleeper");
    // Interrupts its work.
    for change in 0..4 {
        harness.register("win-1", change % 2 == 0);
    }
    sleeper.operator.pause(true).unwrap();
    let asleep = Instant::now();
    harness.register("win-1", true);
    harness.expect_leader(&successor);
    harness.expect_registered("win-1", true);
    harness.register("win-1", false);
    harness.expect_registered("win-1", false);
    // All clocks except the boot clock have stood still.
    clock.shift(&format!("-{}s", asleep.elapsed().as_secs()));
    // The API server does not tell it either that another operator leads now.
    let renewals = sleeper
        .proxy
        .order(On::to(Verb::Update, "leases"), Fault::Hang);
    let awoken = Instant::now();
    sleeper.operator.pause(false).unwrap();
    let status = sleeper.operator.wait().unwrap();
    assert_eq!(status.code(), Some(1), "{}", sleeper.log());
    sleeper.assert_wrote_nothing_since(awoken);
    assert_eq!(renewals.hits(), 0, "it knows by the clock alone");
    assert_eq!(harness.holder(), "successor");
}
