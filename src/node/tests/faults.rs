//! Faults of a host, one after the other: each is named in plain words, and the node recovers once the fault is over.

use std::sync::Arc;
use std::time::Duration;

use protocol::paths::{AGENT_EXE, BOOTSTRAP_DIR, CSI_PROXY_EXE};
use rustix::time::{ClockId, clock_gettime};
use simulated_host::{Greeting, KeyKind, Moment, SimulatedHost, Speech};

use super::scene::{Scene, assert_desired, left_over};
use crate::node::{Connected, NodeError, Reason, Session, Target, connect};

const SOON: Duration = Duration::from_millis(300);
const PATIENCE: Duration = Duration::from_secs(60);

async fn connected(target: &Target, limit: Duration) -> Result<Connected, NodeError> {
    connect((&target.address, target.port), &target.host_keys, limit).await
}

impl Scene {
    /// Expects that a reconcile fails with this reason and these words.
    async fn fails(&self, host: &SimulatedHost, reason: Reason, words: &str) {
        let error = self.problem(host, &self.old).await.unwrap();
        assert_eq!(error.reason, reason, "{error}");
        assert!(error.message.contains(words), "{words} is not in: {error}");
    }

    async fn is_well(&self, host: &SimulatedHost) {
        assert_eq!(self.problem(host, &self.old).await, None);
    }
}

pub async fn logged_in(scene: &Scene, host: &SimulatedHost) -> Session {
    let target = scene.target(host, &scene.old);
    let connected = connected(&target, PATIENCE).await.unwrap();
    // Dropping it would cut the connection.
    std::mem::forget(connected.cutter);
    connected.session.login(&target.user, &target.key).unwrap();
    connected.session
}

#[tokio::test]
async fn a_host_that_says_nothing_or_never_stops_is_given_up() {
    let scene = Scene::new();
    for greeting in [Greeting::Silent, Greeting::Flood] {
        let host = scene.host();
        host.set_faults(|faults| faults.greeting = greeting);
        let Err(error) = connected(&scene.target(&host, &scene.old), SOON).await else {
            panic!("{greeting:?} is no SSH")
        };
        assert_eq!(error.reason, Reason::Unreachable);
        host.wait_until(|seen| seen.connections == 1 && seen.connections_now == 0)
            .await
            .unwrap();
    }
}

#[tokio::test]
async fn what_is_wrong_with_a_host_is_named_and_it_is_well_afterwards() {
    for scene in Scene::of_the_oldest_and_the_newest_server() {
        every_fault_is_named(&scene).await;
    }
}

async fn every_fault_is_named(scene: &Scene) {
    let free = |host: &SimulatedHost, free| host.with_disk(|disk| disk.free = free);
    for fault in [
        "weak",
        "login",
        "full for the agent",
        "full for csi-proxy",
        "denied",
    ] {
        let host = scene.host();
        let (reason, words) = match fault {
            "weak" => {
                host.change_host_keys(&[KeyKind::Rsa]).unwrap();
                host.set_faults(|faults| faults.greeting = Greeting::Weak);
                (Reason::Unreachable, "no safe algorithms in common")
            }
            "login" => {
                host.set_faults(|faults| faults.refuses_logins = true);
                (Reason::LoginRefused, "refused")
            }
            "denied" => {
                host.with_disk(|disk| disk.deny(BOOTSTRAP_DIR, true));
                (Reason::TransferFailed, "must be an administrator")
            }
            full => {
                let for_agent = full == "full for the agent";
                free(&host, Some(if for_agent { 30_000 } else { 100_000 }));
                (Reason::DiskFull, "free some space")
            }
        };
        scene.fails(&host, reason, words).await;
        if reason == Reason::DiskFull {
            assert_eq!(left_over(&host), [""; 0]);
        } else if reason != Reason::TransferFailed {
            assert_eq!(host.counters().logins, 0);
        }
        host.set_faults(|faults| {
            faults.greeting = Greeting::Modern;
            faults.refuses_logins = false;
        });
        free(&host, None);
        host.with_disk(|disk| disk.deny(BOOTSTRAP_DIR, false));
        scene.is_well(&host).await;
    }
    let host = scene.host();
    host.power_off().await.unwrap();
    scene.fails(&host, Reason::Unreachable, "firewall").await;
    host.boot().await.unwrap();
    scene.is_well(&host).await;
}

