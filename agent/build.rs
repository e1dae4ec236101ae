//! Gives the program for Windows its version resource.

use std::error::Error;
use std::path::PathBuf;
use std::process::Command;
use std::{env, fs};

const TEMPLATE: &str = "version.rc";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed={TEMPLATE}");
    if env::var("CARGO_CFG_TARGET_OS")? != "windows" {
        return Ok(());
    }
    let version = env::var("CARGO_PKG_VERSION")?;
    let numbers = version.split(['-', '+']).next().unwrap_or(&version);
    let text = fs::read_to_string(TEMPLATE)?
        .replace("@NUMBERS@", &format!("{},0", numbers.replace('.', ",")))
        .replace("@VERSION@", &version);
    let out = PathBuf::from(env::var("OUT_DIR")?);
    let (source, object) = (out.join("version.rc"), out.join("version.o"));
    fs::write(&source, text)?;
    let windres = if cfg!(windows) {
        "windres"
    } else {
        "x86_64-w64-mingw32-windres"
    };
    let made = Command::new(windres).arg(&source).arg(&object).status();
    if !made
        .map_err(|error| format!("{windres}: {error}; tools/setup installs it"))?
        .success()
    {
        return Err(format!("{windres} failed").into());
    }
    println!("cargo:rustc-link-arg-bins={}", object.display());
    Ok(())
}
