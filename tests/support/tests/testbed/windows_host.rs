//! The hosts do what tests of the operator rely on.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use testbed::parts::part;
use testbed::windows_host::WindowsHost;

use crate::client::{Client, eventually, install_probe, text};

#[test]
fn commands_and_files_go_over_ssh() {
    let client = Client::new();
    let host = client.fleet.add_host("win-1").unwrap();

    let version = client.ssh(&host, "ver");
    assert!(
        text(&version).contains("Microsoft Windows"),
        "{}",
        text(&version)
    );
    assert!(version.status.success());
    let failed = client.ssh(&host, "echo bad 1>&2 & exit 7");
    assert_eq!(failed.status.code(), Some(7));
    assert_eq!(String::from_utf8_lossy(&failed.stderr).trim(), "bad");

    let pem = client.dir.dir().join("pem");
    fs::write(&pem, client.fleet.private_key_pem()).unwrap();
    Command::new("chmod").arg("600").arg(&pem).status().unwrap();
    let by_rsa = client
        .command("ssh", &host, &pem)
        .args([&client.destination(&host), "ver"])
        .output()
        .unwrap();
    assert!(by_rsa.status.success(), "{}", text(&by_rsa));

    let file = client.file("file", 100_000);
    let got = client.dir.dir().join("got");
    let moved = client.sftp(
        &host,
        &format!(
            "put {file} C:/k/one\nput {file} /C:/k/two\nrename /C:/k/two /C:/k/three\nget C:/k/three {got}\n",
            file = file.display(),
            got = got.display()
        ),
    );
    assert!(moved.status.success(), "{}", text(&moved));
    assert_eq!(fs::read(got).unwrap(), fs::read(&file).unwrap());
    assert_eq!(
        fs::metadata(host.drive_c().join("k/one")).unwrap().len(),
        100_000
    );
    let seen = host.run(r"if exist C:\k\three exit 5").unwrap();
    assert_eq!(seen.status.code(), Some(5), "{}", text(&seen));
}

#[test]
fn hosts_are_apart_and_a_second_one_is_quick() {
    let client = Client::new();
    let one = client.fleet.add_host("win-1").unwrap();
    let start = Instant::now();
    let two = client.fleet.add_host("win-2").unwrap();
    let took = start.elapsed();
    eprintln!("the second host took {took:?}");
    // Usually half a second, but other tests share the machine.
    assert!(took < Duration::from_secs(10));

    assert_ne!(one.address(), two.address());
    assert_ne!(one.host_key().unwrap(), two.host_key().unwrap());
    let made = one.run(r"sc create only-here binPath= C:\k\x.exe").unwrap();
    assert!(made.status.success(), "{}", text(&made));
    let query = |host: &WindowsHost| host.run("sc query only-here").unwrap();
    assert!(
        text(&query(&one)).contains("STOPPED"),
        "{}",
        text(&query(&one))
    );
    assert!(
        !text(&query(&two)).contains("STOPPED"),
        "{}",
        text(&query(&two))
    );
}

