//! What the environment says of traces, by the variables that OpenTelemetry has for all programs.

use std::path::PathBuf;
use std::time::Duration;

use http::Uri;

use super::TracesError;
use crate::visible::visible;

/// As the specification has it.
const TIMEOUT: Duration = Duration::from_secs(10);
/// The only way in which traces are sent.
const PROTOCOL: &str = "http/protobuf";

/// Where traces are sent, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The whole address.
    pub endpoint: Uri,
    /// How long one request may take.
    pub timeout: Duration,
    /// The authorities that are trusted in place of the system's: a file in PEM.
    pub authorities: Option<PathBuf>,
}

impl Settings {
    /// What is asked for; `None` where no traces are. A variable that is empty counts as one that is not there.
    pub fn read(
        variable: impl Fn(&'static str) -> Option<String>,
    ) -> Result<Option<Self>, TracesError> {
        let variable = |name| variable(name).filter(|value| !value.is_empty());
        // What is said of traces goes before what is said of all that OpenTelemetry knows.
        let either = |of_traces, of_all| {
            let specific = variable(of_traces).map(|value| (of_traces, value));
            specific.or_else(|| variable(of_all).map(|value| (of_all, value)))
        };
        let is_disabled =
            variable("OTEL_SDK_DISABLED").is_some_and(|value| value.eq_ignore_ascii_case("true"));
        let is_unwanted = variable("OTEL_TRACES_EXPORTER").is_some_and(|value| value == "none");
        if is_disabled || is_unwanted {
            return Ok(None);
        }
        let endpoint = match (
            variable("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"),
            variable("OTEL_EXPORTER_OTLP_ENDPOINT"),
        ) {
            (Some(whole), _) => parse("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", &whole)?,
            (None, Some(base)) => {
                let whole = format!("{}/v1/traces", base.trim_end_matches('/'));
                parse("OTEL_EXPORTER_OTLP_ENDPOINT", &whole)?
            }
            (None, None) => return Ok(None),
        };
        let protocol = either(
            "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL",
            "OTEL_EXPORTER_OTLP_PROTOCOL",
        );
        if let Some((variable, value)) = protocol.filter(|(_, value)| value != PROTOCOL) {
            let value = visible(&value);
            return Err(TracesError::Protocol { variable, value });
        }
        let timeout = either(
            "OTEL_EXPORTER_OTLP_TRACES_TIMEOUT",
            "OTEL_EXPORTER_OTLP_TIMEOUT",
        );
        let timeout = match timeout {
            None => TIMEOUT,
            Some((variable, value)) => match value.trim().parse() {
                Ok(milliseconds) if milliseconds > 0 => Duration::from_millis(milliseconds),
                Ok(_) | Err(_) => {
                    let value = visible(&value);
                    return Err(TracesError::Timeout { variable, value });
                }
            },
        };
        let authorities = either(
            "OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE",
            "OTEL_EXPORTER_OTLP_CERTIFICATE",
        );
        Ok(Some(Self {
            endpoint,
            timeout,
            authorities: authorities.map(|(_, path)| path.into()),
        }))
    }

    /// The collector, without what may be a credential in the rest of its address.
    pub fn collector(&self) -> String {
        let scheme = self.endpoint.scheme_str().unwrap_or_default();
        let place = self.endpoint.authority().map_or("", |place| place.as_str());
        visible(&format!("{scheme}://{place}"))
    }
}

/// The address; the fault never shows it, for it may hold a credential.
fn parse(variable: &'static str, text: &str) -> Result<Uri, TracesError> {
    let refused = |problem: String| TracesError::Endpoint { variable, problem };
    let address: Uri = text
        .trim()
        .parse()
        .map_err(|error: http::uri::InvalidUri| refused(error.to_string()))?;
    if !matches!(address.scheme_str(), Some("http" | "https")) {
        return Err(refused(
            "it begins with neither http:// nor https://".to_owned(),
        ));
    }
    let place = address.authority().map_or("", |place| place.as_str());
    if address.host().is_none_or(str::is_empty) {
        return Err(refused("it names no host".to_owned()));
    }
    if place.contains('@') {
        return Err(refused(
            "credentials belong in OTEL_EXPORTER_OTLP_HEADERS".to_owned(),
        ));
    }
    Ok(address)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)]) -> Result<Option<Settings>, TracesError> {
        Settings::read(|name| {
            let mut found = variables.iter().filter(|(known, _)| *known == name);
            found.next().map(|(_, value)| (*value).to_owned())
        })
    }

    fn endpoint(variables: &[(&str, &str)]) -> Option<String> {
        let settings = read(variables).unwrap();
        settings.map(|settings| settings.endpoint.to_string())
    }

    const ALL: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
    const TRACES: &str = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT";

    #[test]
    fn the_address_of_all_gets_the_path_and_that_of_traces_is_as_it_is() {
        assert_eq!(endpoint(&[]), None);
        assert_eq!(endpoint(&[(ALL, "")]), None);
        for base in ["http://c:4318", "http://c:4318/"] {
            let found = endpoint(&[(ALL, base)]);
            assert_eq!(found.as_deref(), Some("http://c:4318/v1/traces"));
        }
        let found = endpoint(&[(ALL, "http://c/otel")]);
        assert_eq!(found.as_deref(), Some("http://c/otel/v1/traces"));
        let found = endpoint(&[(ALL, "http://c:4318"), (TRACES, "https://t/in")]);
        assert_eq!(found.as_deref(), Some("https://t/in"));
    }

    #[test]
    fn who_wants_none_gets_none() {
        let asked = (ALL, "http://c:4318");
        assert_eq!(endpoint(&[asked, ("OTEL_SDK_DISABLED", "true")]), None);
        assert_eq!(endpoint(&[asked, ("OTEL_TRACES_EXPORTER", "none")]), None);
        assert!(endpoint(&[asked, ("OTEL_SDK_DISABLED", "false")]).is_some());
        assert!(endpoint(&[asked, ("OTEL_TRACES_EXPORTER", "otlp")]).is_some());
    }

    #[test]
    fn what_cannot_be_heeded_is_a_fault_that_names_the_variable_and_shows_no_credential() {
        for bad in [
            "collector:4318",
            "collector",
            "grpc://collector:4317",
            "http://",
            "http://eve:geheim@collector:4318",
            "http://geheim collector",
        ] {
            let error = read(&[(ALL, bad)]).unwrap_err().to_string();
            assert!(error.contains(ALL), "{bad}: {error}");
            assert!(!error.contains("geheim"), "{error}");
        }
        let asked = (ALL, "http://c:4318");
        let error = read(&[asked, ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")]).unwrap_err();
        assert!(error.to_string().contains("http/protobuf"), "{error}");
        for bad in ["soon", "0", "-1"] {
            let error = read(&[asked, ("OTEL_EXPORTER_OTLP_TIMEOUT", bad)]).unwrap_err();
            assert!(error.to_string().contains("milliseconds"), "{error}");
        }
    }

    #[test]
    fn what_is_said_of_traces_goes_first() {
        let settings = read(&[
            (ALL, "https://c:4318/?key=geheim"),
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
            ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "http/protobuf"),
            ("OTEL_EXPORTER_OTLP_TIMEOUT", "1"),
            ("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "2500"),
            ("OTEL_EXPORTER_OTLP_CERTIFICATE", "/ca.pem"),
        ]);
        let settings = settings.unwrap().unwrap();
        assert_eq!(settings.timeout, Duration::from_millis(2500));
        assert_eq!(settings.authorities, Some("/ca.pem".into()));
        assert_eq!(settings.collector(), "https://c:4318");
    }
}
