//! Small programs that behave on a host as a test needs.

use std::fs;
use std::thread;

use crate::host::{Node, PIPES};
use crate::programs;

/// How a stand-in misbehaves, in the order of `standin.c`.
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

/// Returns a program that opens these pipes as a service.
pub fn standin(behaviour: Behaviour, pipes: &[&str]) -> Vec<u8> {
    // The stand-in reads its configuration from the end of its own file.
    let end = format!("STANDIN:{}:{}\0", behaviour as u8, pipes.join(";"));
    [programs::standin(), end.as_bytes()].concat()
}

/// Returns a stand-in that opens all pipes that csi-proxy must open.
pub fn standin_for_csi_proxy(behaviour: Behaviour) -> Vec<u8> {
    standin(behaviour, &PIPES)
}

/// Returns a stand-in that works; each mark gives it another hash.
pub fn variant(mark: u8) -> Vec<u8> {
    let mut content = standin_for_csi_proxy(Behaviour::Well);
    content.extend([mark; 16]);
    content
}

pub const TOOL: &str = r"C:\tool\csi-proxy.exe";

impl Node {
    /// Uploads the stand-in as a tool.
    pub fn bring_tool(&self) {
        let tool = self.local(TOOL);
        fs::create_dir_all(tool.parent().unwrap()).unwrap();
        fs::write(tool, standin(Behaviour::Well, &[])).unwrap();
    }

    /// Runs `work` while the tool keeps something open.
    pub fn while_tool<T>(&self, keeps: &str, work: impl FnOnce() -> T) -> T {
        let (holding, release) = (self.local(r"C:\k\holding"), self.local(r"C:\k\release"));
        let _ = fs::remove_file(&release);
        let _ = fs::remove_file(&holding);
        thread::scope(|scope| {
            let tool = scope.spawn(|| self.host.run(&format!("{TOOL} {keeps}")).unwrap());
            self.until("the tool holds it", || {
                holding.exists() || tool.is_finished()
            });
            // The tool ends even if `work` panics.
            let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
            fs::write(&release, "").unwrap();
            let output = tool.join().unwrap();
            assert!(output.status.success(), "{output:?}");
            result.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }
}

impl Node {
    /// Makes and starts a service of another owner.
    pub fn make_logs(&self) {
        let program = r"C:\k\logs.exe";
        fs::write(self.local(program), standin(Behaviour::Well, &[])).unwrap();
        self.run(&format!("sc create logs binpath= {program}"));
        self.run("net start logs");
    }
}
