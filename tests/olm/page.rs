//! docs/operatorcondition.md: what it tells people to type is typed here, and what it shows is what comes out.

use std::path::Path;

use pulldown_cmark::{Event, Parser, Tag, TagEnd};

use crate::cluster::Cluster;

const PAGE: &str = include_str!(concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/docs/operatorcondition.md"
));

/// A command of the page and what the page shows that it prints.
struct Example {
    command: String,
    output: String,
}

/// Runs the commands under that heading one after the other, and compares what each prints with the page.
pub fn follow(cluster: &Cluster, heading: &str) {
    for Example { command, output } in examples(heading) {
        let printed = without_padding(&cluster.shell(&command));
        assert_eq!(
            printed, output,
            "docs/operatorcondition.md, {heading}: what this prints is not what the page shows: {command}"
        );
    }
}

/// The commands under a heading: in code blocks, each after `$ `, up to the next heading.
fn examples(heading: &str) -> Vec<Example> {
    let (mut title, mut in_title, mut in_code) = (String::new(), false, false);
    let mut examples: Vec<Example> = Vec::new();
    for event in Parser::new(PAGE) {
        match event {
            Event::Start(Tag::Heading { .. }) => (title, in_title) = (String::new(), true),
            Event::End(TagEnd::Heading(_)) => in_title = false,
            Event::Start(Tag::CodeBlock(_)) => in_code = title == heading,
            Event::End(TagEnd::CodeBlock) => in_code = false,
            Event::Text(text) if in_title => title.push_str(&text),
            Event::Text(text) if in_code => {
                for line in text.lines() {
                    match (line.strip_prefix("$ "), examples.last_mut()) {
                        (Some(command), _) => examples.push(Example {
                            command: command.to_owned(),
                            output: String::new(),
                        }),
                        (None, Some(example)) => example.output.extend([line, "\n"]),
                        (None, None) => {}
                    }
                }
            }
            _ => {}
        }
    }
    assert!(
        !examples.is_empty(),
        "docs/operatorcondition.md has no command under {heading:?}"
    );
    examples
}

/// Columns are filled up with blanks, the last one too.
fn without_padding(text: &str) -> String {
    let lines = text.lines().filter(|line| !line.trim().is_empty());
    lines.flat_map(|line| [line.trim_end(), "\n"]).collect()
}

impl Cluster {
    /// What a command line prints on standard output, with kubectl on the path and all rights on this cluster.
    fn shell(&self, line: &str) -> String {
        let kubectl = testbed::parts::part("kubectl").unwrap();
        let path =
            std::env::join_paths(std::iter::once(kubectl.parent().unwrap().to_owned()).chain(
                std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()),
            ))
            .unwrap();
        let output = tokio::task::block_in_place(|| {
            std::process::Command::new("sh")
                .args(["-c", line])
                .env("PATH", path)
                .env("KUBECONFIG", self.control_plane.kubeconfig())
                .current_dir(Path::new("/"))
                .output()
        })
        .unwrap();
        assert!(
            output.status.success(),
            "{line}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8(output.stdout).unwrap()
    }
}
