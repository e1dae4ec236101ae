//! What users search for leads to a cause and a remedy.

use crate::docs::read;

/// The error texts that users search for, as they are printed: the words between names that differ.
const OF_THE_POD: [&[&str]; 6] = [
    &[
        "AttachVolume.Attach failed for volume",
        "CSINode ",
        " does not contain driver ",
    ],
    &[
        "driver name ",
        " not found in the list of registered CSI drivers",
    ],
    &["volume-migration feature switch is disabled. Cannot use volume with vmdk path"],
    &["Format-Volume : Cannot validate argument on parameter 'FileSystem'. The argument \"ext4\""],
    &[
        r"\globalmount: Cannot create a file when that file already exists",
        "exists but is not a directory",
    ],
    &["New-SmbGlobalMapping : The Workstation service has not been started"],
];
const OF_THE_DRIVER: [&[&str]; 6] = [
    &[
        r"open \\.\pipe\csi-proxy-",
        ": The system cannot find the file specified",
    ],
    &["no matching manifest for windows/amd64 10.0.17763"],
    &[
        "Kubelet plugin registration hasn't succeeded yet, file=",
        r"\registration doesn't exist",
    ],
    &["A socket operation was attempted to an unreachable network"],
    &[
        "hostPath type check failed: ",
        r"\plugins_registry\ is not a directory",
    ],
    &["csi plugin started on windows node without enabling feature switch"],
];

/// Returns the part of a page under a heading.
fn section<'a>(page: &'a str, heading: &str) -> &'a str {
    let (_, rest) = page.split_once(&format!("\n{heading}\n")).unwrap();
    rest.split_once("\n#").map_or(rest, |(section, _)| section)
}

/// The texts of one place are one table, in this order: the text of a disk that waits comes first.
#[test]
fn every_error_text_that_users_search_for_has_its_cause_and_remedy() {
    let page = read("docs/troubleshooting.md");
    for (heading, texts) in [
        ("### Errors of the pod", OF_THE_POD),
        ("### Errors of the driver's pod", OF_THE_DRIVER),
    ] {
        let rows: Vec<&str> = section(&page, heading)
            .lines()
            .filter(|line| line.starts_with("| `"))
            .collect();
        assert_eq!(rows.len(), texts.len(), "{heading}: {rows:#?}");
        for (row, words) in rows.iter().zip(texts) {
            let [text, remedy] = row.trim_matches('|').split('|').collect::<Vec<_>>()[..] else {
                panic!("not two cells: {row}");
            };
            let mut at = 0;
            for words in words {
                let found = text[at..].find(words);
                assert!(found.is_some(), "{text} lacks {words:?}");
                at += found.unwrap() + words.len();
            }
            assert!(remedy.split_whitespace().count() >= 5, "no remedy: {row}");
        }
    }
}

#[test]
fn who_is_held_by_others_finds_the_way_out() {
    let page = read("docs/troubleshooting.md");
    let wmco = section(
        &page,
        "### The Windows Machine Config Operator blocks a node",
    );
    for words in [
        "node upgrade has been blocked",
        "oc label node win-1 windowsmachineconfig.openshift.io/allow-upgrade=true",
    ] {
        assert!(wmco.contains(words), "{words}");
    }
}
