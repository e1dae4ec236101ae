//! The bundler's command line, for the Makefile.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};
use bundler::{Published, Releases};
use clap::{Parser, Subcommand};
use jiff::{Timestamp, Unit};
use semver::Version;

/// Renders the OLM bundle and its catalog from the manifests.
#[derive(Parser)]
struct Cli {
    /// The project's folder
    #[arg(long, value_name = "DIR", default_value = ".")]
    root: PathBuf,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Write the bundle of the newest release
    Bundle(Published),
    /// Cut a new release, and print the files that it changed
    Release {
        /// The new version
        version: Version,
        /// Versions from which OLM may upgrade directly to this one: a range such as ">=0.1.0 <0.3.0", or "none".
        /// Default: every earlier release of the same major version
        #[arg(long, value_name = "RANGE")]
        skip_range: Option<String>,
        #[command(flatten)]
        published: Published,
    },
    /// Print the catalog without the newest bundle, which opm adds
    Catalog,
    /// Print the image of the newest bundle
    BundleImage,
    /// Write docs/configuration.md and docs/advisories.md from their sources
    Reference,
}

fn main() -> Result<()> {
    let Cli { root, command } = Cli::parse();
    match command {
        Command::Bundle(args) => {
            let mut releases = Releases::read(&root)?;
            releases.publish(args);
            for path in bundler::write(&root, &releases.render(&root)?)? {
                println!("{}", path.display());
            }
        }
        Command::Release {
            version,
            skip_range,
            published,
        } => {
            let now = Timestamp::now().round(Unit::Second);
            let now = now.context("rounding the time")?.to_string();
            let range = skip_range.as_deref();
            let changed = bundler::cut_release(&root, &version, now, range, published)?;
            for path in changed {
                println!("{}", path.display());
            }
        }
        Command::Catalog => print!("{}", bundler::without_newest_bundle(&root)?),
        Command::Reference => {
            for (page, text) in bundler::reference(&root)? {
                fs::write(root.join(page), text).context(page)?;
            }
        }
        Command::BundleImage => println!("{}", bundler::newest_bundle_image(&root)?),
    }
    Ok(())
}
