//! Code blocks in Markdown, and the comments before them that say how to test them.

use std::fs;
use std::path::Path;

use testbed::markdown;

use crate::docs::links::files;

/// A page of the documentation.
pub struct Page {
    /// Its path in the tree.
    pub path: String,
    /// Its text.
    pub text: String,
    /// Its code blocks, from top to bottom.
    pub blocks: Vec<Block>,
    /// The test that runs the commands of the whole page in place of this one: `<!-- page run by: TEST -->`.
    pub run_by: Option<String>,
}

/// A code block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// Where it is, as `page:line`.
    pub place: String,
    /// Its language.
    pub language: String,
    /// Its content.
    pub code: String,
    /// The comments right before it.
    pub marks: Vec<Mark>,
}

/// A comment that says how to test a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mark {
    /// `<!-- not run: REASON -->`
    NotRun(String),
    /// `<!-- run by: TEST -->`, or `make TARGET` in its place.
    RunBy(String),
    /// `<!-- exit status: NUMBER -->`
    ExitStatus(i32),
}

/// Returns every page of the tree.
pub fn pages() -> Vec<Page> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    files(root, "*.md")
        .into_iter()
        .map(|file| {
            let path = file.strip_prefix(root).unwrap().to_str().unwrap();
            Page::read(path, fs::read_to_string(&file).unwrap())
        })
        .collect()
}

/// Returns the page at this path.
pub fn page(path: &str) -> Page {
    let found = pages().into_iter().find(|page| page.path == path);
    found.unwrap_or_else(|| panic!("there is no page {path}"))
}

impl Page {
    /// Parses the blocks of a page.
    pub fn read(path: &str, text: String) -> Self {
        let blocks = markdown::blocks(&text).into_iter();
        let comments = text.split("<!-- ").skip(1);
        let run_by =
            comments.filter_map(|rest| rest.strip_prefix("page run by:")?.split("-->").next());
        Self {
            path: path.to_owned(),
            blocks: blocks.map(|block| Block::of(path, block)).collect(),
            run_by: run_by.map(|name| name.trim().to_owned()).next(),
            text,
        }
    }
}

impl Block {
    /// Creates a block. Without a language, the content decides: commands, with or without their output.
    fn of(path: &str, block: markdown::Block) -> Self {
        let with_output = block.code.lines().any(|line| line.starts_with("$ "));
        let language = match block.language.as_str() {
            "" if with_output => "console",
            "" => "sh",
            language => language,
        };
        Self {
            place: format!("{path}:{}", block.line),
            language: language.to_owned(),
            marks: block
                .comments
                .iter()
                .filter_map(|comment| Mark::read(comment))
                .collect(),
            code: block.code,
        }
    }

    /// Returns whether the block contains commands.
    pub fn is_typed(&self) -> bool {
        ["sh", "console", "bat"].contains(&self.language.as_str())
    }

    /// Returns whether a comment says that the block is not run, or is run elsewhere.
    pub fn is_let_alone(&self) -> bool {
        let not_here = |mark: &Mark| matches!(mark, Mark::NotRun(_) | Mark::RunBy(_));
        self.marks.iter().any(not_here)
    }

    /// Returns the exit status that its commands may have besides 0.
    pub fn exit_status(&self) -> Option<i32> {
        self.marks.iter().find_map(|mark| match mark {
            Mark::ExitStatus(status) => Some(*status),
            _ => None,
        })
    }
}

impl Mark {
    fn read(comment: &str) -> Option<Self> {
        let text = comment.trim().strip_prefix("<!--")?.strip_suffix("-->")?;
        let (word, rest) = text.split_once(':')?;
        let rest = rest.trim().to_owned();
        match word.trim() {
            "not run" => Some(Self::NotRun(rest)),
            "run by" => Some(Self::RunBy(rest)),
            "exit status" => rest.parse().ok().map(Self::ExitStatus),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Page {
        Page::read("page.md", text.to_owned())
    }

    #[test]
    fn blocks_have_their_place_language_and_marks() {
        let page = read(
            "# Title\n\n<!-- not run: needs OpenShift -->\n```sh\noc whoami\n```\n\n<!-- exit status: 3 -->\n\n    \
             $ check\n    no\n\ntext\n\n    ls\n",
        );
        let [first, second, third] = page.blocks.as_slice() else {
            panic!("{:?}", page.blocks);
        };
        assert_eq!(first.place, "page.md:4");
        assert_eq!(
            (first.language.as_str(), first.code.as_str()),
            ("sh", "oc whoami\n")
        );
        assert_eq!(first.marks, [Mark::NotRun("needs OpenShift".to_owned())]);
        assert!(first.is_let_alone());
        assert_eq!(
            (second.language.as_str(), second.exit_status()),
            ("console", Some(3))
        );
        assert!(!second.is_let_alone());
        assert_eq!(third.language, "sh");
        assert!(third.marks.is_empty());
    }

    #[test]
    fn a_comment_counts_for_the_block_right_after_it_alone() {
        let page = read("<!-- not run: one -->\n\ntext\n\n    ls\n");
        assert!(!page.blocks[0].is_let_alone());
        let page = read("<!-- a note -->\n\n    ls\n");
        assert!(page.blocks[0].marks.is_empty());
    }

    #[test]
    fn a_page_may_be_run_elsewhere() {
        let page = read("# T\n\n<!-- page run by: some_test -->\n\ntext\n\n    ls\n");
        assert_eq!(page.run_by.as_deref(), Some("some_test"));
    }
}
