//! Parses the log level of the command line.

use tracing_subscriber::filter::{LevelFilter, ParseError, Targets};

/// The client's own warnings repeat ours, and print answers that do not parse verbatim, even those with Secrets.
const SILENT: [&str; 2] = ["kube_client", "kube_runtime"];

/// Parses a level such as `info`, or a list such as `info,hyper=debug`. `EnvFilter` can do more, but needs regular
/// expressions for it.
pub fn filter(text: &str) -> Result<Targets, ParseError> {
    let parts = text.split(',').map(str::trim);
    // An empty part would mean errors only.
    let is_taken = |part: &&str| {
        let is_silent = SILENT.iter().any(|target| part.starts_with(target));
        !part.is_empty() && !is_silent
    };
    let parts: Vec<&str> = parts.filter(is_taken).collect();
    let filter: Targets = parts.join(",").parse()?;
    Ok(filter.with_targets(SILENT.map(|target| (target, LevelFilter::ERROR))))
}

#[cfg(test)]
mod tests {
    use tracing::Level;

    use super::*;

    const OWN: &str = "windows_storage_operator";

    #[test]
    fn empty_parts_and_blanks_of_a_log_level_mean_nothing() {
        assert!(filter("").is_ok());
        for level in ["info", "info,", " info , kube=debug", ",info"] {
            let filter = filter(level).unwrap();
            assert!(filter.would_enable(OWN, &Level::INFO), "{level}");
            assert!(!filter.would_enable(OWN, &Level::DEBUG), "{level}");
            assert_eq!(
                filter.would_enable("kube", &Level::DEBUG),
                level.contains("kube"),
                "{level}"
            );
        }
        for text in [
            "info",
            "trace,kube=trace",
            "info,kube_client=trace,kube_client::client=trace, kube_runtime::watcher=trace",
        ] {
            let filter = filter(text).unwrap();
            for target in ["kube_client::client", "kube_runtime::watcher"] {
                assert!(!filter.would_enable(target, &Level::WARN), "{text}");
                assert!(filter.would_enable(target, &Level::ERROR), "{text}");
            }
        }
        assert!(filter("kube=loud").is_err());
    }
}
