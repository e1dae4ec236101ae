//! Code blocks in Markdown, and the comments before them that say how to test them.

use testbed::markdown;

use crate::docs::{files, read};

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
pub struct Block {
    /// Where it is, as `page:line`.
    pub place: String,
    /// Its language.
    pub language: String,
    /// Its content.
    pub code: String,
    /// The comments right before it: `not run: REASON`, `run by: TEST` or `make TARGET`, `exit status: NUMBER`.
    pub marks: Vec<(String, String)>,
}

/// Returns every page of the tree.
pub fn pages() -> Vec<Page> {
    files("*.md")
        .iter()
        .map(|file| page(file.to_str().unwrap()))
        .collect()
}

/// Returns the page at this path.
pub fn page(path: &str) -> Page {
    let text = read(path);
    let blocks = markdown::blocks(&text).into_iter();
    let mut comments = text.split("<!-- ").skip(1).filter_map(mark);
    let run_by = comments.find(|(word, _)| word == "page run by");
    Page {
        path: path.to_owned(),
        blocks: blocks.map(|block| Block::of(path, block)).collect(),
        run_by: run_by.map(|(_, name)| name),
        text,
    }
}

/// Splits a comment, without its beginning, into the part before the colon and the one after it.
fn mark(comment: &str) -> Option<(String, String)> {
    let (text, _) = comment.split_once("-->")?;
    let (word, rest) = text.split_once(':')?;
    Some((word.trim().to_owned(), rest.trim().to_owned()))
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
        let comments = block.comments.iter();
        Self {
            place: format!("{path}:{}", block.line),
            language: language.to_owned(),
            marks: comments
                .filter_map(|comment| mark(comment.trim().strip_prefix("<!--")?))
                .collect(),
            code: block.code,
        }
    }

    /// Returns whether the block contains commands.
    pub fn is_typed(&self) -> bool {
        ["sh", "console", "bat"].contains(&self.language.as_str())
    }

    /// Returns what a comment before the block says after this word.
    pub fn mark(&self, word: &str) -> Option<&str> {
        let mut marks = self.marks.iter();
        marks.find_map(|(found, rest)| (found == word).then_some(&**rest))
    }

    /// Returns whether a comment says that the block is not run, or is run elsewhere.
    pub fn is_let_alone(&self) -> bool {
        self.mark("not run").or(self.mark("run by")).is_some()
    }

    /// Returns the exit status that its commands may have besides 0.
    pub fn exit_status(&self) -> Option<i32> {
        self.mark("exit status")?.parse().ok()
    }
}
