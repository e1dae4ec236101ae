//! Blocks of code in Markdown, and the comments before them that say what is to be made of them.

use std::fs;
use std::path::Path;

use pulldown_cmark::{CodeBlockKind, Event, Parser, Tag, TagEnd};

use crate::links::files;

/// A page.
pub struct Page {
    /// Its path in the tree.
    pub path: String,
    /// Its text.
    pub text: String,
    /// Its blocks of code, from top to bottom.
    pub blocks: Vec<Block>,
    /// Who runs the commands of the whole page, where this test does not.
    pub run_by: Option<String>,
}

/// A block of code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// Where it is, as `page:line`.
    pub place: String,
    /// What it is.
    pub language: String,
    /// What it holds.
    pub code: String,
    /// The comments right before it.
    pub marks: Vec<Mark>,
}

/// A comment that says what is to be made of a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mark {
    /// `<!-- not run: REASON -->`
    NotRun(String),
    /// `<!-- run by: TEST -->`, or `make TARGET` in its place.
    RunBy(String),
    /// `<!-- exit status: NUMBER -->`
    ExitStatus(i32),
    /// `<!-- page run by: TEST -->`, for all blocks of the page.
    PageRunBy(String),
}

/// Every page of the tree.
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

/// The page of that path.
pub fn page(path: &str) -> Page {
    let found = pages().into_iter().find(|page| page.path == path);
    found.unwrap_or_else(|| panic!("there is no page {path}"))
}

impl Page {
    /// Finds the blocks of a page.
    pub fn read(path: &str, text: String) -> Self {
        let (mut blocks, mut marks) = (Vec::new(), Vec::new());
        let (mut comment, mut run_by) = (None::<String>, None);
        let mut open: Option<Block> = None;
        for (event, range) in Parser::new(&text).into_offset_iter() {
            match event {
                Event::Start(Tag::CodeBlock(kind)) => {
                    let line = 1 + text[..range.start].matches('\n').count();
                    open = Some(Block {
                        place: format!("{path}:{line}"),
                        language: match kind {
                            CodeBlockKind::Fenced(info) => info.into_string(),
                            CodeBlockKind::Indented => String::new(),
                        },
                        code: String::new(),
                        marks: std::mem::take(&mut marks),
                    });
                }
                Event::End(TagEnd::CodeBlock) => blocks.extend(open.take().map(Block::named)),
                Event::Text(text) => {
                    if let Some(block) = &mut open {
                        block.code.push_str(&text);
                    }
                }
                Event::Start(Tag::HtmlBlock) => comment = Some(String::new()),
                Event::Html(html) => {
                    if let Some(comment) = &mut comment {
                        comment.push_str(&html);
                    }
                }
                Event::End(TagEnd::HtmlBlock) => {
                    match Mark::read(&comment.take().unwrap_or_default()) {
                        Some(Mark::PageRunBy(name)) => run_by = Some(name),
                        mark => marks.extend(mark),
                    }
                }
                // What stands between a comment and a block takes the comment from the block.
                Event::Start(_) => marks.clear(),
                _ => {}
            }
        }
        Self {
            path: path.to_owned(),
            text,
            blocks,
            run_by,
        }
    }
}

impl Block {
    /// Gives a block without a language that of what it holds: commands, with or without what they print.
    fn named(mut self) -> Self {
        if self.language.is_empty() {
            let with_output = self.code.lines().any(|line| line.starts_with("$ "));
            let language = if with_output { "console" } else { "sh" };
            language.clone_into(&mut self.language);
        }
        self
    }

    /// Whether it holds commands.
    pub fn is_typed(&self) -> bool {
        ["sh", "console", "bat"].contains(&self.language.as_str())
    }

    /// Whether a comment says that it is not run, or run elsewhere.
    pub fn is_let_alone(&self) -> bool {
        let not_here = |mark: &Mark| matches!(mark, Mark::NotRun(_) | Mark::RunBy(_));
        self.marks.iter().any(not_here)
    }

    /// The exit status that its commands may have, beside 0.
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
            "page run by" => Some(Self::PageRunBy(rest)),
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
