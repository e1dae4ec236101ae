//! Configures the log level: from the command line, or higher while `WindowsStorage` asks for it.

use std::sync::{Arc, Mutex, PoisonError};

use tracing::Level;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::{ParseError, Targets};
use tracing_subscriber::{Registry, reload};

use crate::api::LogLevel;

/// The target of this program's own lines.
const OWN: &str = "windows_storage_operator";

/// The level of the log, which can be changed while the program runs.
#[derive(Clone, Debug)]
pub struct Levels {
    filter: reload::Handle<Targets, Registry>,
    /// The filter from the command line.
    base: Targets,
    current: Arc<Mutex<LogLevel>>,
}

/// The layer that filters, at the bottom of a subscriber.
pub type Filter = reload::Layer<Targets, Registry>;

impl Levels {
    /// Parses the command line's level, such as `info`, or a list such as `info,hyper=debug`.
    pub fn parse(text: &str) -> Result<(Self, Filter), ParseError> {
        let base = filter(text)?;
        let (layer, filter) = reload::Layer::new(base.clone());
        let levels = Self {
            filter,
            base,
            current: Arc::default(),
        };
        Ok((levels, layer))
    }

    /// Sets how much is logged from now on.
    pub fn set(&self, level: LogLevel) {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if *current == level {
            return;
        }
        let before = std::mem::replace(&mut *current, level);
        drop(current);
        // Fails only if the subscriber is gone.
        let _ = self.filter.reload(with(&self.base, level));
        tracing::info!("log level changed from {before:?} to {level:?}");
    }
}

/// Parses a filter. `EnvFilter` can do more, but needs regular expressions for it.
fn filter(text: &str) -> Result<Targets, ParseError> {
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

/// Returns the filter at that level, which never logs less than the command line asks for.
fn with(base: &Targets, level: LogLevel) -> Targets {
    let own = match level {
        LogLevel::Normal => return base.clone(),
        LogLevel::Debug => Level::DEBUG,
        LogLevel::Trace => Level::TRACE,
        LogLevel::TraceAll => {
            let client = ["kube_client", "kube_runtime"];
            return Targets::new()
                .with_default(Level::TRACE)
                .with_targets(client.map(|target| (target, LevelFilter::ERROR)));
        }
    };
    if base.would_enable(OWN, &own) {
        base.clone()
    } else {
        base.clone().with_target(OWN, own)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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

    #[test]
    fn a_level_asks_for_more_and_never_for_less_and_the_client_stays_silent() {
        let enabled = |base: &str, level, target: &str, wanted: Level| {
            with(&filter(base).unwrap(), level).would_enable(target, &wanted)
        };
        for base in ["info", "warn", "error"] {
            assert!(!enabled(base, LogLevel::Normal, OWN, Level::DEBUG));
            assert!(enabled(base, LogLevel::Debug, OWN, Level::DEBUG));
            assert!(!enabled(base, LogLevel::Debug, OWN, Level::TRACE));
            assert!(!enabled(base, LogLevel::Debug, "hyper", Level::DEBUG));
            assert!(enabled(base, LogLevel::Trace, OWN, Level::TRACE));
            assert!(enabled(base, LogLevel::TraceAll, "hyper", Level::TRACE));
        }
        assert!(enabled("trace", LogLevel::Debug, OWN, Level::TRACE));
        for level in [LogLevel::Debug, LogLevel::Trace, LogLevel::TraceAll] {
            assert!(!enabled("info", level, "kube_client::client", Level::WARN));
        }
    }
}
