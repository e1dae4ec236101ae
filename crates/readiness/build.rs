//! Joins `advisories/*.yaml`. A file that does not say what it should fails the build.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

use serde::Deserialize;
use serde_json::Value;

#[allow(dead_code, reason = "only what reads the files is used here")]
#[path = "src/assess/advisories/format.rs"]
mod format;

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=advisories");
    println!("cargo::rerun-if-changed=src/assess/advisories/format.rs");
    let files = fs::read_dir("advisories")?.map(|file| Ok(file?.path()));
    let mut files = files.collect::<io::Result<Vec<PathBuf>>>()?;
    files.sort();
    let products = files.iter().map(|file| read(file));
    let products = products.collect::<Result<Vec<Value>, _>>()?;
    let folder = env::var_os("OUT_DIR").ok_or("no OUT_DIR")?;
    let joined = Path::new(&folder).join("advisories.json");
    fs::write(joined, Value::from(products).to_string())?;
    Ok(())
}

fn read(file: &Path) -> Result<Value, Box<dyn Error>> {
    let with_name = |error: &dyn Error| format!("{}: {error}", file.display());
    let product = serde_yaml::from_str::<Value>(&fs::read_to_string(file)?);
    let product = product.map_err(|error| with_name(&error))?;
    format::Product::deserialize(&product).map_err(|error| with_name(&error))?;
    Ok(product)
}
