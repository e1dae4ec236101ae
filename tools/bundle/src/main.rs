//! The command line, for the Makefile.

use std::path::PathBuf;

use anyhow::Result;
use bundler::{Published, Releases};
use clap::{Args, Parser, Subcommand};

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
        Command::Catalog => print!("{}", bundler::without_newest_bundle(&root)?),
        Command::BundleImage => println!("{}", bundler::newest_bundle_image(&root)?),
    }
    Ok(())
}
