//! Measures the whole operator on real components. Machines are noisy, so figures that are compared come from one run, and
//! a figure beyond its limit does not make the program fail.

mod cluster;
mod copy;
mod figures;
mod fleet;
mod gate;
mod load;
mod node;
mod process;
mod report;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::Parser;
use clap::builder::PossibleValuesParser;
use openssl::rand::rand_bytes;
use serde_json::json;
use simulated_host::File;

use report::Row;

/// Measure the operator of a release build.
#[derive(Parser)]
struct Arguments {
    /// What to measure; everything if nothing is named.
    #[arg(value_name = "MEASUREMENT", value_parser = PossibleValuesParser::new(MEASUREMENTS.iter().map(|(name, _)| *name)))]
    measurements: Vec<String>,
}

/// A measurement: its name and its function.
type Measurement = (&'static str, fn() -> Result<Vec<Row>>);

const MEASUREMENTS: &[Measurement] = &[
    ("load", load::measure),
    ("huge", load::measure_huge),
    ("fleet", fleet::measure),
    ("copy", copy::measure),
];

fn main() -> Result<()> {
    let chosen = Arguments::parse().measurements;
    let is_chosen = |name: &str| chosen.is_empty() || chosen.iter().any(|it| it == name);
    let mut failed = Vec::new();
    for (name, measure) in MEASUREMENTS.iter().filter(|(name, _)| is_chosen(name)) {
        eprintln!("measuring {name} …");
        match measure() {
            Ok(rows) => report::print(name, &rows),
            Err(error) => {
                eprintln!("{name}: {error:#}");
                failed.push(*name);
            }
        }
    }
    if !failed.is_empty() {
        bail!("could not be measured: {}", failed.join(", "));
    }
    Ok(())
}

/// Returns the operator's binary, which cargo puts next to this one: both come from a release build.
fn operator_binary() -> Result<PathBuf> {
    let path = std::env::current_exe()?.with_file_name("windows-storage-operator");
    if !path.exists() {
        bail!("{} is not there: make bench builds it", path.display());
    }
    Ok(path)
}

/// Creates a payload folder with dummy programs of these sizes in bytes.
fn small_payload(folder: &Path, csi_proxy: usize, agent: usize) -> Result<PathBuf> {
    let folder = folder.join("small-payload");
    fs::create_dir_all(&folder)?;
    let mut manifest = json!({});
    for (program, version, size) in [
        ("csiProxy", "v1.3.0", csi_proxy),
        ("agent", env!("CARGO_PKG_VERSION"), agent),
    ] {
        // Noise, so that compression gains nothing.
        let mut content = vec![0; size];
        rand_bytes(&mut content)?;
        fs::write(folder.join(program), &content)?;
        let hash = File::new(&content).sha256();
        manifest[program] = json!({"file": program, "version": version, "sha256": hash});
    }
    fs::write(folder.join("payload.json"), manifest.to_string())?;
    Ok(folder)
}

/// Returns the folder with the programs for Windows nodes.
fn payload() -> Result<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/payload");
    path.canonicalize()
        .with_context(|| format!("{} is not there: make payload", path.display()))
}
