//! Differences between versions of Windows' SSH server, and the shells in which it runs commands.
//!
//! Sources are files of Win32-OpenSSH (PowerShell/openssh-portable), in `contrib/win32/win32compat` unless a folder is
//! given, compared by tag from v7.7.2.0 to v9.8.1.0. None of this was verified on Windows.

/// A version of the SSH server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Profile {
    /// The version in its greeting.
    pub version: &'static str,
    /// Whether a file that is open for writing can be opened by a second writer; readers are never allowed.
    /// `createFile_flags_setup` in `fileio.c`: since 7.9.
    pub shares_writing: bool,
    /// Whether quotes in a command are escaped for `PowerShell`. `build_commandline_string` in `misc.c`: since 7.9.
    pub escapes_quotes: bool,
    /// The longest path, in characters. `targetos.manifest`: since 8.1, the limit of `LongPathsEnabled`.
    pub longest_path: usize,
    /// Whether it refuses connections for a while after failed logins. `srclimit.c` and `servconf.c`: since 9.8.
    pub penalizes: bool,
}

const NEWEST: Profile = Profile {
    version: "9.8",
    shares_writing: true,
    escapes_quotes: true,
    longest_path: 32_768,
    penalizes: true,
};

impl Profile {
    /// The first version in Windows: Windows Server 2019 and 1809.
    pub const V7_7: Self = Self {
        version: "7.7",
        shares_writing: false,
        escapes_quotes: false,
        longest_path: 260,
        ..Self::V8_1
    };
    /// Windows Server 2022.
    pub const V8_1: Self = Self {
        version: "8.1",
        ..Self::V9_5
    };
    /// The version of updates since 2024, and of Windows Server 2025.
    pub const V9_5: Self = Self {
        version: "9.5",
        penalizes: false,
        ..NEWEST
    };
    /// The newest version whose sources were read.
    pub const V9_8: Self = NEWEST;
    /// All versions.
    pub const ALL: [Self; 4] = [Self::V7_7, Self::V8_1, Self::V9_5, Self::V9_8];
}

/// The `DefaultShell`, which runs commands and SFTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shell {
    /// The default.
    Cmd,
    /// Windows `PowerShell`.
    PowerShell,
}

impl Shell {
    /// Both shells.
    pub const ALL: [Self; 2] = [Self::Cmd, Self::PowerShell];

    /// Returns what the shell runs, after sshd has built a command line from the command and the shell has parsed it.
    pub fn script(self, profile: Profile, command: &str) -> String {
        match self {
            // cmd removes the first and the last quote, and nothing else.
            Self::Cmd => command.to_owned(),
            Self::PowerShell => {
                let line = self.command_line(profile, command);
                arguments(&line).split_off(2).join(" ")
            }
        }
    }

    /// Returns the command line that sshd starts. `do_exec_windows` in `w32-doexec.c`, `build_commandline_string` and,
    /// in 7.7, `build_session_commandline` in `misc.c`.
    fn command_line(self, profile: Profile, command: &str) -> String {
        match self {
            Self::Cmd => format!(r#""cmd.exe" /c "{command}""#),
            Self::PowerShell if profile.escapes_quotes => {
                let escaped = command.replace('"', r#"\""#);
                let quote = if command.contains(' ') && !command.starts_with('\'') {
                    "\""
                } else {
                    ""
                };
                format!(r#""powershell.exe" -c {quote}{escaped}{quote}"#)
            }
            Self::PowerShell => format!(r#""powershell.exe" -c "{command}""#),
        }
    }

    /// Returns the exit status that the client sees. All 32 bits arrive (`w32/inc/sys/wait.h`), but `powershell -c`
    /// only distinguishes success and failure (PowerShell/PowerShell#13501).
    pub fn exit_status(self, status: u32) -> u32 {
        match self {
            Self::Cmd => status,
            Self::PowerShell => u32::from(status != 0),
        }
    }

    /// Returns the shell's error for a program that does not exist.
    pub fn no_such_program(self, program: &str) -> String {
        match self {
            Self::Cmd => format!(
                "'{program}' is not recognized as an internal or external command,\r\noperable program or batch file.\r\n"
            ),
            Self::PowerShell => format!(
                "{program} : The term '{program}' is not recognized as the name of a cmdlet, function, script file, or\r\n\
                 operable program. Check the spelling of the name, or if a path was included, verify that the path is\r\n\
                 correct and try again.\r\n    + CategoryInfo          : ObjectNotFound: ({program}:String) [],\r\n"
            ),
        }
    }
}

/// Splits a command line into arguments. Source: Microsoft's documentation of `CommandLineToArgvW`.
fn arguments(line: &str) -> Vec<String> {
    let (mut arguments, mut current) = (Vec::new(), None::<String>);
    let (mut quoted, mut backslashes) = (false, 0);
    for c in line.chars() {
        if c == '\\' {
            backslashes += 1;
            continue;
        }
        let is_quote = c == '"';
        let literal = if is_quote {
            backslashes / 2
        } else {
            backslashes
        };
        if backslashes > 0 {
            current
                .get_or_insert_default()
                .push_str(&"\\".repeat(literal));
        }
        let escaped = std::mem::take(&mut backslashes) % 2 == 1;
        match c {
            '"' if !escaped => {
                quoted = !quoted;
                current.get_or_insert_default();
            }
            ' ' if !quoted => arguments.extend(current.take()),
            c => current.get_or_insert_default().push(c),
        }
    }
    if backslashes > 0 {
        current
            .get_or_insert_default()
            .push_str(&"\\".repeat(backslashes));
    }
    arguments.extend(current);
    arguments
}