#[tokio::test]
async fn a_connection_that_ends_before_the_login_is_answered_is_no_refused_login() {
    let scene = Scene::new();
    let host = scene.host();
    // Request 1 is the connection itself.
    host.cut_at(2, Moment::Before);
    let words = "ended the connection before the login";
    scene.fails(&host, Reason::Unreachable, words).await;
    scene.is_well(&host).await;
}

#[tokio::test]
async fn a_key_that_changes_between_two_reconciles_stops_the_second() {
    let scene = Scene::new();
    let host = scene.host();
    host.change_host_keys_from(2, &[KeyKind::Ed25519]).unwrap();
    let target = scene.target(&host, &scene.old);
    let first = scene.go_to(&target, &scene.old).await.unwrap();
    assert_desired(&host, &first, &scene.old);
    let error = scene.go_to(&target, &scene.old).await.unwrap_err();
    assert_eq!(error.reason, Reason::HostKeyChanged);
    assert_eq!(host.counters().logins, 1, "nothing may be sent to it");
}

#[tokio::test]
async fn a_further_key_of_another_type_does_not_hide_the_pinned_one() {
    let scene = Scene::new();
    let host = scene.host();
    host.change_host_keys(&[KeyKind::Ecdsa256, KeyKind::Ed25519, KeyKind::Rsa])
        .unwrap();
    for (number, line) in host.host_keys().unwrap().iter().enumerate() {
        let mut target = scene.target(&host, &scene.old);
        target.host_keys.pin = Some(crate::node::HostKey::parse(line));
        let reconciled = scene.go_to(&target, &scene.old).await.unwrap();
        assert_eq!(reconciled.problem, None, "key {number}: {line}");
    }
}

#[tokio::test]
async fn an_answer_is_found_in_noise_and_whatever_the_exit_status() {
    let scene = Scene::new();
    for speech in [Speech::Noisy, Speech::ExitStatus(1)] {
        let host = scene.host();
        host.set_faults(|faults| faults.speech = speech);
        let reconciled = scene.go(&host, &scene.old).await.unwrap();
        assert_desired(&host, &reconciled, &scene.old);
    }
}

