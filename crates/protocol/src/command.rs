//! Parses command lines of services as Windows parses them.

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

/// Compares two paths without case, with either slash as separator. Does not resolve links.
pub fn same_path(one: &str, other: &str) -> bool {
    let canonical = |path: &str| path.replace('/', "\\").to_lowercase();
    canonical(one) == canonical(other)
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
    fn compares_paths_without_case() {
        assert!(same_path(r"C:\k\A.exe", r"c:\K\a.EXE"));
        assert!(same_path(r"C:\k\a.exe", "C:/k/a.exe"));
        assert!(!same_path(r"C:\k\a.exe", r"C:\k\b.exe"));
    }
}
