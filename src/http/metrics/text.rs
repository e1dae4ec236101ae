//! The two text formats: OpenMetrics for clients that ask for it, and Prometheus' own for all others, such as `curl` and
//! older programs.

/// A text format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// <https://prometheus.io/docs/specs/om/open_metrics_spec/>
    OpenMetrics,
    /// <https://prometheus.io/docs/instrumenting/exposition_formats/#text-based-format>
    Prometheus,
}

impl Format {
    /// Returns the format for this `Accept` header.
    #[must_use]
    pub fn accepted(accept: Option<&str>) -> Self {
        match accept {
            Some(accept) if accept.contains("application/openmetrics-text") => Self::OpenMetrics,
            _ => Self::Prometheus,
        }
    }

    /// Returns the format's content type.
    #[must_use]
    pub fn content_type(self) -> &'static str {
        match self {
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
        }
    }
}

/// Converts OpenMetrics to Prometheus' format: there a counter's own name ends in `_total`, and nothing marks the end. The
/// library writes only OpenMetrics. Exemplars and units, which differ as well, are not used.
pub(super) fn plain(text: &str) -> String {
    let mut plain = String::with_capacity(text.len() + 1024);
    // The help of a metric comes before its type.
    let mut help: Option<(&str, &str)> = None;
    for line in text.lines() {
        if let Some((name, words)) = after(line, "# HELP ") {
            help = Some((name, words));
        } else if let Some((name, kind)) = after(line, "# TYPE ") {
            let suffix = if kind == "counter" { "_total" } else { "" };
            if let Some((_, words)) = help.take().filter(|(helped, _)| *helped == name) {
                plain.extend(["# HELP ", name, suffix, " ", words, "\n"]);
            }
            plain.extend(["# TYPE ", name, suffix, " ", kind, "\n"]);
        } else if !line.starts_with('#') {
            plain.extend([line, "\n"]);
        }
    }
    plain
}

fn after<'a>(line: &'a str, start: &str) -> Option<(&'a str, &'a str)> {
    line.strip_prefix(start)?.split_once(' ')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_get_their_whole_name_and_the_end_goes() {
        let open = "# HELP a_logins Logins.\n# TYPE a_logins counter\na_logins_total{x=\"# TYPE\"} 1\n\
                    # HELP a_nodes Nodes.\n# TYPE a_nodes gauge\na_nodes 2\n# EOF\n";
        let expected = "# HELP a_logins_total Logins.\n# TYPE a_logins_total counter\na_logins_total{x=\"# TYPE\"} 1\n\
                        # HELP a_nodes Nodes.\n# TYPE a_nodes gauge\na_nodes 2\n";
        assert_eq!(plain(open), expected);
    }

    #[test]
    fn open_metrics_is_for_those_who_ask_for_it() {
        let prometheus = "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3,*/*;q=0.1";
        assert_eq!(Format::accepted(Some(prometheus)), Format::OpenMetrics);
        assert_eq!(Format::accepted(Some("*/*")), Format::Prometheus);
        assert_eq!(Format::accepted(None), Format::Prometheus);
    }
}
