//! Selects the input of an assessment: a cluster, or files that were exported from one.

use jiff::Timestamp;
use windows_storage_operator::assess::report::About;
use windows_storage_operator::check::{from_api, from_files};
use windows_storage_operator::files::Source;
use windows_storage_operator::index::Cluster;
use windows_storage_operator::report::about;
use windows_storage_operator::visible::visible;

use crate::cli::InputArgs;
use crate::command::connect::{connect, place};
use crate::command::progress::{show_reading, spinner};
use crate::command::{report_line, runtime};

/// The input that was read.
pub struct Input {
    /// What it is.
    pub about: About,
    /// The cluster.
    pub cluster: Cluster,
    /// The default namespace: the context's, or else the same as kubectl's.
    pub namespace: String,
}

/// Reads a cluster, or files instead.
pub fn read(arguments: &InputArgs) -> anyhow::Result<Input> {
    if arguments.files.is_empty() {
        return read_cluster(arguments);
    }
    let files = arguments.files.iter();
    let files = files.map(|file| match file.to_string_lossy() {
        stdin if stdin == "-" => "standard input".to_owned(),
        name => name.into_owned(),
    });
    Ok(Input {
        about: About {
            files: files.collect(),
            ..about(Timestamp::now())
        },
        cluster: read_files(arguments)?,
        namespace: "default".to_owned(),
    })
}

fn read_cluster(arguments: &InputArgs) -> anyhow::Result<Input> {
    let bar = spinner();
    let input = runtime()?.block_on(async {
        let about = place(&arguments.cluster).await?;
        let (client, version) = connect(&arguments.cluster).await?;
        let cluster = from_api(&client, version, &mut |reading| {
            show_reading(&bar, &reading);
        })
        .await?;
        let namespace = client.default_namespace().to_owned();
        Ok::<_, anyhow::Error>(Input {
            about,
            cluster,
            namespace,
        })
    });
    bar.finish_and_clear();
    let input = input?;
    if arguments.verbose {
        let server = input.about.server.as_deref().unwrap_or_default();
        let version = input.cluster.api_server_version.as_deref();
        let version = version.unwrap_or_default();
        report_line(visible(&format!("Read {server}, Kubernetes {version}.")));
    }
    Ok(input)
}

fn read_files(arguments: &InputArgs) -> anyhow::Result<Cluster> {
    let sources: Vec<Source> = arguments.files.iter().cloned().map(Source::from).collect();
    let bar = spinner();
    let input = from_files(&sources, &mut |reading| show_reading(&bar, &reading));
    bar.finish_and_clear();
    let input = input?;
    if !input.unread.is_empty() {
        report_line(format!("error: {}", input.unread));
    }
    if arguments.verbose {
        report_line(format!("Read {}.", input.summary));
    }
    if !input.left_out.is_empty() {
        report_line(format!(
            "note: left out, because they do not parse and name no object of a kind that is used:\n{}",
            input.left_out
        ));
    }
    if !input.not_given.is_empty() {
        report_line(format!(
            "note: the input has no {}; if the cluster has any, the verdict does not know of them",
            input.not_given.join(", no ")
        ));
    }
    Ok(input.cluster)
}
