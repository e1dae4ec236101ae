//! Two hundred hosts, of which some are dead and some never finish a command.

use simulated_host::{Greeting, SimulatedHost};

use super::Simulation;

#[test]
fn dead_and_slow_hosts_hold_up_no_other() {
    let simulation = Simulation::new(200);
    let (bad, good) = simulation.hosts.split_at(40);
    let (dead, slow) = bad.split_at(20);
    for (number, host) in dead.iter().enumerate() {
        if number % 2 == 0 {
            simulation.wait(host.power_off()).unwrap();
        } else {
            host.set_faults(|faults| faults.greeting = Greeting::Silent);
        }
    }
    for host in slow {
        host.set_faults(|faults| faults.holds_commands = true);
    }
    let operator = simulation.harness.start_with(&simulation.payload("v1.3.0"));
    simulation
        .harness
        .eventually("all good hosts are ready", || {
            let ready = simulation.ready();
            let is_ready = |host: &SimulatedHost| ready.iter().any(|ready| ready == host.name());
            good.iter().all(is_ready)
        });
    assert!(
        slow.iter().all(|host| host.counters().held > 0),
        "the slow ones are still held, so nothing has waited for them"
    );
    assert_eq!(simulation.ready().len(), good.len());
    let peak = operator.peak_memory().unwrap();
    // Far more than an unoptimized program needs for the whole fleet, and far less than one copy of anything per host.
    assert!(peak < 200 << 20, "{} MiB", peak >> 20);

    for host in slow {
        host.set_faults(|faults| faults.holds_commands = false);
        host.release();
    }
    simulation
        .harness
        .eventually("the slow ones come later", || {
            simulation.ready().len() == good.len() + slow.len()
        });
    for host in good {
        let counters = host.counters();
        assert_eq!(counters.connections_most, 1, "{}", host.name());
    }
    simulation.harness.assert_nothing_was_forbidden();
}
