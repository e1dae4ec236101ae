//! csi-proxy's flags.

/// The longest flag, in bytes.
const LONGEST: usize = 512;
/// The longest command line, in bytes. Windows gives out a service's configuration only up to 8 KiB, in UTF-16.
///
/// Source: `QueryServiceConfigW`.
const LONGEST_COMMAND: usize = 2048;

/// The names of csi-proxy's own flags, and of those of its logging library.
///
/// Source: csi-proxy 1.3.0, `cmd/csi-proxy/main.go`; `k8s.io/klog/v2`, `InitFlags`.
const NAMES: [&str; 18] = [
    "windows-service",
    "kubelet-path",
    "working-dir",
    "require-privacy",
    "metrics-bind-address",
    "add_dir_header",
    "alsologtostderr",
    "log_backtrace_at",
    "log_dir",
    "log_file",
    "log_file_max_size",
    "logtostderr",
    "one_output",
    "skip_headers",
    "skip_log_headers",
    "stderrthreshold",
    "v",
    "vmodule",
];

/// Why arguments are not given to csi-proxy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FlagError {
    /// It is no flag, or has characters that could begin another argument.
    #[error(
        "{0:?} is no flag of the form -name or -name=value, of at most {LONGEST} characters, without spaces and quotes"
    )]
    Malformed(String),
    /// csi-proxy has no such flag, so it would end at once.
    #[error("csi-proxy has no flag {0}")]
    Unknown(String),
    /// Windows would not give out the configuration of the service.
    #[error("csi-proxy's flags have {0} characters together; {LONGEST_COMMAND} are possible")]
    TooLong(usize),
}

/// Checks that arguments are csi-proxy's flags, and fit in a command line.
pub fn check_flags(arguments: &[String]) -> Result<(), FlagError> {
    for argument in arguments {
        check_flag(argument)?;
    }
    let length = arguments.iter().map(|argument| argument.len() + 1).sum();
    if length > LONGEST_COMMAND {
        return Err(FlagError::TooLong(length));
    }
    Ok(())
}

/// Checks that an argument is one of csi-proxy's flags, and only one.
fn check_flag(argument: &str) -> Result<(), FlagError> {
    let is_plain = argument
        .bytes()
        .all(|byte| byte.is_ascii_graphic() && byte != b'"');
    let name = argument
        .strip_prefix('-')
        .filter(|_| is_plain && argument.len() <= LONGEST);
    let name = name.ok_or_else(|| FlagError::Malformed(argument.to_owned()))?;
    let name = name.strip_prefix('-').unwrap_or(name);
    let name = name.split('=').next().unwrap_or_default();
    if NAMES.contains(&name) {
        Ok(())
    } else {
        Err(FlagError::Unknown(format!("-{name}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flag_of_csi_proxy_and_nothing_else() {
        let long = format!("-v={}", "1".repeat(LONGEST));
        for (argument, is_good) in [
            ("-windows-service", true),
            ("--v=2", true),
            (r"-kubelet-path=D:\kubelet", true),
            ("-vmodule=a=1", true),
            ("-overlay=1", false),
            ("-V=2", false),
            ("-", false),
            ("--", false),
            ("---v=1", false),
            ("", false),
            ("v=1", false),
            (r"C:\x.exe", false),
            ("-v=1 -x", false),
            ("-v=\"1", false),
            ("-v=1\n", false),
            (&long, false),
        ] {
            assert_eq!(check_flag(argument).is_ok(), is_good, "{argument:?}");
        }
    }

    #[test]
    fn all_of_them_fit_in_a_command_line() {
        let flag = format!("-vmodule={}", "x".repeat(502));
        assert_eq!(check_flags(&vec![flag.clone(); 4]), Ok(()));
        let too_long = Err(FlagError::TooLong(5 * 512));
        assert_eq!(check_flags(&vec![flag; 5]), too_long);
    }
}
