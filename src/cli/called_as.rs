//! Detects whether the program was called as the operator or as the kubectl plugin.

use std::ffi::OsStr;
use std::path::Path;

use clap::{Command, CommandFactory};

use super::Cli;

/// The operator's own name.
const OPERATOR: &str = "windows-storage-operator";
/// The plugin's, as kubectl looks for it on PATH when it is called as `kubectl windows-storage`.
const PLUGIN: &str = "kubectl-windows_storage";
/// The plugin, as people call it.
const PLUGIN_CALLED: &str = "kubectl windows-storage";
/// Commands that nobody looks for in a plugin. They work all the same.
const NOT_OF_THE_PLUGIN: [&str; 2] = ["run", "crds"];

/// Whether the program was called as the plugin, by that path, the first of a process's arguments.
fn is_plugin(program: Option<&OsStr>) -> bool {
    let name = program.and_then(|program| Path::new(program).file_stem());
    name.is_some_and(|name| name == PLUGIN)
}

/// Returns the command line of the program under the name by which it was called.
pub fn command(program: Option<&OsStr>) -> Command {
    let command = Cli::command();
    if !is_plugin(program) {
        return command;
    }
    let about = "Say whether storage on the Windows nodes of a cluster is ready, what is missing, and whether the \
                     cluster may be upgraded.";
    command
        .name(PLUGIN)
        .bin_name(PLUGIN_CALLED)
        .display_name(PLUGIN_CALLED)
        .about(about)
        .mut_subcommands(|command| {
            let examples = command
                .get_after_help()
                .map(|text| in_plugin(&text.to_string()));
            let hidden = NOT_OF_THE_PLUGIN.contains(&command.get_name());
            let command = command.hide(hidden);
            match examples {
                Some(examples) => command.after_help(examples),
                None => command,
            }
        })
}

/// Examples as the plugin has them. The operator's Deployment, namespace and program keep their names.
fn in_plugin(examples: &str) -> String {
    let mut text = examples.to_owned();
    for before in ["  ", "| ", "<("] {
        text = text.replace(
            &format!("{before}{OPERATOR} "),
            &format!("{before}{PLUGIN_CALLED} "),
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_name_decides() {
        for (program, expected) in [
            ("/usr/bin/windows-storage-operator", false),
            ("anything", false),
            ("kubectl-windows_storage", true),
            ("kubectl-windows_storage.exe", true),
            ("/home/a/.krew/bin/kubectl-windows_storage", true),
        ] {
            assert_eq!(is_plugin(Some(OsStr::new(program))), expected, "{program}");
        }
    }

    fn plugin() -> Command {
        command(Some(OsStr::new(PLUGIN)))
    }

    #[test]
    fn both_command_lines_are_sound() {
        for command in [command(None), plugin()] {
            command.debug_assert();
        }
    }

    #[test]
    fn the_plugin_calls_itself_by_its_own_name_everywhere() {
        let mut command = plugin();
        command.build();
        let own = |help: String| {
            let of_the_operator = [
                "-n windows-storage-operator",
                "deployment/windows-storage-operator",
                "/usr/bin/windows-storage-operator",
                "[default: windows-storage-operator]",
            ];
            let of_the_plugin = of_the_operator
                .iter()
                .fold(help.clone(), |text, name| text.replace(name, ""));
            assert!(!of_the_plugin.contains(OPERATOR), "{help}");
            assert!(help.contains(PLUGIN_CALLED), "{help}");
        };
        own(command.render_long_help().to_string());
        let shown = command.get_subcommands().filter(|sub| !sub.is_hide_set());
        let shown: Vec<Command> = shown.cloned().collect();
        for mut sub in shown {
            own(sub.render_long_help().to_string());
        }
        let help = plugin().render_help().to_string();
        for hidden in NOT_OF_THE_PLUGIN {
            assert!(!help.contains(&format!("\n  {hidden} ")), "{help}");
        }
    }
}
