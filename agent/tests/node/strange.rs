//! Unusual hosts.

use std::fmt::Write;
use std::fs::{self, File};
use std::time::{Duration, SystemTime};

use protocol::Outcome;
use protocol::paths::INCOMING_DIR;

use crate::host::{Node, is_well, sha256, upload_path};
use crate::standin::variant;

const SERVICES: usize = 200;

#[test]
#[cfg_attr(windows, ignore = "this machine keeps its name")]
fn one_with_two_hundred_services_and_a_name_in_cyrillic() {
    let (old, new) = (variant(0), variant(1));
    let node = Node::new();
    let mut text = "Windows Registry Editor Version 5.00\r\n".to_owned();
    let control = r"HKEY_LOCAL_MACHINE\SYSTEM\CurrentControlSet";
    for key in ["ComputerName", "ActiveComputerName"] {
        let key = format!(r"{control}\Control\ComputerName\{key}");
        write!(text, "\r\n[{key}]\r\n\"ComputerName\"=\"УЗЕЛ-1\"\r\n").unwrap();
    }
    for number in 0..SERVICES {
        write!(
            text,
            "\r\n[{control}\\Services\\служба-{number}]\r\n\"Type\"=dword:10\r\n\"Start\"=dword:3\r\n\
             \"ErrorControl\"=dword:1\r\n\"ImagePath\"=\"C:\\\\other\\\\служба.exe\"\r\n"
        )
        .unwrap();
    }
    let utf16 = text.encode_utf16().flat_map(u16::to_le_bytes);
    let file = [0xff, 0xfe].into_iter().chain(utf16).collect::<Vec<u8>>();
    fs::write(node.local(r"C:\strange.reg"), file).unwrap();
    node.run(r"reg import C:\strange.reg");
    node.host.reboot().unwrap();

    node.eventually("the agent is back", |state| state.agent_problem.is_none());
    node.applied("old", &old);
    let said = node.ask(r"C:\k\windows-storage-agent.exe status");
    assert!(said.is_ascii(), "{said}");
    node.applied("new", &new);
    node.host.run("net stop csi-proxy").unwrap();
    node.eventually("csi-proxy is back", |state| is_well(state, &new));
    let services = node.ask(r"reg query HKLM\SYSTEM\CurrentControlSet\Services");
    let theirs = services.lines().filter(|line| line.contains("-1"));
    assert!(theirs.count() > SERVICES / 2, "{services}");
}

/// The agent uses the wall clock only for the age of uploads: everything else uses a monotonic clock.
#[test]
fn one_whose_clock_jumps_by_a_day() {
    const DAY: Duration = Duration::from_secs(24 * 60 * 60);
    let node = Node::new();
    let date = |path: &str, time: SystemTime| {
        let file = File::options().write(true).open(node.local(path)).unwrap();
        file.set_modified(time).unwrap();
    };
    let now = SystemTime::now();
    for (number, time) in [(0, now - DAY), (1, now + DAY), (2, now - DAY)] {
        let (id, content) = (format!("request-{number}"), variant(number));
        node.upload(&id, &content, &sha256(&content));
        date(&upload_path(&id), time);
        date(&format!(r"{INCOMING_DIR}\{id}.json"), time);
        let result = node.apply_uploaded(&id);
        assert_eq!(result.end.outcome, Outcome::Applied, "{result:?}");
        assert!(is_well(&result.state, &content), "{result:?}");
    }
}