/// With random addresses, one program in some hundreds does not start.
#[test]
fn every_program_has_fixed_addresses() {
    let client = Client::new();
    let host = client.fleet.add_host("win-1").unwrap();
    let mut session = client
        .command("ssh", &host, &client.fleet.private_key_file())
        .args([&client.destination(&host), "echo here & pause"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(session.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    let processes = host.processes_of("").unwrap();
    let names = processes.iter().filter_map(|process| {
        // Programs that boot starts may end at any time.
        let read = |file: &str| fs::read_to_string(format!("/proc/{process}/{file}")).ok();
        let (name, personality) = (read("comm")?, read("personality")?);
        let personality = u32::from_str_radix(personality.trim(), 16).unwrap();
        assert_eq!(personality & 0x0004_0000, 0x0004_0000, "{name}");
        Some(name.trim().to_owned())
    });
    let names: Vec<String> = names.collect();
    for expected in ["wineserver64", "services.exe", "cmd.exe"] {
        assert!(names.iter().any(|name| name == expected), "{names:?}");
    }
    session.kill().unwrap();
    session.wait().unwrap();
}

#[test]
fn a_reboot_ends_everything_and_starts_automatic_services() {
    let client = Client::new();
    let host = client.fleet.add_host("win-1").unwrap();
    install_probe(&host);
    let started = host.drive_c().join("k/started");
    let state = || text(&host.run("sc query probe").unwrap());
    let made = host
        .run(r"sc create probe binPath= C:\k\probe.exe start= auto")
        .unwrap();
    assert!(made.status.success(), "{}", text(&made));
    assert!(!started.exists());
    let before = state();
    assert!(before.contains("STOPPED"), "{before}");

    let mut session = client
        .command("ssh", &host, &client.fleet.private_key_file())
        .args([
            &client.destination(&host),
            r"C:\k\probe.exe pipe none & pause",
        ])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(session.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    assert_eq!(line.trim(), "error 2");
    let start = Instant::now();
    host.reboot().unwrap();
    eprintln!("the reboot took {:?}", start.elapsed());

    assert_eq!(session.wait().unwrap().code(), Some(255));
    eventually("the service has started", || started.exists());
    eventually("the service runs", || state().contains("RUNNING"));
    assert!(client.ssh(&host, "ver").status.success());
}

#[test]
fn a_full_disk_fails_writes_until_there_is_room() {
    let client = Client::new();
    let host = client.fleet.add_host("win-1").unwrap();
    install_probe(&host);
    let put = format!("put {} C:/k/file\n", client.file("file", 200_000).display());
    let grow = || host.run(r"C:\k\probe.exe grow C:\k\grown 200000").unwrap();

    host.fill_disk(65_536).unwrap();
    let failed = client.sftp(&host, &put);
    assert!(!failed.status.success(), "{}", text(&failed));
    assert!(text(&failed).contains("Failure"), "{}", text(&failed));
    assert!(fs::metadata(host.drive_c().join("k/file")).unwrap().len() <= 65_536);
    let over_ssh = client.ssh(&host, r"C:\k\probe.exe grow C:\k\grown 200000");
    // ERROR_DISK_FULL
    for output in [over_ssh, grow()] {
        assert!(
            text(&output).starts_with("written 65536 error 112"),
            "{}",
            text(&output)
        );
        assert_eq!(output.status.code(), Some(1));
    }
    host.reboot().unwrap();
    assert!(!grow().status.success());
    assert!(client.ssh(&host, "ver").status.success());

    host.free_disk().unwrap();
    let done = client.sftp(&host, &put);
    assert!(done.status.success(), "{}", text(&done));
    assert!(grow().status.success(), "{}", text(&grow()));
}

#[test]
fn a_host_can_be_away_be_another_or_refuse_the_key() {
    let client = Client::new();
    let host = client.fleet.add_host("win-1").unwrap();
    let works = || {
        let done = client.sftp(&host, "pwd\n");
        assert!(done.status.success(), "{}", text(&done));
    };

    host.stop_sshd().unwrap();
    assert!(text(&client.ssh(&host, "ver")).contains("Connection refused"));
    host.start_sshd().unwrap();
    works();

    host.refuse_logins(true).unwrap();
    assert!(text(&client.ssh(&host, "ver")).contains("Permission denied"));
    host.refuse_logins(false).unwrap();
    works();

    let before = host.host_key().unwrap();
    host.change_host_key().unwrap();
    assert_ne!(host.host_key().unwrap(), before);
    works();
}

#[test]
fn a_copy_can_be_slow_and_be_cut_in_the_middle() {
    let client = Client::new();
    let host = client.fleet.add_host("win-1").unwrap();
    let put = format!(
        "put {} C:/k/file\n",
        client.file("file", 4_000_000).display()
    );

    host.limit_rate(Some(500_000));
    let mut copy = client.sftp_command(&host, &put).spawn().unwrap();
    eventually("the copy is in the middle", || {
        host.relay().bytes_to_server() > 600_000
    });
    assert!(copy.try_wait().unwrap().is_none());
    host.cut_connections();
    assert!(!copy.wait().unwrap().success());
    let length = fs::metadata(host.drive_c().join("k/file")).unwrap().len();
    assert!(length > 100_000 && length < 4_000_000, "{length}");

    host.limit_rate(None);
    let whole = client.sftp(&host, &put);
    assert!(whole.status.success(), "{}", text(&whole));
}

#[test]
fn csi_proxy_runs_as_a_service_and_opens_its_pipes() {
    let client = Client::new();
    let host = client.fleet.add_host("win-1").unwrap();
    install_probe(&host);
    fs::copy(
        part("csi-proxy-1.3.0").unwrap(),
        host.drive_c().join("k/csi-proxy.exe"),
    )
    .unwrap();
    fs::create_dir_all(host.drive_c().join("var/log/csi-proxy")).unwrap();
    // In a file, because quotes do not work in commands to cmd.
    fs::write(
        host.drive_c().join("k/setup.cmd"),
        "@sc create csi-proxy start= auto binPath= \"C:\\k\\csi-proxy.exe -windows-service -log_file=C:\\var\\log\\csi-proxy\\csi-proxy.log -logtostderr=false\"\r\n",
    )
    .unwrap();
    let made = host.run(r"C:\k\setup.cmd").unwrap();
    assert!(made.status.success(), "{}", text(&made));
    let pipe = || {
        host.run(r"C:\k\probe.exe pipe csi-proxy-filesystem-v1")
            .unwrap()
    };
    assert!(!pipe().status.success());

    host.reboot().unwrap();
    let state = || text(&host.run("sc query csi-proxy").unwrap());
    eventually("csi-proxy runs", || state().contains("RUNNING"));
    eventually("its pipes open", || pipe().status.success());
    fs::copy(
        part("csi-client").unwrap(),
        host.drive_c().join("k/csi-client.exe"),
    )
    .unwrap();
    let answer = client.ssh(
        &host,
        r"C:\k\csi-client.exe path-exists C:\var\lib\kubelet\plugins",
    );
    assert_eq!(
        String::from_utf8_lossy(&answer.stdout).trim(),
        "false",
        "{}",
        text(&answer)
    );
}

/// Returns processes that carry the marks of a host in `dir`, or have files open there.
fn processes_of(dir: &Path) -> Vec<String> {
    let dir = dir.to_string_lossy().into_owned();
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").unwrap() {
        let path = entry.unwrap().path();
        for file in ["environ", "cmdline"] {
            if fs::read(path.join(file))
                .is_ok_and(|bytes| String::from_utf8_lossy(&bytes).contains(&dir))
            {
                found.push(format!("{}", path.display()));
            }
        }
    }
    found
}

#[test]
fn nothing_is_left_of_a_host_that_was_dropped() {
    let client = Client::new();
    let host = client.fleet.add_host("win-1").unwrap();
    let dir = host.drive_c().ancestors().nth(3).unwrap().to_owned();
    assert!(client.ssh(&host, "ver").status.success());
    assert!(!processes_of(&dir).is_empty());
    let start = Instant::now();
    drop(host);
    eprintln!("the end took {:?}", start.elapsed());
    assert_eq!(processes_of(&dir), Vec::<String>::new());
    assert!(!dir.exists());
    assert!(
        !fs::read_to_string("/proc/mounts")
            .unwrap()
            .contains(&*dir.to_string_lossy())
    );
}

#[test]
fn nothing_is_left_when_the_process_is_killed() {
    let mut parent = Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "windows_host::stands_in_for_a_killed_process",
            "--ignored",
            "--nocapture",
        ])
        .stdout(Stdio::piped())
        .process_group(0)
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(parent.stdout.take().unwrap()).lines();
    let dir = lines
        .find_map(|line| {
            line.unwrap()
                .split_once("DIR=")
                .map(|(_, dir)| PathBuf::from(dir))
        })
        .unwrap();
    assert!(!processes_of(&dir).is_empty());
    parent.kill().unwrap();
    parent.wait().unwrap();
    eventually("no process and no directory", || {
        processes_of(&dir).is_empty() && !dir.exists()
    });
}

#[test]
#[ignore = "only of use as the process that another test kills"]
fn stands_in_for_a_killed_process() {
    let client = Client::new();
    let host = client.fleet.add_host("win-1").unwrap();
    let dir = host.drive_c().ancestors().nth(3).unwrap().to_owned();
    // Includes a session: sshd puts its processes into sessions of their own.
    let mut session = client
        .command("ssh", &host, &client.fleet.private_key_file())
        .args([&client.destination(&host), "pause"])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    thread::sleep(Duration::from_millis(500));
    println!("\nDIR={}", dir.display());
    session.wait().unwrap();
}
