//! Parses the log level of the command line.

use tracing_subscriber::filter::{LevelFilter, ParseError, Targets};

/// Parses a level such as `info`, or a list such as `info,hyper=debug`. `EnvFilter` can do more, but needs regular
/// expressions for it.
pub fn filter(text: &str) -> Result<Targets, ParseError> {
    // An empty part would mean errors only.
    let parts = text.split(',').map(str::trim);
    let mut parts: Vec<&str> = parts.filter(|part| !part.is_empty()).collect();
    let names = |target: &str| {
        let mut named = parts.iter().filter_map(|part| part.split('=').next());
        named.any(|name| name.trim() == target)
    };
    // The client's own warnings repeat ours, and print answers that do not parse verbatim, even those with Secrets.
    let silent: Vec<String> = ["kube_client", "kube_runtime"]
        .into_iter()
        .filter(|target| !names(target))
        .map(|target| format!("{target}=error"))
        .collect();
    parts.extend(silent.iter().map(String::as_str));
    let filter: Targets = parts.join(",").parse()?;
    // Targets that print answers cannot be enabled by name either. The one that reports requests is below one of them.
    let requests = "kube_client::client::builder";
    let level = filter
        .iter()
        .filter(|(target, _)| requests.starts_with(target))
        .max_by_key(|(target, _)| target.len())
        .map(|(_, level)| level);
    let filter = filter
        .with_target("kube_client::client", LevelFilter::ERROR)
        .with_target("kube_runtime::watcher", LevelFilter::ERROR);
    Ok(match level {
        Some(level) => filter.with_target(requests, level),
        None => filter,
    })
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
            assert!(!filter.would_enable("kube_client", &Level::WARN), "{level}");
            assert_eq!(
                filter.would_enable("kube", &Level::DEBUG),
                level.contains("kube"),
                "{level}"
            );
        }
        let by_name = filter("info,kube_client=debug").unwrap();
        assert!(by_name.would_enable("kube_client", &Level::DEBUG));
        assert!(by_name.would_enable("kube_client::client::builder", &Level::DEBUG));
        for text in [
            "info,kube_client::client=trace,kube_runtime::watcher=trace",
            "trace,kube_client=trace",
        ] {
            let shows_answers = filter(text).unwrap();
            for target in ["kube_client::client", "kube_runtime::watcher"] {
                assert!(!shows_answers.would_enable(target, &Level::WARN), "{text}");
            }
        }
        assert!(!by_name.would_enable("kube_runtime", &Level::WARN));
        assert!(filter("kube=loud").is_err());
    }
}
