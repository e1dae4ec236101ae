//! Parses command lines, and compares paths and names of services, as Windows does.

/// Returns the program of a command line, or `None` if it has none.
///
/// For an unquoted path, Windows tries each prefix that ends before a space. This takes only the first.
pub fn program(command: &str) -> Option<&str> {
    let command = command.trim_start();
    let program = match command.strip_prefix('"') {
        Some(quoted) => quoted.split('"').next()?,
        None => command.split([' ', '\t']).next()?,
    };
    (!program.is_empty()).then_some(program)
}

/// Returns the folders of a command's `-log_file` arguments. klog does not create them.
pub fn log_folders(command: &str) -> Vec<&str> {
    command
        .split([' ', '\t'])
        .filter_map(|word| {
            word.strip_prefix("--log_file=")
                .or_else(|| word.strip_prefix("-log_file="))
        })
        .filter_map(|file| file.rsplit_once('\\'))
        .map(|(folder, _)| folder)
        .collect()
}

/// Compares two paths without case, with either slash as separator. Does not resolve links.
pub fn same_path(one: &str, other: &str) -> bool {
    let canonical = |path: &str| path.replace('/', "\\").to_lowercase();
    canonical(one) == canonical(other)
}

/// Returns whether two names refer to the same service: the Service Control Manager compares them without case.
pub fn same_name(one: &str, other: &str) -> bool {
    one.to_lowercase() == other.to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_program() {
        assert_eq!(
            program(r"C:\k\csi-proxy.exe -v=2"),
            Some(r"C:\k\csi-proxy.exe")
        );
        assert_eq!(
            program(r#""C:\Program Files\a.exe" -x "y z""#),
            Some(r"C:\Program Files\a.exe")
        );
        assert_eq!(program(r"C:\k\a.exe"), Some(r"C:\k\a.exe"));
        assert_eq!(program("  "), None);
        assert_eq!(program(r#""""#), None);
    }

    #[test]
    fn finds_log_folders() {
        assert_eq!(
            log_folders(
                r"C:\k\csi-proxy.exe -log_file=C:\var\log\csi-proxy\csi-proxy.log -logtostderr=false"
            ),
            [r"C:\var\log\csi-proxy"]
        );
        assert!(log_folders("a.exe -log_file_max_size=3").is_empty());
    }

    #[test]
    fn compares_paths_without_case() {
        assert!(same_path(r"C:\k\A.exe", r"c:\K\a.EXE"));
        assert!(same_path(r"C:\k\a.exe", "C:/k/a.exe"));
        assert!(!same_path(r"C:\k\a.exe", r"C:\k\b.exe"));
    }
}
