//! Where Windows' own SSH server differs from OpenSSH on Linux, in each of its versions and in both shells.

use protocol::paths::{BOOTSTRAP_DIR, to_sftp};
use simulated_host::{File, Speech};

use super::faults::logged_in;
use super::scene::{Scene, left_over};
use crate::node::Reason;

#[tokio::test]
async fn an_agent_that_was_left_behind_and_still_runs_is_in_nobodys_way() {
    for scene in Scene::of_every_server() {
        let host = scene.host();
        let place = |name| format!("{}/agent-{name}.exe", to_sftp(BOOTSTRAP_DIR).to_lowercase());
        let (torso, running, other) = (
            place("torso"),
            place("running"),
            place("x").replace("agent-", "my-"),
        );
        host.with_disk(|disk| {
            disk.make_folders(BOOTSTRAP_DIR);
            for path in [&torso, &running, &other] {
                disk.put(path, File::new(b"MZ"));
            }
            disk.lock(&running, true);
        });
        assert_eq!(scene.problem(&host, &scene.old).await, None);
        assert_eq!(left_over(&host), [running.clone(), other.clone()]);
        host.with_disk(|disk| disk.lock(&running, false));
        assert_eq!(scene.problem(&host, &scene.new).await, None);
        assert_eq!(left_over(&host), [other]);
    }
}

#[tokio::test]
async fn a_server_that_takes_no_connections_after_failed_logins_is_quoted() {
    for scene in Scene::of_every_server() {
        let host = scene.host();
        host.set_faults(|faults| faults.refuses_logins = true);
        let mut penalized = false;
        for _ in 0..20 {
            let error = scene.problem(&host, &scene.old).await.unwrap();
            // The server may accept connections again after a while.
            let is_quoted = error.message.contains("\"Not allowed at this time\"");
            penalized |= is_quoted;
            let reason = if is_quoted {
                Reason::Unreachable
            } else {
                Reason::LoginRefused
            };
            assert_eq!(error.reason, reason, "{error}");
        }
        assert_eq!(penalized, scene.server.0.penalizes, "{:?}", scene.server);
        host.set_faults(|faults| faults.refuses_logins = false);
        host.power_off().await.unwrap();
        host.boot().await.unwrap();
        assert_eq!(scene.problem(&host, &scene.old).await, None);
    }
}

/// The output of PowerShell in a session that a group policy transcribes, on a host with a Cyrillic name, in code page 866.
fn transcript() -> Vec<u8> {
    let letters = |text: &str| -> Vec<u8> {
        text.chars()
            .map(|c| match u32::from(c) {
                code @ 0x410..=0x43f => (code - 0x410 + 0x80).to_le_bytes()[0],
                code @ 0x440..=0x44f => (code - 0x440 + 0xe0).to_le_bytes()[0],
                code => code.to_le_bytes()[0],
            })
            .collect()
    };
    letters(
        "Transcript started, output file is C:\\Users\\Администратор\\Documents\\PowerShell_transcript.УЗЕЛ-1.txt\r\n",
    )
}

#[tokio::test]
async fn a_shell_that_prints_of_its_own_hides_no_answer_and_is_named_where_it_breaks_sftp() {
    for scene in Scene::of_every_server() {
        let host = scene.host_with_old().await;
        host.set_faults(|faults| faults.shell_prints = transcript());
        assert_eq!(scene.problem(&host, &scene.old).await, None);
        let error = scene.problem(&host, &scene.new).await.unwrap();
        assert_eq!(error.reason, Reason::TransferFailed, "{error}");
        assert!(error.message.contains("DefaultShell"), "{error}");
        host.set_faults(|faults| faults.shell_prints.clear());
        assert_eq!(scene.problem(&host, &scene.new).await, None);
    }
}

#[tokio::test]
async fn words_of_another_code_page_are_told_as_far_as_they_can_be_read() {
    // "'x' is not recognized" in Japanese, in Shift JIS, where one byte of a character may be a backslash.
    let japanese = b"'C:\\k\\x.exe' \x82\xcd\x81A\x93\xe0\x95\x94\x83R\x83}\x83\x93\x83h\x82\xdc\x82\xbd\x82\xcd\x8aO\x95\x94 \x95\x5c\r\n";
    for scene in Scene::of_every_server() {
        let host = scene.host_with_old().await;
        for (status, cmd) in [(1, "status 1"), (0xc000_0135, "status 0xc0000135")] {
            host.set_faults(|faults| faults.speech = Speech::Refusal(japanese.to_vec(), status));
            let error = scene.problem(&host, &scene.new).await.unwrap();
            assert_eq!(error.reason, Reason::AgentFailed, "{error}");
            let powershell = error.message.contains("status 1");
            assert!(error.message.contains(cmd) || powershell, "{error}");
            assert!(error.message.contains("x.exe"), "{error}");
        }
        host.set_faults(|faults| faults.speech = Speech::Plain);
        assert_eq!(scene.problem(&host, &scene.new).await, None);
    }
}

#[tokio::test]
async fn a_log_is_read_to_its_end_in_the_pieces_that_the_server_gives() {
    const SIZE: u64 = 1_000_000;
    for scene in Scene::of_every_server() {
        let host = scene.host();
        let path = "C:/programdata/x.log";
        let file = File::of_lines(SIZE);
        host.with_disk(|disk| disk.put(path, file.clone()));
        let mut session = logged_in(&scene, &host).await;
        let read = tokio::task::spawn_blocking(move || {
            let mut content = Vec::new();
            let part = session.read_end(path, 700_000, &mut |_, piece| {
                content.extend_from_slice(piece);
                Ok(())
            });
            (part.unwrap(), content)
        });
        let (part, content) = read.await.unwrap();
        assert_eq!(part.left_out, SIZE - 700_000);
        assert!(content == file.read(part.left_out, 700_000));
    }
}