#[tokio::test]
async fn what_is_no_answer_is_not_taken_for_one() {
    let scene = Scene::new();
    let instead = |text: &str| Speech::Instead(text.to_owned());
    for (speech, words) in [
        (Speech::Cut(10), "it said \"{"),
        (Speech::Cut(0), "printed nothing"),
        (instead("Access is denied."), "Access is denied"),
        (instead(r#"{"kind":"Unheard","of":1}"#), "Unheard"),
    ] {
        let host = scene.host_with_old().await;
        host.set_faults(|faults| faults.speech = speech);
        scene.fails(&host, Reason::AgentFailed, words).await;
        host.set_faults(|faults| faults.speech = Speech::Plain);
        scene.is_well(&host).await;
    }
}

#[tokio::test]
async fn why_an_agent_gives_no_state_is_told_in_its_words() {
    let scene = Scene::new();
    let host = scene.host_with_old().await;
    host.with_disk(|disk| disk.lock(CSI_PROXY_EXE, true));
    let words = r"reading C:\k\csi-proxy.exe: The process cannot access the file";
    scene.fails(&host, Reason::AgentFailed, words).await;
    host.with_disk(|disk| disk.lock(CSI_PROXY_EXE, false));
    scene.is_well(&host).await;
}

#[tokio::test]
async fn a_command_that_prints_for_ever_is_cut_off() {
    let scene = Scene::new();
    let host = scene.host();
    host.set_faults(|faults| faults.speech = Speech::Endless);
    scene
        .fails(&host, Reason::TransferFailed, "prints more than")
        .await;
    let ended = host.wait_until(|seen| seen.connections_now == 0).await;
    ended.unwrap();
}

#[tokio::test]
async fn a_reboot_in_the_middle_is_survived() {
    let scene = Scene::new();
    let host = scene.host_with_old().await;
    host.set_faults(|faults| faults.reboot_in_apply = true);
    let error = scene.problem(&host, &scene.new).await.unwrap();
    assert_eq!(error.reason, Reason::TransferFailed, "{error}");
    let error = scene.problem(&host, &scene.new).await.unwrap();
    assert_eq!(error.reason, Reason::Unreachable, "{error}");
    host.boot().await.unwrap();
    let reconciled = scene.go(&host, &scene.new).await.unwrap();
    assert_desired(&host, &reconciled, &scene.new);
}

#[tokio::test]
async fn a_reconcile_that_nobody_waits_for_any_more_ends() {
    let scene = Scene::new();
    let host = scene.host();
    host.hold_at(12);
    {
        let reconcile = scene.go(&host, &scene.old);
        let held = host.wait_until(|seen| seen.held == 1);
        tokio::select! {
            reconciled = reconcile => panic!("{reconciled:?}"),
            held = held => drop(held.unwrap()),
        }
    }
    host.release();
    let ended = host.wait_until(|seen| seen.connections_now == 0).await;
    assert_eq!(ended.unwrap().requests, 12, "it went on");
    scene.is_well(&host).await;
}

#[tokio::test]
async fn a_payload_that_was_changed_is_refused_before_a_byte_is_sent() {
    let scene = Scene::new();
    let host = scene.host();
    std::fs::write(scene.old.folder.path().join("agent"), b"evil").unwrap();
    scene.fails(&host, Reason::PayloadUnusable, "").await;
    assert_eq!(host.counters().uploads, 0);
}

#[tokio::test]
async fn the_server_hears_from_us_while_a_long_command_runs() {
    let scene = Scene::new();
    let host = Arc::new(scene.host_with_old().await);
    let mut session = logged_in(&scene, &host).await;
    session.keepalive = Duration::from_millis(50);
    host.set_faults(|faults| faults.holds_commands = true);
    let command = format!("{AGENT_EXE} status");
    let running = tokio::task::spawn_blocking(move || session.run(&command, PATIENCE));
    let before = host.wait_until(|seen| seen.held == 1).await.unwrap();
    host.wait_until(|seen| seen.bytes_received > before.bytes_received)
        .await
        .unwrap();
    host.release();
    let output = running.await.unwrap().unwrap();
    assert!(output.stdout.contains("Status"), "{}", output.stdout);
}

#[tokio::test]
async fn an_answer_on_both_streams_is_taken_when_it_is_there() {
    let scene = Scene::new();
    let host = scene.host_with_old().await;
    host.set_faults(|faults| faults.speech = Speech::Noisy);
    let command = format!("{AGENT_EXE} status");
    // Many at once, because the race is between two reads.
    let mut all = tokio::task::JoinSet::new();
    for _ in 0..16 {
        let mut session = logged_in(&scene, &host).await;
        // No keepalive wakes a session that waits on a socket from which everything was read.
        session.keepalive = Duration::from_secs(3600);
        let command = command.clone();
        let limit = Duration::from_secs(3600);
        all.spawn_blocking(move || {
            (0..50).try_for_each(|_| session.run(&command, limit).map(drop))
        });
    }
    let ended = tokio::time::timeout(PATIENCE, async {
        while let Some(answered) = all.join_next().await {
            answered.unwrap().unwrap();
        }
    });
    if ended.await.is_err() {
        // The threads end with their connections.
        host.cut_connections();
        panic!("an answer that is here is waited for");
    }
}

#[tokio::test]
async fn a_command_that_does_not_end_is_given_up_in_time() {
    let scene = Scene::new();
    let host = scene.host_with_old().await;
    let mut session = logged_in(&scene, &host).await;
    host.set_faults(|faults| faults.holds_commands = true);
    let command = format!("{AGENT_EXE} status");
    let running = tokio::task::spawn_blocking(move || session.run(&command, SOON));
    let Err(error) = running.await.unwrap() else {
        panic!("nobody has let it go on")
    };
    assert!(error.message.contains("no end within"), "{error}");
    let ended = host.wait_until(|seen| seen.connections_now == 0).await;
    ended.unwrap();
}

/// A stream that nobody reads is not waited for at full speed.
#[tokio::test]
async fn a_command_that_prints_where_nobody_reads_takes_no_time_of_the_processor() {
    let scene = Scene::new();
    let host = scene.host_with_old().await;
    let mut session = logged_in(&scene, &host).await;
    host.set_faults(|faults| faults.speech = Speech::Stray);
    let used = || {
        let time = clock_gettime(ClockId::ThreadCPUTime);
        Duration::try_from(time).unwrap()
    };
    let running = tokio::task::spawn_blocking(move || {
        let before = used();
        assert!(session.run("cmd.exe /c ver", SOON).is_err());
        used().checked_sub(before).unwrap()
    });
    let used = running.await.unwrap();
    assert!(used < SOON / 3, "{used:?}");
}
