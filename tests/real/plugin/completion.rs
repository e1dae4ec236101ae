//! Tests completion scripts in the shells themselves.

use std::process::Command;

use testbed::commands::{printed, with_path};

use crate::plugin::{PLUGIN, linked};

/// Completes a line as bash does when Tab is pressed at its end.
const PRESS_TAB: &str = r#"
source <("$1" completion bash)
shift
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMP_LINE="$*" COMP_POINT=${#COMP_LINE}
of=$(complete -p "$1")
function=${of#*-F } function=${function%% *}
[ "$#" -gt 1 ] && before=${*: -2:1} || before=
"$function" "$1" "${*: -1}" "$before"
printf '%s\n' "${COMPREPLY[@]}"
"#;

#[test]
fn bash_completes_commands_flags_and_values() {
    let folder = linked();
    for name in [PLUGIN, "windows-storage-operator"] {
        let press_tab = |words: &[&str]| -> Vec<String> {
            let mut bash = with_path(Command::new("bash"), &[folder.path()]).unwrap();
            bash.args(["--norc", "-c", PRESS_TAB, "bash", name, name])
                .args(words);
            let offered = printed(&mut bash).unwrap();
            offered.lines().map(str::to_owned).collect()
        };
        assert_eq!(press_tab(&["acc"]), ["accept-host-key"], "{name}");
        let commands = press_tab(&[""]);
        for command in ["check", "rollout", "why"] {
            assert!(commands.iter().any(|it| it == command), "{commands:?}");
        }
        assert_eq!(press_tab(&["check", "--kubec"]), ["--kubeconfig"], "{name}");
        assert_eq!(press_tab(&["check", "-o", "ht"]), ["html"], "{name}");
    }
}
