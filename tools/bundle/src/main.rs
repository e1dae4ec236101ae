//! The command line, for the Makefile.

use std::path::PathBuf;

use anyhow::{Context, Result};
use bundler::{NewRelease, Published, Releases, Skip};
use clap::{Args, Parser, Subcommand};
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
    Bundle(PublishedArgs),
    /// Take the step to a new release, and print the files that it changed
    Release {
        /// The new version
        version: Version,
        /// From which versions OLM may go straight to this one: a range such as ">=0.1.0 <0.3.0", or "none". Default: from
        /// every earlier release of the same major version
        #[arg(long, value_name = "RANGE")]
        skip_range: Option<String>,
        #[command(flatten)]
        published: PublishedArgs,
    },
    /// Print the catalog without the newest bundle, which opm adds
    Catalog,
    /// Print the image of the newest bundle
    BundleImage,
}

/// An empty value counts as none, so that a Makefile can hand on a variable that is not set.
#[derive(Args)]
struct PublishedArgs {
    /// The operator's image, with tag or digest
    #[arg(long, value_name = "NAME:TAG")]
    image: Option<String>,
    /// The last OpenShift minor version to which a cluster with this bundle may be upgraded
    #[arg(long, value_name = "MAJOR.MINOR")]
    max_openshift_version: Option<String>,
    /// The address of the source
    #[arg(long, value_name = "URL")]
    repository: Option<String>,
}

impl From<PublishedArgs> for Published {
    fn from(args: PublishedArgs) -> Self {
        let PublishedArgs {
            image,
            max_openshift_version,
            repository,
        } = args;
        let given = |value: Option<String>| value.filter(|value| !value.is_empty());
        Self {
            image: given(image),
            max_openshift_version: given(max_openshift_version),
            repository: given(repository),
        }
    }
}

fn main() -> Result<()> {
    let Cli { root, command } = Cli::parse();
    match command {
        Command::Bundle(args) => {
            let mut releases = Releases::read(&root)?;
            releases.publish(args.into());
            for path in bundler::write(&root, &releases.render(&root)?)? {
                println!("{}", path.display());
            }
        }
        Command::Release {
            version,
            skip_range,
            published,
        } => {
            let changed = bundler::cut_release(
                &root,
                NewRelease {
                    version,
                    created_at: Timestamp::now()
                        .round(Unit::Second)
                        .context("rounding the time")?
                        .to_string(),
                    skip: match skip_range.as_deref() {
                        None | Some("") => Skip::SameMajor,
                        Some("none") => Skip::Nothing,
                        Some(range) => Skip::Range(range.to_owned()),
                    },
                    published: published.into(),
                },
            )?;
            for path in changed {
                println!("{}", path.display());
            }
        }
        Command::Catalog => print!("{}", bundler::without_newest_bundle(&root)?),
        Command::BundleImage => println!("{}", bundler::newest_bundle_image(&root)?),
    }
    Ok(())
}
