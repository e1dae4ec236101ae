//! Small programs that behave as a test needs it, on a host.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use crate::host::{Node, PATIENCE, PIPES};

/// What a stand-in does wrong, as `standin.c` calls it.
#[derive(Clone, Copy, Debug)]
pub enum Behaviour {
    Well,
    Exits,
    Hangs,
    Crashes,
    Mutes,
    Quits,
    Silent,
    Refuses,
    Late,
}

/// A program that opens these pipes as a service.
pub fn standin(behaviour: Behaviour, pipes: &[&str]) -> Vec<u8> {
    let folder = tempfile();
    let exe = folder.join("standin.exe");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/support/wine/standin.c");
    let list = pipes.join(";");
    let compiled = Command::new("x86_64-w64-mingw32-gcc")
        .args(["-O2", "-s", "-o"])
        .arg(&exe)
        .arg(format!(
            "-DBEHAVIOUR={}",
            format!("{behaviour:?}").to_uppercase()
        ))
        .arg(format!("-DPIPES=\"{list}\""))
        .arg(source)
        .output()
        .unwrap();
    assert!(compiled.status.success(), "{compiled:?}");
    let content = fs::read(exe).unwrap();
    fs::remove_dir_all(folder).unwrap();
    content
}

fn tempfile() -> std::path::PathBuf {
    let unique = format!(
        "standin-{}-{:?}",
        std::process::id(),
        thread::current().id()
    );
    let folder = std::env::temp_dir().join(unique);
    fs::create_dir_all(&folder).unwrap();
    folder
}

/// One that opens all that csi-proxy is asked for.
pub fn standin_for_csi_proxy(behaviour: Behaviour) -> Vec<u8> {
    standin(behaviour, &PIPES)
}

/// One that works: the same behaviour under each mark, and another hash.
pub fn variant(mark: u8) -> Vec<u8> {
    let mut content = standin_for_csi_proxy(Behaviour::Well);
    content.extend([mark; 16]);
    content
}

pub const TOOL: &str = r"C:\tool\csi-proxy.exe";

impl Node {
    /// Brings the stand-in as a tool.
    pub fn bring_tool(&self) {
        let tool = self.local(TOOL);
        fs::create_dir_all(tool.parent().unwrap()).unwrap();
        fs::write(tool, standin(Behaviour::Well, &[])).unwrap();
    }

    /// Does something while the tool keeps something open.
    pub fn while_tool<T>(&self, keeps: &str, work: impl FnOnce() -> T) -> T {
        let (holding, release) = (self.local(r"C:\k\holding"), self.local(r"C:\k\release"));
        let _ = fs::remove_file(&release);
        let _ = fs::remove_file(&holding);
        thread::scope(|scope| {
            let tool = scope.spawn(|| self.host.run(&format!("{TOOL} {keeps}")).unwrap());
            until("the tool holds it", || {
                holding.exists() || tool.is_finished()
            });
            // Whatever becomes of the work, the tool ends.
            let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
            fs::write(&release, "").unwrap();
            let output = tool.join().unwrap();
            assert!(output.status.success(), "{output:?}");
            result.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }
}

pub fn until(what: &str, holds: impl Fn() -> bool) {
    let begin = Instant::now();
    while !holds() {
        assert!(begin.elapsed() < PATIENCE, "{what}");
        thread::sleep(Duration::from_millis(10));
    }
}
