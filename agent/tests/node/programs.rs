//! The Windows programs that tests upload: built when needed, or taken from the folder `TEST_PROGRAMS`, which
//! `tools/native-tests` fills.

use std::fs;
use std::path::PathBuf;
use std::sync::OnceLock;

/// Which build of the agent a test installs.
#[derive(Clone, Copy, Debug)]
pub enum Build {
    /// The build for nodes.
    Payload,
    /// The build that a test can kill at a chosen point, and that ends if its heap is damaged.
    FaultInjection,
}

pub fn agent(which: Build) -> Vec<u8> {
    // `make guarded` runs tests with the build for tests.
    let is_guarded = std::env::var_os("GUARDED_AGENT").is_some();
    let option = match which {
        Build::Payload if !is_guarded => None,
        Build::Payload | Build::FaultInjection => Some("--fault-injection"),
    };
    let name = format!("windows-storage-agent{}.exe", option.unwrap_or_default());
    read(&name, || built::agent(option))
}

pub fn csi_proxy(version: &str) -> Vec<u8> {
    let part = format!("csi-proxy-{version}");
    read(&format!("{part}.exe"), || built::part(&part))
}

/// Returns the stand-in, without the configuration of its behaviour.
pub fn standin() -> &'static [u8] {
    static PROGRAM: OnceLock<Vec<u8>> = OnceLock::new();
    PROGRAM.get_or_init(|| read("standin.exe", built::standin))
}

fn read(name: &str, build: impl FnOnce() -> PathBuf) -> Vec<u8> {
    let folder = std::env::var_os("TEST_PROGRAMS").map(PathBuf::from);
    let path = folder.map_or_else(build, |folder| folder.join(name));
    fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[cfg(windows)]
mod built {
    use std::path::PathBuf;

    const UNSET: &str = "set TEST_PROGRAMS to the folder of tools/native-tests, on a machine to throw away: csi-proxy and the \
                         agent are installed and removed";

    pub fn agent(_: Option<&str>) -> PathBuf {
        panic!("{UNSET}")
    }

    pub fn part(_: &str) -> PathBuf {
        panic!("{UNSET}")
    }

    pub fn standin() -> PathBuf {
        panic!("{UNSET}")
    }
}

#[cfg(unix)]
mod built {
    use std::path::{Path, PathBuf};
    use std::process::Command;

    fn printed(command: &mut Command) -> PathBuf {
        let output = command.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap().trim().into()
    }

    fn tool(name: &str) -> Command {
        Command::new(
            Path::new(env!("CARGO_MANIFEST_DIR"))
                .join("../tools")
                .join(name),
        )
    }

    pub fn agent(option: Option<&str>) -> PathBuf {
        printed(tool("build-agent").args(option))
    }

    pub fn part(name: &str) -> PathBuf {
        testbed::parts::part(name).unwrap()
    }

    pub fn standin() -> PathBuf {
        printed(&mut tool("build-standin"))
    }
}
